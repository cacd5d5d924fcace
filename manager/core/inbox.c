/* A run of the job walks the inbox from the lowest id up, until it finds no more. Tasks may come before it without end,
 * and others are committed behind it: so it begins again after a while. Not before it has ingested something: the first
 * tasks may be those of batches that are locked for long, each of which takes time. */
#include "manager/core/inbox.h"

#include "common/log.h"
#include "manager/core/task_events.h"

#include <stdlib.h>

enum { TASKS_MAX = 1000, WALK_MS = 500 };

struct inbox {
	struct base *base;
	struct task_events *events;
	struct store_ingest op;
	int64_t began_ms;
	bool progress; /* it has ingested or ended tasks since began_ms */
};

static void ingest(struct inbox *a, int64_t beyond);
static void walk_from(struct inbox *a, int64_t beyond);

/* Logs and reports the tasks that ended dead, and counts the ingested ones. The database itself notifies all managers
 * of those. */
static void report_batch(struct inbox *a)
{
	for (int i = 0; i < a->op.ended; i++) {
		log_warn(NULL, "task %lld, submitted by SQL, ended dead: %s", (long long)a->op.ended_ids[i], a->op.reason);
		task_ended(a->events, a->op.ended_ids[i], true);
	}
	a->base->counters.submitted += a->op.ingested;
	a->progress |= a->op.ingested + a->op.ended > 0;
	if (a->op.ingested)
		batches_changed(a->events);
}

static void on_ingested(struct store_op *op, const struct reeve_error *error)
{
	struct inbox *a = (struct inbox *)((char *)op - offsetof(struct inbox, op));
	if (!error) {
		report_batch(a);
		if (a->op.walked && base_now(a->base) - a->began_ms >= WALK_MS) {
			walk_from(a, a->progress ? 0 : a->op.walked);
			return;
		}
		if (a->op.walked) {
			/* After a full batch some tasks of the same queue, type and batch may not have been ingested. */
			ingest(a, a->op.ingested + a->op.ended < TASKS_MAX ? a->op.walked : a->op.walked - 1);
			return;
		}
	}
	jobs_done(a->base->jobs, JOB_INBOX, error, false); /* the job counts finds what failed, and runs this again */
}

static void ingest(struct inbox *a, int64_t beyond)
{
	a->op = (struct store_ingest){.op.done = on_ingested, .beyond = beyond, .limit = TASKS_MAX};
	store_ingest(a->base->store, &a->op);
}

static void walk_from(struct inbox *a, int64_t beyond)
{
	a->began_ms = base_now(a->base);
	a->progress = false;
	ingest(a, beyond);
}

static bool walk(void *arg)
{
	walk_from(arg, 0);
	return true;
}

struct inbox *inbox_create(struct base *base, struct task_events *events)
{
	struct inbox *a = mem_calloc(1, sizeof *a);
	a->base = base;
	a->events = events;
	jobs_bind(base->jobs, JOB_INBOX, walk, a);
	return a;
}

void inbox_destroy(struct inbox *inbox)
{
	free(inbox);
}
