/*
 * Sends what running handlers report: one call at a time, with the news of all attempts, and those of one attempt at
 * most once a second. An older manager does not know the call; then everything goes with the results.
 */
#ifndef REEVE_WORKER_PROGRESS_H
#define REEVE_WORKER_PROGRESS_H

#include "worker/session.h"

struct progress {
	struct shared *shared;
	struct session *session;
	struct in_flight *in_flight;

	_Atomic bool any; /* there may be news */
	/* Guarded by the worker's lock. */
	bool open;          /* a call is open */
	int64_t next_ms;    /* not before this time (monotonic) */
	int64_t refused_by; /* the incarnation whose manager does not take them; 0: none */
};

/* Starts a call if one is due. Called by control without the lock. */
void progress_step(struct progress *progress);

/* Returns when control must call progress_step again; INT64_MAX: when it is woken. Called with the lock. */
int64_t progress_next_ms(const struct progress *progress);

/* What handlers report; any thread, until the handler returns. Without the lock. */
void attempt_report_progress(struct attempt *attempt, double percent, const char *remark); /* NULL: it stays */
void attempt_report_remark(struct attempt *attempt, const char *remark);
void attempt_report_log(struct attempt *attempt, const char *text, size_t length);

#endif
