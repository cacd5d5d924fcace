/* One look at a time: which batches there is something to do for, then one of them after the other. */
#include "manager/core/batches.h"

#include "common/log.h"
#include "manager/core/waits.h"
#include "manager/core/window.h"

#include <stdlib.h>
#include <string.h>

/* A look costs the more the more batches live: a kick waits a multiple of what the last one took. */
enum { LOOK_MS = 1000, KICK_MS = 10, KICK_TIMES = 4, DUE_MOST = 100, TASKS_MOST = 1000 };

/* After some could not be moved, each of which takes the time-out of a lock, locked ones are left out for so long. */
enum { FAILED_MOST = 2, CAREFUL_MS = 10000 };

struct batches {
	struct core *core;
	bool busy, kicked;
	bool moved;               /* something was done since the last look */
	int64_t next_ms, kick_ms; /* when to look again, and when after a kick */
	int64_t began_ms;
	int64_t after;            /* the next look begins beyond this id; 0: at the beginning */
	int64_t careful_until_ms; /* see CAREFUL_MS */
	struct store_batch_due list[DUE_MOST];
	int count, at, failed;
	struct store_batches_due due;
	struct store_batch_move move;
};

struct batches *batches_create(struct core *core)
{
	struct batches *b = mem_calloc(1, sizeof *b);
	b->core = core;
	return b;
}

void batches_destroy(struct batches *batches)
{
	free(batches);
}

/* After something was done there may be more to do at once; what failed is tried again with the next look. */
static void rest(struct batches *b)
{
	int64_t now = core_now(b->core);
	b->busy = false;
	b->kicked |= b->moved || b->after;
	b->next_ms = now + LOOK_MS;
	core_alarm(b->core, b->kicked ? b->kick_ms : b->next_ms);
}

static void move_next(struct batches *b);

static void tell(struct batches *b)
{
	const struct store_batch_move *m = &b->move;
	b->moved |= m->tasks > 0 || *m->steps;
	for (int i = 0; m->ended && i < m->tasks; i++) {
		window_drop(b->core->window, m->ended[i]);
		waits_ended(b->core->waits, m->ended[i]);
	}
	if (m->due.work == STORE_BATCH_FAIL && m->tasks)
		log_warn(NULL, "batch %lld: %d tasks ended dead, its entry task having failed", (long long)m->due.id, m->tasks);
	if (*m->steps)
		core_callbacks(b->core); /* of its begin or its end */
	if (strstr(m->steps, "ended"))
		log_info(NULL, "batch %lld, \"%s\" of queue \"%s\", has ended: %lld tasks, %lld passed, %lld failed",
		    (long long)m->due.id, m->name, m->queue, (long long)m->submitted, (long long)m->success,
		    (long long)m->failed);
}

static void on_moved(struct store_op *op, const struct reeve_error *error)
{
	struct batches *b = (struct batches *)((char *)op - offsetof(struct batches, move));
	if (!error) {
		tell(b);
	} else if (++b->failed == FAILED_MOST) { /* the rest is looked for again, without those that are locked */
		b->careful_until_ms = core_now(b->core) + CAREFUL_MS;
		b->after = b->move.due.id;
		b->at = b->count;
	}
	move_next(b);
}

static void move_next(struct batches *b)
{
	if (b->at == b->count) {
		rest(b);
		return;
	}
	b->move = (struct store_batch_move){.op.done = on_moved, .due = b->list[b->at++], .limit = TASKS_MOST};
	store_batch_move(b->core->store, &b->move);
}

static void on_due(struct store_op *op, const struct reeve_error *error)
{
	struct batches *b = (struct batches *)((char *)op - offsetof(struct batches, due));
	int64_t now = core_now(b->core);
	b->at = b->count = b->failed = 0;
	b->after = 0;
	b->moved = false;
	b->kick_ms = now + KICK_MS + KICK_TIMES * (now - b->began_ms);
	if (!error) {
		b->count = b->due.count;
		b->after = b->count == DUE_MOST ? b->due.due[b->count - 1].id : 0;
		memcpy(b->list, b->due.due, sizeof *b->list * (size_t)b->count);
	}
	move_next(b);
}

void batches_kick(struct batches *b)
{
	b->kicked = true;
	if (!b->busy)
		core_alarm(b->core, b->kick_ms);
}

int64_t batches_turn(struct batches *b, int64_t now_ms)
{
	int64_t next = b->kicked && b->kick_ms < b->next_ms ? b->kick_ms : b->next_ms;
	if (b->busy)
		return INT64_MAX;
	if (now_ms < next)
		return next;
	b->busy = true;
	b->kicked = false;
	b->began_ms = now_ms;
	b->due = (struct store_batches_due){
	    .op.done = on_due,
	    .limit = DUE_MOST,
	    .after = b->after,
	    .free_only = now_ms < b->careful_until_ms,
	};
	store_batches_due(b->core->store, &b->due);
	return INT64_MAX;
}
