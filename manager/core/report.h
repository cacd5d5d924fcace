/* Results of attempts: to the store, then to whoever waits, and back to the window what is due again. */
#ifndef REEVE_MANAGER_CORE_REPORT_H
#define REEVE_MANAGER_CORE_REPORT_H

#include "manager/core/base.h"

struct reports;
struct task_events;
struct verbose;

struct reports *reports_create(struct base *base, struct task_events *events, const struct verbose *verbose);
void reports_destroy(struct reports *reports);

/* Commits the results; op->results has the verdicts then. The caller's `op->op.done` is called after the core has taken
 * its part. Everything must live until then. */
void report_results(struct reports *reports, struct store_report *op);

/* Takes note of attempts that have been ended by `op`: for waiters, the window and the other managers. If it was asked again,
 * what an earlier try of it had changed was never told, and everything is read from the top. */
void report_settle(struct reports *reports, const struct store_op *op, const struct store_result *results, int count);

#endif
