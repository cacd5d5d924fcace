/* A run of the job polls for batches with work to do, then processes them one after another. */
#include "manager/core/batches.h"

#include "common/log.h"
#include "manager/core/task_events.h"

#include <stdlib.h>
#include <string.h>

enum { DUE_MAX = 100, TASKS_MAX = 1000 };

/* After FAILED_MAX failures, each of which takes a lock timeout, polls leave out locked batches for CAREFUL_MS. */
enum { FAILED_MAX = 2, CAREFUL_MS = 10000 };

struct batches {
	struct base *base;
	struct task_events *events;
	bool moved;               /* the current run has changed a batch */
	int64_t after;            /* the next poll begins after this id; 0: at the beginning */
	int64_t careful_until_ms; /* see CAREFUL_MS */
	struct store_batch_due list[DUE_MAX];
	int count, at, failed;
	struct store_batches_due due;
	struct store_batch_move move;
};

static void move_next(struct batches *b);

static void notify(struct batches *b)
{
	const struct store_batch_move *m = &b->move;
	b->moved |= m->tasks > 0 || *m->steps;
	for (int i = 0; m->ended && i < m->tasks; i++)
		task_ended(b->events, m->ended[i], true);
	if (m->due.work == STORE_BATCH_FAIL && m->tasks)
		log_warn(NULL, "batch %lld: %d tasks ended dead, its entry task having failed", (long long)m->due.id, m->tasks);
	if (*m->steps)
		jobs_ask(b->base->jobs, JOB_CALLBACKS); /* for the batch's begin or end */
	if (strstr(m->steps, "ended"))
		log_info(NULL, "batch %lld, \"%s\" of queue \"%s\", has ended: %lld tasks, %lld completed, %lld failed",
		    (long long)m->due.id, m->name, m->queue, (long long)m->submitted, (long long)m->completed,
		    (long long)m->failed);
}

static void on_moved(struct store_op *op, const struct reeve_error *error)
{
	struct batches *b = (struct batches *)((char *)op - offsetof(struct batches, move));
	if (!error) {
		notify(b);
	} else if (++b->failed == FAILED_MAX) { /* the next poll finds the others, without locked ones */
		b->careful_until_ms = base_now(b->base) + CAREFUL_MS;
		b->after = b->move.due.id;
		b->at = b->count;
	}
	move_next(b);
}

static void move_next(struct batches *b)
{
	if (b->at == b->count) {
		/* After a change there may be more work at once. The next poll finds again what failed. */
		if (b->moved || b->after)
			jobs_ask(b->base->jobs, JOB_BATCHES);
		jobs_done(b->base->jobs, JOB_BATCHES, NULL, false);
		return;
	}
	b->move = (struct store_batch_move){.op.done = on_moved, .due = b->list[b->at++], .limit = TASKS_MAX};
	store_batch_move(b->base->store, &b->move);
}

static void on_due(struct store_op *op, const struct reeve_error *error)
{
	struct batches *b = (struct batches *)((char *)op - offsetof(struct batches, due));
	b->at = b->count = b->failed = 0;
	b->after = 0;
	b->moved = false;
	if (error) {
		jobs_done(b->base->jobs, JOB_BATCHES, error, false);
		return;
	}
	jobs_found(b->base->jobs, JOB_BATCHES);
	b->count = b->due.count;
	b->after = b->count == DUE_MAX ? b->due.due[b->count - 1].id : 0;
	memcpy(b->list, b->due.due, sizeof *b->list * (size_t)b->count);
	move_next(b);
}

static bool poll_batches(void *arg)
{
	struct batches *b = arg;
	b->due = (struct store_batches_due){
	    .op.done = on_due,
	    .limit = DUE_MAX,
	    .after = b->after,
	    .free_only = base_now(b->base) < b->careful_until_ms,
	};
	store_batches_due(b->base->store, &b->due);
	return true;
}

struct batches *batches_create(struct base *base, struct task_events *events)
{
	struct batches *b = mem_calloc(1, sizeof *b);
	b->base = base;
	b->events = events;
	jobs_bind(base->jobs, JOB_BATCHES, poll_batches, b);
	return b;
}

void batches_destroy(struct batches *batches)
{
	free(batches);
}
