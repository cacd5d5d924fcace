/*
 * The session: the life of one incarnation, from Register until it is lost or left.
 */
#ifndef REEVE_WORKER_SESSION_H
#define REEVE_WORKER_SESSION_H

#include "worker/state.h"

/* Starts a Register if one is due, else does nothing. Called by control without the lock. */
void session_step(struct reeve_worker *worker);

/* Ends the incarnation, for the reason `why` (for the log): stops every handler and gives up every Fetch. Does nothing
 * if it was over already. Called with the lock. */
void session_lost(struct reeve_worker *worker, const char *why);

/* Returns the words of a log line between "the lease" and the milliseconds until its end, or since. */
const char *lease_ends(const struct reeve_worker *worker, int64_t now_ms);

/* Reports to a manager that the incarnation, which holds nothing, is over. Waits up to 5 s for the answer. Called by
 * control without the lock, after heartbeats have ended. */
void session_leave(struct reeve_worker *worker);

/* Renews the lease, counted from `sent_ms`; if handlers were stopped for its end, the worker continues. Called with the
 * lock. */
void session_renew(struct reeve_worker *worker, int64_t sent_ms);

/* Stops the running attempts once the lease is about to end. Those not started stay, in case it is renewed. Called with
 * the lock. */
void session_apply_lease(struct reeve_worker *worker, int64_t now_ms);

#endif
