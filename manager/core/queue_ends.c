/* Purges and stops work in chunks. Each chunk is a transaction, so that other transactions do not wait long for the
 * locks. */
#include "manager/core/queue_ends.h"

#include "common/log.h"
#include "common/mem.h"
#include "manager/core/edit.h"
#include "manager/core/queues.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The query costs more with more tasks in stopped queues, so it is repeated after a multiple of its time. */
enum { CHUNK = 1000, PAUSE_TIMES = 9, PAUSE_MAX_MS = 10000 };

struct queue_stops {
	struct base *base;
	struct queues *queues;
	struct edits *edits;
	bool asked;                 /* a stop was requested: query now, even if the settings have not been reloaded */
	int64_t began_ms, pause_ms; /* the last query's begin, and the end of the pause after it */
	int ending;                 /* queues whose tasks are being ended */
	bool progress;              /* a task has ended since the last query */
	struct store_queue_stops query;
};

/* One purge or stop of a queue. */
struct ends {
	struct queue_stops *stops;
	char *queue, *actor, *reason;
	struct store_queue_end op;
	int64_t ended, cancelled; /* tasks that ended, and running ones that got a cancel request */
	queue_purged *done;
	void *arg;
};

static void ends_free(struct ends *e)
{
	free(e->queue);
	free(e->actor);
	free(e->reason);
	free(e);
}

static void on_chunk(struct store_op *op, const struct reeve_error *error)
{
	struct ends *e = (struct ends *)((char *)op - offsetof(struct ends, op));
	if (!error) {
		for (int i = 0; i < e->op.found; i++) {
			e->ended += e->op.tasks[i].ended;
			e->cancelled += e->op.tasks[i].commanded_worker != 0;
		}
		edit_apply(e->stops->edits, op, e->op.tasks, e->op.found);
		if (e->op.more) {
			store_queue_end(e->stops->base->store, &e->op);
			return;
		}
	}
	if (e->op.stopping && e->ended + e->cancelled)
		log_info(NULL, "queue \"%s\" is being stopped: %lld waiting tasks ended, %lld running ones are cancelled",
		    e->queue, (long long)e->ended, (long long)e->cancelled);
	e->done(e->arg, e->ended, error);
	ends_free(e);
}

static void ends_begin(struct queue_stops *stops, const char *queue, int64_t up_to, const char *actor, bool stopping,
    int64_t deadline_ms, queue_purged *done, void *arg)
{
	struct ends *e = mem_calloc(1, sizeof *e);
	e->stops = stops;
	e->queue = mem_strdup(queue);
	e->actor = mem_strdup(actor);
	e->reason = mem_asprintf("queue \"%s\" was %s", queue, stopping ? "stopped" : "purged");
	e->done = done;
	e->arg = arg;
	e->op = (struct store_queue_end){
	    .op.done = on_chunk,
	    .op.deadline_ms = deadline_ms,
	    .queue = e->queue,
	    .actor = e->actor,
	    .reason = e->reason,
	    .up_to = up_to,
	    .stopping = stopping,
	    .limit = CHUNK,
	};
	store_queue_end(stops->base->store, &e->op);
}

void queue_purge(struct queue_stops *stops, const char *queue, int64_t up_to, const char *actor, int64_t deadline_ms,
    queue_purged *done, void *arg)
{
	ends_begin(stops, queue, up_to, actor, false, deadline_ms, done, arg);
}

void queue_stops_poll(struct queue_stops *s)
{
	s->asked = true;
	jobs_ask(s->base->jobs, JOB_QUEUE_STOPS);
}

/* Queries once more if tasks have ended: the queues may be empty now. */
static void poll_again(struct queue_stops *s)
{
	if (s->progress)
		queue_stops_poll(s);
	s->progress = false;
	jobs_done(s->base->jobs, JOB_QUEUE_STOPS, NULL, false);
}

static void on_ended(void *arg, int64_t tasks, const struct reeve_error *error)
{
	struct queue_stops *s = arg;
	s->progress |= tasks > 0 && !error;
	if (--s->ending == 0)
		poll_again(s);
}

static void on_polled(struct store_op *op, const struct reeve_error *error)
{
	struct queue_stops *s = (struct queue_stops *)((char *)op - offsetof(struct queue_stops, query));
	int64_t now_ms = base_now(s->base), pause = PAUSE_TIMES * (now_ms - s->began_ms);
	s->pause_ms = error ? now_ms : now_ms + (pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS);
	if (error || s->query.count == 0) {
		jobs_done(s->base->jobs, JOB_QUEUE_STOPS, error, false);
		return;
	}
	s->ending = s->query.count;
	for (int i = 0; i < s->query.count; i++) {
		const struct store_stop_work *w = &s->query.work[i];
		ends_begin(s, w->queue, w->up_to, w->actor, true, 0, on_ended, s);
	}
}

static bool poll_stops(void *arg)
{
	struct queue_stops *s = arg;
	int64_t now_ms = base_now(s->base);
	if (!s->asked && (!queues_stopped(s->queues) || now_ms < s->pause_ms))
		return false;
	s->asked = false;
	s->began_ms = now_ms;
	s->query = (struct store_queue_stops){.op.done = on_polled};
	store_queue_stops(s->base->store, &s->query);
	return true;
}

struct queue_stops *queue_stops_create(struct base *base, struct queues *queues, struct edits *edits)
{
	struct queue_stops *s = mem_calloc(1, sizeof *s);
	s->base = base;
	s->queues = queues;
	s->edits = edits;
	jobs_bind(base->jobs, JOB_QUEUE_STOPS, poll_stops, s);
	return s;
}

void queue_stops_destroy(struct queue_stops *s)
{
	free(s);
}
