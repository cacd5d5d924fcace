/*
 * The worker's end. It has these steps: drain (tasks not started are returned, running ones may finish), stop all
 * handlers, report the remaining results, leave. Each step has a time limit, and each further call of reeve_worker_stop
 * ends a step early. Control calls all functions, with the worker's lock.
 */
#ifndef REEVE_WORKER_DRAIN_H
#define REEVE_WORKER_DRAIN_H

#include "worker/session.h"

struct drain {
	struct shared *shared;
	struct life *life;
	struct session *session;
	struct in_flight *in_flight;
	struct fetches *fetches;
	int64_t drain_timeout_ms; /* read-only */
	int64_t kill_grace_ms;    /* read-only */

	int stops_applied;  /* calls of reeve_worker_stop that have been acted on */
	int64_t give_up_ms; /* when to stop waiting for handlers, then for managers */
};

/* Acts on calls of reeve_worker_stop, and advances a drain: returns what has not started, and stops all handlers when
 * the drain timeout has passed. */
void drain_step(struct drain *drain, int64_t now_ms);

/* Returns true, and sets the life's last phase, if everything is done or the time limit for it has passed. */
bool drain_finished(struct drain *drain, int64_t now_ms);

/* Returns true if a finished worker must leave its incarnation. */
bool drain_leaves(const struct drain *drain);

/* Returns when the next time limit is; INT64_MAX: there is none. */
int64_t drain_next_ms(const struct drain *drain);

#endif
