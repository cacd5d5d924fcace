/*
 * Fetching: requests tasks for free slots.
 *
 * An idle worker has one Fetch parked at a manager, for all free slots. In a busy worker the Reports carry the Fetches
 * (reporter.h). If slots are free and no Fetch is in flight, one is parked. What all Fetches in flight may bring and
 * what has not ended together never exceed the worker's capacity.
 *
 * A failed Fetch is resent with the same id, by the next call that can carry one. A draining worker cancels its parked
 * Fetch and resends it without parking, to get the answer at once: it may bring tasks that the manager has just
 * assigned, and these are returned. A worker that pauses does the same. So does one that must end when no task waits
 * (until_empty), once nothing runs: it ends if that last answer is empty.
 */
#ifndef REEVE_WORKER_FETCHER_H
#define REEVE_WORKER_FETCHER_H

#include "common/rpc/client.h"
#include "worker/commands.h"
#include "worker/session.h"

/* Guarded by the worker's lock. */
struct fetcher {
	struct shared *shared;
	struct life *life;
	struct session *session;
	struct fetches *fetches;
	struct in_flight *in_flight;
	struct slots *slots;
	struct handler_set *handlers;
	struct commands *commands;
	bool until_empty;   /* drain when no task waits any more; read-only */
	bool wait_retries;  /* … and none waits for a retry */
	int64_t created_ms; /* when the worker was created, on the monotonic clock; read-only */
};

/* A Fetch that a call carries: what was requested, and the message. */
struct sent_fetch {
	int64_t incarnation;
	int64_t fetch_id; /* 0: none */
	int64_t sent_ms;
	bool parked;
	bool last_poll;            /* asks whether tasks are left (until_empty) */
	struct accepts *accepts;   /* has the types that the request points to */
	int64_t *declined;         /* has the tasks that it excludes */
	struct queue_slots *rests; /* has its queue_slots; NULL: none */
	struct type_slots *rooms;  /* has its type_slots; NULL: none */
	Reeve__V1__FetchRequest request;
};

/* Frees what a call that has ended kept for its Fetch. Called with the lock. */
void fetcher_release(struct sent_fetch *sent);

/* Starts and cancels the Fetch calls that are due. Called by control without the lock. */
void fetcher_step(struct fetcher *fetcher);

/* The functions below are called with the lock. */

/* Returns when fetcher_step has something to do because time has passed, which may be over; INT64_MAX: never. */
int64_t fetcher_next_ms(const struct fetcher *fetcher);

/* Prepares a Fetch for a Report to carry: one that must be resent, or a new one for the free slots. False: none is due;
 * *sent has no Fetch then. */
bool fetcher_attach(struct fetcher *fetcher, struct sent_fetch *sent);

/* Returns true if the worker still waits for the Fetch. */
bool fetcher_waits_for(const struct fetcher *fetcher, const struct sent_fetch *sent);

/* Handles the Fetch of an answered call. `response` is NULL if the answer has none. Takes the assignments out of it. */
void fetcher_answered(struct fetcher *fetcher, const struct sent_fetch *sent, Reeve__V1__FetchResponse *response);

/* Handles the Fetch of a failed call. */
void fetcher_failed(struct fetcher *fetcher, const struct sent_fetch *sent, reeve_status code);

/* Limits the time to wait for an answer that should come at once, before the call is resent. An answer can be lost on a
 * working connection. The limit ensures that this delays the results held here, and the tasks assigned to a Fetch, by
 * no more than a lease. */
int64_t fetcher_answer_ms(int64_t ms);

#endif
