/*
 * The lease, as everybody sees it who starts or runs something: the slots, the handlers, and, in memory shared with the
 * worker, the guard (spawner.c).
 *
 * It is counted on the monotonic clock from when the heartbeat was sent that a manager has acknowledged. Three times
 * lead to its end: from the first on nothing is started and what runs is asked to end, at the second programs are
 * killed, at the third the guard kills whatever still runs, and the worker itself if a C function does. Whoever was
 * held up, however long, and goes on reads the clock before starting anything.
 */
#ifndef REEVE_WORKER_LEASE_H
#define REEVE_WORKER_LEASE_H

#include "common/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	LEASE_STOP_PART = 4,   /* this part of it before its end what runs is asked to end, */
	LEASE_KILL_PART = 8,   /* is killed, */
	LEASE_GUARD_PART = 12, /* and is killed by the guard, */
	LEASE_GUARD_MS = 150,  /* which needs no more than this, */
	LEASE_DRIFT_PART = 500, /* beside what clocks may differ by in so long a time: twice what NTP lets them */
};

/* All zero: there has been none. */
struct lease {
	_Atomic int64_t stop_ms;
	_Atomic int64_t kill_ms;
	_Atomic int64_t guard_ms;

	/* Slots in which a C function runs, or may begin to. It is raised before the clock is read, so that when the
	 * guard finds it zero once the lease is over, no function runs and none will begin. */
	_Atomic uint32_t functions;

	_Atomic int64_t seen_ms; /* the guard_ms that the guard has last seen */
};

/* It ends at `until_ms` and is so long. */
static inline void lease_set(struct lease *lease, int64_t until_ms, int64_t length_ms)
{
	int64_t guard = LEASE_GUARD_MS + length_ms / LEASE_DRIFT_PART;

	if (guard > length_ms / LEASE_GUARD_PART)
		guard = length_ms / LEASE_GUARD_PART;

	atomic_store(&lease->guard_ms, until_ms - guard);
	atomic_store(&lease->kill_ms, until_ms - length_ms / LEASE_KILL_PART);
	atomic_store(&lease->stop_ms, until_ms - length_ms / LEASE_STOP_PART);
}

/* Whether something may be started, and what runs may go on. */
static inline bool lease_runs(const struct lease *lease, int64_t now_ms)
{
	return now_ms < atomic_load(&lease->stop_ms);
}

/* Whether it is over for the guard. */
static inline bool lease_guard_acts(const struct lease *lease)
{
	return clock_monotonic_ms() >= atomic_load(&lease->guard_ms);
}

#endif
