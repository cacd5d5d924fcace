/*
 * The lease, as shared by everything that starts or runs handlers: the slots, the handlers, and, through memory shared
 * with the worker, the watchdog (supervisor.c).
 *
 * It is counted on the monotonic clock, from when the last acknowledged heartbeat was sent. It ends in three steps. At
 * stop_ms, nothing starts any more, and what runs is asked to stop. At kill_ms, programs are killed. At watchdog_ms,
 * the watchdog kills whatever still runs, and the worker too if a C function runs in it. A thread or process that was
 * frozen, however long, reads the clock before it starts anything.
 */
#ifndef REEVE_WORKER_LEASE_H
#define REEVE_WORKER_LEASE_H

#include "common/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	LEASE_STOP_PART = 4,      /* handlers are asked to stop 1/4 of the lease before its end, */
	LEASE_KILL_PART = 8,      /* the worker kills programs 1/8 before it, */
	LEASE_WATCHDOG_PART = 12, /* and the watchdog kills everything up to 1/12 before it: */
	LEASE_WATCHDOG_MS = 150,  /* it needs no more time than this, */
	LEASE_DRIFT_PART = 500,   /* plus 1/500 of the lease for clock drift: twice what NTP allows */
};

/* All zero: there was no lease yet. */
struct lease {
	_Atomic int64_t stop_ms;
	_Atomic int64_t kill_ms;
	_Atomic int64_t watchdog_ms;

	/* The number of slots in which a C function runs or may start. A slot raises it before it reads the clock. So if
	 * the watchdog finds it zero once the lease is over, no function runs and none will start. */
	_Atomic uint32_t functions;

	_Atomic int64_t seen_ms; /* the watchdog_ms that the watchdog has last read */
};

/* Sets a lease of `length_ms` that ends at `until_ms`. */
static inline void lease_set(struct lease *lease, int64_t until_ms, int64_t length_ms)
{
	int64_t watchdog = LEASE_WATCHDOG_MS + length_ms / LEASE_DRIFT_PART;

	if (watchdog > length_ms / LEASE_WATCHDOG_PART)
		watchdog = length_ms / LEASE_WATCHDOG_PART;

	atomic_store(&lease->watchdog_ms, until_ms - watchdog);
	atomic_store(&lease->kill_ms, until_ms - length_ms / LEASE_KILL_PART);
	atomic_store(&lease->stop_ms, until_ms - length_ms / LEASE_STOP_PART);
}

/* Returns true if handlers may start and continue to run. */
static inline bool lease_runs(const struct lease *lease, int64_t now_ms)
{
	return now_ms < atomic_load(&lease->stop_ms);
}

/* Returns true if the watchdog must kill what runs. */
static inline bool lease_watchdog_acts(const struct lease *lease)
{
	return clock_monotonic_ms() >= atomic_load(&lease->watchdog_ms);
}

#endif
