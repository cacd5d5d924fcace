/*
 * The attempts in flight: those that the worker has got and no manager has acknowledged. They move
 *
 *     received → ready → taken (slots.c) → unacknowledged (unacked.c) → forgotten
 *
 * An attempt is in the table from the moment at which its Fetch is no longer open, so that each heartbeat, which lists
 * the table and the open Fetches, is complete.
 *
 * All functions are called with the worker's lock.
 */
#ifndef REEVE_WORKER_IN_FLIGHT_H
#define REEVE_WORKER_IN_FLIGHT_H

#include "common/limits.h"
#include "worker/attempt.h"
#include "worker/counts.h"
#include "worker/heartbeat_timer.h"
#include "worker/life.h"
#include "worker/shared.h"
#include "worker/unacked.h"

/* The tasks that handlers of this worker have declined: the last ones, up to the number that a Fetch may exclude. */
struct declined {
	int64_t ids[LIMIT_EXCLUDED];
	uint64_t total; /* the number of all */
};

static inline size_t declined_count(const struct declined *declined)
{
	return declined->total < LIMIT_EXCLUDED ? (size_t)declined->total : LIMIT_EXCLUDED;
}

struct in_flight {
	struct shared *shared;
	struct life *life;
	struct heartbeat_timer *timer;
	struct extensions *extensions; /* for the attempts, as is progress */
	struct progress *progress;

	struct attempt *all;   /* uthash, by key */
	struct attempt *ready; /* utlist, in the order in which they start */
	size_t ready_count;
	int64_t stale_ms;   /* none of these is stale before (attempt_stale_ms); INT64_MAX: never */
	size_t taken_count; /* number of attempts with slots */
	struct unacked unacked;
	pthread_cond_t work; /* an attempt has become ready, or an idle slot must check its state */
	struct declined declined;
	struct counts counts;
	int idle_slots;    /* slots that wait for `work` */
	bool any_received; /* the worker has got a task at least once */

	/* Numbers of attempts since the worker started. */
	int64_t completed;
	int64_t failed; /* … failed, fatally or not */
	int64_t cancelled;
	int64_t late; /* completed, but no manager accepted the result */
};

void in_flight_init(struct in_flight *in_flight, struct shared *shared, struct life *life,
    struct heartbeat_timer *timer, struct extensions *extensions, struct progress *progress);

/* Frees all attempts. No slot may have one. */
void in_flight_destroy(struct in_flight *in_flight);

/* Takes ownership of the attempts that a Fetch has brought, and queues them in this order. Frees an attempt that is
 * already in flight. Wakes slots. Returns at once what is of a declined task; a draining worker, everything. */
void in_flight_receive(struct in_flight *in_flight, struct attempt **attempts, size_t count);

/* Makes an attempt that is in no list ready, as the first to start or the last. */
void in_flight_make_ready(struct in_flight *in_flight, struct attempt *attempt, bool first);

/* Returns the ready attempts that are stale now: in_flight->stale_ms is when to call it. Nobody might take them before
 * they expire, and that would count as an attempt. */
void in_flight_return_stale(struct in_flight *in_flight, int64_t now_ms);

/* Moves an attempt that has ended and is sealed to the unacknowledged results, or forgets it if it was abandoned. The
 * attempt must be in no list. */
void in_flight_finish(struct in_flight *in_flight, struct attempt *attempt);

/* Removes and frees an attempt that is in no list and in no report. */
void in_flight_forget(struct in_flight *in_flight, struct attempt *attempt);

/* Returns the attempt with this key, or NULL. */
struct attempt *in_flight_find(const struct in_flight *in_flight, int64_t task_id, int64_t token);

/* Stops an attempt. One that is ready ends at once; if a slot has it, the slot is notified. An attempt with a result
 * does not change, except that STOP_ABANDON removes it unless it is in a report. Returns true if this changed
 * something. */
bool in_flight_stop(struct in_flight *in_flight, struct attempt *attempt, enum stop_reason reason);

/* Stops all attempts that have not ended, only those that are ready, or only those that slots have. */
void in_flight_stop_all(struct in_flight *in_flight, enum stop_reason reason);
void in_flight_stop_ready(struct in_flight *in_flight, enum stop_reason reason);
void in_flight_stop_taken(struct in_flight *in_flight, enum stop_reason reason);

/* Wakes as many idle slots as attempts of this total cost need (attempt_cost). */
void in_flight_wake_slots(struct in_flight *in_flight, int64_t cost_us);

/* Returns the number of attempts without a result: those that use the worker's capacity. */
static inline size_t in_flight_unfinished(const struct in_flight *in_flight)
{
	return in_flight->ready_count + in_flight->taken_count;
}

/* Returns true if nothing runs and all results are acknowledged. */
static inline bool in_flight_empty(const struct in_flight *in_flight)
{
	return !in_flight->all;
}

#endif
