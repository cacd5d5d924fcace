/*
 * The courier: asks for tasks and carries results. Decides when a Fetch is parked and what goes into a Report.
 */
#ifndef REEVE_WORKER_COURIER_H
#define REEVE_WORKER_COURIER_H

#include "worker/state.h"

/* Starts (and cancels) whatever calls are due. Called by control without the lock. */
void courier_step(struct reeve_worker *worker);

/* Whether a report could go now. Called with the lock. */
bool courier_has_report(const struct reeve_worker *worker);

/* When courier_step will have something to do by time alone, on the monotonic clock; INT64_MAX: never. Called with the
 * lock. */
int64_t courier_next_ms(const struct reeve_worker *worker);

#endif
