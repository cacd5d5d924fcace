/* Applies the ends of attempts. */
#include "manager/core/report.h"

#include "common/log.h"
#include "manager/core/db_clock.h"
#include "manager/core/queues.h"
#include "manager/core/spans.h"
#include "manager/core/task_events.h"
#include "manager/core/verbose.h"

#include <stdlib.h>
#include <string.h>

struct reports {
	struct base *base;
	struct task_events *events;
	struct queues *queues;
	const struct verbose *verbose;
	struct spans *spans;
	const struct db_clock *clock;
};

struct reports *reports_create(struct base *base, struct task_events *events, struct queues *queues,
    const struct verbose *verbose, struct spans *spans, const struct db_clock *clock)
{
	struct reports *r = mem_calloc(1, sizeof *r);
	*r = (struct reports){base, events, queues, verbose, spans, clock};
	return r;
}

void reports_destroy(struct reports *reports)
{
	free(reports);
}

void report_apply(struct reports *reports, const struct store_op *op, const struct store_result *results, int count,
    const char *reporter)
{
	struct base *base = reports->base;
	bool batched = false;
	for (int i = 0; i < count; i++) {
		const struct store_result *r = &results[i];
		if (r->ack == STORE_LATER)
			continue;
		batched |= r->batched;
		if (r->ack == STORE_ACCEPTED) {
			verbose_result(reports->verbose, r);
			traffic_attempt(&base->traffic, r, db_clock_us(reports->clock) - r->token);
			spans_ended(reports->spans, r, db_clock_us(reports->clock));
			queues_use_room(reports->queues, r->route, -1);
		}
		if (r->ack != STORE_ACCEPTED) {
			base->counters.late += r->ack == STORE_LATE;
			if (r->ack == STORE_LATE &&
			    remarks_new(&base->remarks, REMARK_LATE_RESULT, r->id, r->token, base_now(base)))
				log_info(NULL,
				    "task %lld: a result (%s) of an attempt that does not hold it, by %s; nothing was changed",
				    (long long)r->id, store_outcome_name(r->outcome), *reporter ? reporter : "a caller");
		} else if (r->ended) {
			base->counters.completed += r->outcome == STORE_COMPLETED && !strcmp(r->becomes, "completed");
			task_ended(reports->events, r->id, false);
		} else {
			base->counters.failed += r->outcome == STORE_FAILED;
			base->counters.returned += r->outcome == STORE_RETURNED;
			task_ready(reports->events, &(struct ready_task){r->id, r->version, r->due_us, r->route, r->priority, -1});
		}
	}
	if (batched)
		batches_changed(reports->events);
	task_events_end(reports->events, op->again);
}

/* Wraps the caller's operation and its callback. */
struct report {
	struct reports *reports;
	void (*done)(struct store_op *op, const struct reeve_error *error);
	struct store_report op;
	struct store_report *given;
};

static void on_reported(struct store_op *op, const struct reeve_error *error)
{
	struct report *r = (struct report *)((char *)op - offsetof(struct report, op));
	if (!error)
		report_apply(r->reports, op, r->op.results, r->op.count, r->op.actor);
	r->given->op.done(&r->given->op, error); /* the results belong to the caller, who may free them now */
	free(r);
}

void report_results(struct reports *reports, struct store_report *op)
{
	struct report *r = mem_calloc(1, sizeof *r);
	r->reports = reports;
	r->given = op;
	r->op = *op;
	r->op.op.done = on_reported;
	store_report(reports->base->store, &r->op);
}
