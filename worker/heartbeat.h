/* The thread that renews the lease, whatever the slots and control are doing. */
#ifndef REEVE_WORKER_HEARTBEAT_H
#define REEVE_WORKER_HEARTBEAT_H

#include "worker/state.h"

/* Starts the thread. False: *error says why. */
bool heartbeat_start(struct reeve_worker *worker, struct reeve_error *error);

/* There is news for the managers that people look at: the next heartbeat goes out now, or, if it is not `urgent`, a second
 * after the last one. Under the lock. */
void heartbeat_hurry(struct reeve_worker *worker, bool urgent);

/* What the attempt's handler, which runs, has remarked goes out with the next heartbeat: the first 1,000 bytes, and in all of a
 * heartbeat 64 KiB. NULL: nothing any more. Takes the lock. */
void heartbeat_remark(struct attempt *attempt, const char *remark);

/* Ends and joins it, cancelling a heartbeat under way. */
void heartbeat_stop(struct reeve_worker *worker);

#endif
