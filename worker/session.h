/*
 * The session: the life of one incarnation, from Register until it is lost or left.
 */
#ifndef REEVE_WORKER_SESSION_H
#define REEVE_WORKER_SESSION_H

#include "worker/state.h"

/* Registers if that is what is next: starts the call, or does nothing. Called by control without the lock. */
void session_step(struct reeve_worker *worker);

/* The incarnation has ended, `why` (for the log): every handler is told to stop, no Fetch is waited for any more. Does
 * nothing if it was over already. Called with the lock. */
void session_lost(struct reeve_worker *worker, const char *why);

/* What stands in a log between "the lease" and the milliseconds from now to its end, or since. */
const char *lease_ends(const struct reeve_worker *worker, int64_t now_ms);

/* Tells a manager that the incarnation, which holds nothing, is over. Waits for the answer for a few seconds at most.
 * Called by control without the lock, after heartbeats have ended. */
void session_leave(struct reeve_worker *worker);

/* The lease runs anew, counted from `sent_ms`; if what ran had been told to end, things go on. Called with the lock. */
void session_renew(struct reeve_worker *worker, int64_t sent_ms);

/* Once the lease is about to end, tells what runs to end; what waits stays, in case it is renewed. Called with the
 * lock.
 */
void session_heed_lease(struct reeve_worker *worker, int64_t now_ms);

#endif
