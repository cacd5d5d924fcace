/*
 * The attempts that a worker holds, and the moves between their places. All functions are called with the worker's
 * lock.
 */
#ifndef REEVE_WORKER_HELD_H
#define REEVE_WORKER_HELD_H

#include "worker/state.h"

/* Takes in what a Fetch has brought, in this order; they are the worker's from then on. One that is held already is
 * freed. Slots are woken. */
void held_receive(struct reeve_worker *worker, struct attempt **attempts, size_t count);

/* An attempt has ended and is sealed: it goes to the outbox, or is forgotten if it was abandoned. It must be in no
 * list. */
void held_finish(struct reeve_worker *worker, struct attempt *attempt);

/* Forgets an attempt that is in no list and in no report. Frees it. */
void held_forget(struct reeve_worker *worker, struct attempt *attempt);

/* The attempt of that name, or NULL. */
struct attempt *held_find(const struct reeve_worker *worker, int64_t task_id, int64_t token);

/* Stops an attempt: one that waits ends at once, one that a slot has is told. One with a result is left alone, except
 * that to abandon takes it out of the outbox. True if that changed something. */
bool held_stop(struct reeve_worker *worker, struct attempt *attempt, enum stop_reason reason);

/* Stops all that have not ended, and those of them that slots have. */
void held_stop_all(struct reeve_worker *worker, enum stop_reason reason);
void held_stop_taken(struct reeve_worker *worker, enum stop_reason reason);

#endif
