/*
 * The fetch and report loop: decides when to park a Fetch and what a Report carries.
 */
#ifndef REEVE_WORKER_COURIER_H
#define REEVE_WORKER_COURIER_H

#include "worker/state.h"

/* Starts and cancels the calls that are due. Called by control without the lock. */
void courier_step(struct reeve_worker *worker);

/* Returns true if a report could be sent now. Called with the lock. */
bool courier_has_report(const struct reeve_worker *worker);

/* Returns when courier_step will have something to do because time has passed, on the monotonic clock; INT64_MAX:
 * never. Called with the lock. */
int64_t courier_next_ms(const struct reeve_worker *worker);

#endif
