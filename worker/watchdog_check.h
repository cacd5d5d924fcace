/*
 * A check on the watchdog: if programs still run after the lease's end that the supervisor should have killed, this
 * kills the supervisor, and all programs with it. Control calls it, with the worker's lock.
 */
#ifndef REEVE_WORKER_WATCHDOG_CHECK_H
#define REEVE_WORKER_WATCHDOG_CHECK_H

#include "worker/session.h"

struct watchdog_check {
	const struct session *session;
	const struct in_flight *in_flight;
	struct supervisor_client *supervisor; /* NULL: none */

	bool killed;        /* the supervisor, because it hung */
	int64_t seen_ms;    /* since when programs run that it should have killed; 0: none do */
	int64_t checked_ms; /* when this was last checked */
};

void watchdog_check_step(struct watchdog_check *check, int64_t now_ms);

/* Returns when watchdog_check_step must be called next, which may be over; INT64_MAX: when something has changed. */
int64_t watchdog_check_next_ms(const struct watchdog_check *check, int64_t now_ms);

#endif
