/*
 * Reporting: sends the results of ended attempts until they are acknowledged.
 *
 * In a busy worker the Reports fetch: each carries all results so far, and a Fetch for the free slots (fetcher.h).
 * Later results go with the next Report; with enough of them, a second Report may be in flight. A result that could not
 * be reported stays among the unacknowledged results (unacked.h).
 */
#ifndef REEVE_WORKER_REPORTER_H
#define REEVE_WORKER_REPORTER_H

#include "worker/fetcher.h"

/* Guarded by the worker's lock. */
struct reporter {
	struct shared *shared;
	struct session *session;
	struct in_flight *in_flight;
	struct slots *slots;
	struct fetcher *fetcher;

	struct backoff retry;    /* before the next Report */
	struct attempt *delayed; /* utlist: reported results with the ack LATER */
};

/* Starts the Reports that are due. Called by control without the lock. */
void reporter_step(struct reporter *reporter);

/* The functions below are called with the lock. */

/* Returns when reporter_step has something to do because time has passed, which may be over; INT64_MAX: never. */
int64_t reporter_next_ms(const struct reporter *reporter);

#endif
