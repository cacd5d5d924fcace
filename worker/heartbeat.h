/* The thread that renews the lease, independently of the slots and of control. */
#ifndef REEVE_WORKER_HEARTBEAT_H
#define REEVE_WORKER_HEARTBEAT_H

#include "worker/state.h"

/* Starts the thread. False: *error has the reason. */
bool heartbeat_start(struct reeve_worker *worker, struct reeve_error *error);

/* Sends the next heartbeat early, because the worker has news that managers display: at once if `urgent`, else one
 * second after the last heartbeat was sent. Called with the lock. */
void heartbeat_soon(struct reeve_worker *worker, bool urgent);

/* Sets the remark of an attempt whose handler runs. The next heartbeat carries its first 1,000 bytes; a heartbeat has
 * up to 64 KiB of remarks. NULL removes the remark. Takes the lock. */
void heartbeat_remark(struct attempt *attempt, const char *remark);

/* Ends and joins the thread. Cancels a heartbeat in flight. */
void heartbeat_stop(struct reeve_worker *worker);

#endif
