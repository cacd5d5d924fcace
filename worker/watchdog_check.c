/* A worker that was itself frozen does not know yet that the programs have ended when it continues. So it must have
 * seen them running for SEEN_MS. */
#include "worker/watchdog_check.h"

#include "common/log.h"

enum {
	LATE_MS = 2000,          /* after the lease's end: by then a working watchdog has killed every program */
	SEEN_MS = 300,           /* how long the worker must have seen programs run that the watchdog should have killed, */
	CHECK_INTERVAL_MS = 100, /* in checks at this interval */
};

/* Returns when a watchdog that has not killed the programs is considered hung. */
static int64_t limit(const struct watchdog_check *check)
{
	return check->session->lease_until_ms + LATE_MS;
}

static bool applies(const struct watchdog_check *check)
{
	return check->supervisor && !check->killed && check->in_flight->taken_count;
}

static bool programs_run(const struct watchdog_check *check)
{
	const struct attempt *attempt;

	for (attempt = check->in_flight->all; attempt; attempt = attempt->hh.next)
		if (attempt->place == PLACE_TAKEN && attempt->handler && attempt->handler->processes)
			return true;
	return false;
}

void watchdog_check_step(struct watchdog_check *check, int64_t now_ms)
{
	if (!applies(check) || now_ms < limit(check) - SEEN_MS || !programs_run(check)) {
		check->seen_ms = 0;
		return;
	}
	if (!check->seen_ms || now_ms - check->checked_ms > 4 * CHECK_INTERVAL_MS)
		check->seen_ms = now_ms;
	check->checked_ms = now_ms;
	if (now_ms < limit(check) || now_ms - check->seen_ms < SEEN_MS)
		return;
	log_error(
	    check->session->shared->object, "programs run beyond the lease, the watchdog does not kill them: killing it");
	check->killed = true;
	supervisor_client_kill(check->supervisor);
}

int64_t watchdog_check_next_ms(const struct watchdog_check *check, int64_t now_ms)
{
	int64_t begin_ms = limit(check) - SEEN_MS;

	if (!applies(check))
		return INT64_MAX;
	if (check->seen_ms)
		return now_ms + CHECK_INTERVAL_MS;
	return now_ms < begin_ms || programs_run(check) ? begin_ms : INT64_MAX;
}
