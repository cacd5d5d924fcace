/*
 * Heartbeats: a thread of their own renews the lease, independently of the slots and of control. One call every
 * heartbeat_ms, or sooner if there is news, with what the worker holds. Only one is in flight at a time.
 *
 * The message is one snapshot under the worker's lock, and stays true however long it is in transit: an attempt that it
 * does not list, and whose Fetch it does not list as open, can never run here later.
 */
#ifndef REEVE_WORKER_HEARTBEATS_H
#define REEVE_WORKER_HEARTBEATS_H

#include "worker/reporter.h"

/* Guarded by the worker's lock. */
struct heartbeats {
	struct shared *shared;
	struct life *life;
	struct session *session;
	struct in_flight *in_flight;
	struct fetches *fetches;
	struct slots *slots;
	struct handler_set *handlers;
	struct commands *commands;
	struct reporter *reporter;
	struct heartbeat_timer *timer;

	pthread_t thread;
	int64_t incarnation; /* the one that the next fields are about */
	int64_t next_ms;     /* when the next heartbeat is due, if there is no news before */
	int64_t seq;
	int failures; /* in a row */
	bool end;
};

/* Starts the thread. False: *error has the reason. Called without the lock. */
bool heartbeats_start(struct heartbeats *heartbeats, struct reeve_error *error);

/* Ends and joins the thread. Cancels a heartbeat in flight. Called without the lock. */
void heartbeats_stop(struct heartbeats *heartbeats);

#endif
