/*
 * Letting an attempt run longer than its time-out. A manager decides; what it grants moves the attempt's own end and
 * when it expires, unless that is longer already. reeve_attempt_extend (worker.h) is the same for C functions, waiting.
 */
#ifndef REEVE_WORKER_EXTEND_H
#define REEVE_WORKER_EXTEND_H

#include "worker/state.h"

/* Asks that the attempt may run `run_ms` longer from now on. Called by the slot that runs it, not again before
 * attempt->extending has become false: then the answer, if there was one, has been taken in, and the slot has been told
 * (slots_notify). Never waits. */
void extend_start(struct attempt *attempt, int64_t run_ms);

/* From now on no call is made: the client is about to go. Called without the lock. */
void extend_end(struct reeve_worker *worker);

#endif
