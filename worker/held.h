/*
 * The attempts that a worker holds, and their moves between places. All functions are called with the worker's lock.
 */
#ifndef REEVE_WORKER_HELD_H
#define REEVE_WORKER_HELD_H

#include "worker/state.h"

/* Takes ownership of the attempts that a Fetch has brought, and queues them in this order. An attempt that the worker
 * already holds is freed. Wakes slots. */
void held_receive(struct reeve_worker *worker, struct attempt **attempts, size_t count);

/* Moves an attempt that has ended and is sealed to the unacknowledged results, or forgets it if it was abandoned. The
 * attempt must be in no list. */
void held_finish(struct reeve_worker *worker, struct attempt *attempt);

/* Removes and frees an attempt that is in no list and in no report. */
void held_forget(struct reeve_worker *worker, struct attempt *attempt);

/* Returns the attempt with this key, or NULL. */
struct attempt *held_find(const struct reeve_worker *worker, int64_t task_id, int64_t token);

/* Stops an attempt. One that is ready ends at once; if a slot has it, the slot is notified. An attempt with a result
 * does not change, except that STOP_ABANDON removes it unless it is in a report. Returns true if this changed
 * something. */
bool held_stop(struct reeve_worker *worker, struct attempt *attempt, enum stop_reason reason);

/* Stops all attempts that have not ended, or only those that slots have. */
void held_stop_all(struct reeve_worker *worker, enum stop_reason reason);
void held_stop_taken(struct reeve_worker *worker, enum stop_reason reason);

#endif
