/*
 * The worker's life: whether it takes tasks, how far its end has advanced, and why it ends. It only moves forward,
 * except that a paused worker can be resumed.
 *
 *     RUNNING ⇄ PAUSED → DRAINING → STOPPING → REPORTING → ENDED
 *                                      └──────────────────→ STUCK
 *
 * A drain skips STOPPING if everything that runs ends in time. drain.c moves a draining worker forward; registration,
 * which goes on in all phases up to the drain, has phases of its own (session.h).
 *
 * Guarded by the worker's lock, except stop_requests.
 */
#ifndef REEVE_WORKER_LIFE_H
#define REEVE_WORKER_LIFE_H

#include "common/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum life_phase {
	LIFE_RUNNING,
	LIFE_PAUSED,    /* takes no new tasks until it is resumed */
	LIFE_DRAINING,  /* takes no new tasks; those not started are returned, running ones may finish */
	LIFE_STOPPING,  /* the handlers that still run have been stopped */
	LIFE_REPORTING, /* nothing runs any more; the last results are being reported */
	LIFE_ENDED,
	LIFE_STUCK, /* the end of a worker with a handler that does not end: its thread and all that it may use stay */
};

struct life {
	enum life_phase phase;
	int64_t stop_at_ms; /* when a draining worker stops its handlers; INT64_MAX: never */
	bool once;          /* drain after one task */

	/* Why the worker ends, if not because it was stopped. */
	struct reeve_error error;
	int exit_code;

	_Atomic int stop_requests; /* calls of reeve_worker_stop */
};

static inline void life_init(struct life *life)
{
	life->stop_at_ms = INT64_MAX;
}

/* Returns true if the worker takes new tasks, once it is registered. */
static inline bool life_takes(const struct life *life)
{
	return life->phase == LIFE_RUNNING;
}

/* Returns true if the worker is on its way to its end. */
static inline bool life_draining(const struct life *life)
{
	return life->phase >= LIFE_DRAINING;
}

/* Starts a drain, or shortens a running one: handlers are stopped at `stop_at_ms` or earlier. INT64_MAX: never. */
static inline void life_drain(struct life *life, int64_t stop_at_ms)
{
	if (life->phase < LIFE_DRAINING)
		life->phase = LIFE_DRAINING;
	if (stop_at_ms < life->stop_at_ms)
		life->stop_at_ms = stop_at_ms;
}

/* Keeps the first error with its exit code. Always returns false. */
static inline bool life_fail(struct life *life, const struct reeve_error *error, int exit_code)
{
	if (!life->error.code) {
		life->error = *error;
		life->exit_code = exit_code;
	}
	return false;
}

#endif
