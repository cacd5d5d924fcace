/*
 * Extensions: letting an attempt run longer than its timeout. A manager decides; its grant moves the attempt's timeout
 * and expiry, never to an earlier time. reeve_attempt_extend (worker.h) is the blocking version for C functions.
 */
#ifndef REEVE_WORKER_EXTEND_H
#define REEVE_WORKER_EXTEND_H

#include "worker/state.h"

/* Asks a manager to let the attempt run `run_ms` longer, counted from now. Called by the slot that runs the attempt,
 * and not again until attempt->extending is false; by then the answer, if any, has been applied and the slot notified
 * (slots_notify). Never blocks. */
void extend_start(struct attempt *attempt, int64_t run_ms);

/* Prevents further calls, because the client will be destroyed. Called without the lock. */
void extend_end(struct reeve_worker *worker);

#endif
