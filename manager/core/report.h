/* Results of attempts: commits them, then informs the calls that wait for the tasks, and returns tasks that are due
 * again to the ready cache. */
#ifndef REEVE_MANAGER_CORE_REPORT_H
#define REEVE_MANAGER_CORE_REPORT_H

#include "manager/core/base.h"

struct db_clock;
struct reports;
struct queues;
struct spans;
struct task_events;
struct verbose;

struct reports *reports_create(struct base *base, struct task_events *events, struct queues *queues,
    const struct verbose *verbose, struct spans *spans, const struct db_clock *clock);
void reports_destroy(struct reports *reports);

/* Commits the results; op->results then has the result statuses. Calls the caller's `op->op.done` after the core has
 * applied them. `op` and all it points to must live until then. */
void report_results(struct reports *reports, struct store_report *op);

/* Applies the ends of attempts that `op` has committed: informs waiting calls, the ready cache and the other managers.
 * If `op` was retried (`again`), the changes of its earlier try are unknown, and all streams are read from the
 * beginning. `reporter`: the caller that has reported them, for the log; "": none has. */
void report_apply(struct reports *reports, const struct store_op *op, const struct store_result *results, int count,
    const char *reporter);

#endif
