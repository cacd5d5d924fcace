/*
 * The fetch and report loop: decides when to park a Fetch and what a Report carries.
 */
#ifndef REEVE_WORKER_FETCH_REPORT_H
#define REEVE_WORKER_FETCH_REPORT_H

#include "worker/state.h"

/* Starts and cancels the calls that are due. Called by control without the lock. */
void fetch_report_step(struct reeve_worker *worker);

/* Returns true if a report could be sent now. Called with the lock. */
bool fetch_report_has_report(const struct reeve_worker *worker);

/* Returns when fetch_report_step will have something to do because time has passed, on the monotonic clock; INT64_MAX:
 * never. Called with the lock. */
int64_t fetch_report_next_ms(const struct reeve_worker *worker);

#endif
