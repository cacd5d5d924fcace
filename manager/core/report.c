/* What follows from attempts' ends. */
#include "manager/core/report.h"

#include "common/log.h"
#include "manager/core/batches.h"
#include "manager/core/dispatch.h"
#include "manager/core/routes.h"
#include "manager/core/waits.h"
#include "manager/core/verbose.h"
#include "manager/core/wakes.h"
#include "manager/core/window.h"

#include <stdlib.h>
#include <string.h>

void report_settle(struct core *core, const struct store_op *op, const struct store_result *results, int count)
{
	bool batched = false;
	for (int i = 0; i < count; i++) {
		const struct store_result *r = &results[i];
		if (r->verdict == STORE_LATER)
			continue;
		batched |= r->batched;
		if (r->verdict == STORE_ACCEPTED)
			verbose_result(core, r);
		if (r->verdict != STORE_ACCEPTED) {
			core->counters.late += r->verdict == STORE_LATE;
			if (r->verdict == STORE_LATE &&
			    remarks_new(&core->remarks, REMARK_LATE_RESULT, r->id, r->token, core_now(core)))
				log_info(NULL, "task %lld: a result (%s) of an attempt that does not hold it; nothing was changed",
				    (long long)r->id, store_outcome_name(r->outcome));
		} else if (r->ended) {
			core->counters.ended++;
			core->counters.completed += r->outcome == STORE_COMPLETED && !strcmp(r->becomes, "completed");
			waits_ended(core->waits, r->id);
		} else {
			core->counters.failed += r->outcome == STORE_FAILED;
			core->counters.returned += r->outcome == STORE_RETURNED;
			if (routes_known(core->routes, r->route)) {
				window_note(core->window, r->route, r->priority, r->id, r->version, r->due_us, -1);
			} else {
				routes_heard(core->routes); /* it goes on by a route of which another manager knows */
			}
			wakes_tell(core->wakes, r->route, r->priority, r->due_us);
		}
	}
	if (batched)
		batches_kick(core->batches);
	dispatch_soon(core->dispatch);
	if (op->again)
		window_rewind_all(core->window);
}

/* Stands before the caller's callback. */
struct report {
	struct core *core;
	void (*done)(struct store_op *op, const struct reeve_error *error);
	struct store_report op;
	struct store_report *given;
};

static void on_reported(struct store_op *op, const struct reeve_error *error)
{
	struct report *r = (struct report *)((char *)op - offsetof(struct report, op));
	if (!error)
		report_settle(r->core, op, r->op.results, r->op.count);
	r->given->op.done(&r->given->op, error); /* the results go with their owner */
	free(r);
}

void report_results(struct core *core, struct store_report *op)
{
	struct report *r = mem_calloc(1, sizeof *r);
	r->core = core;
	r->given = op;
	r->op = *op;
	r->op.op.done = on_reported;
	store_report(core->store, &r->op);
}
