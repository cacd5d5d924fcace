/*
 * The keeper of batches: takes those that live through their phases. A batch begins in the transaction of its first submit,
 * and what ends its tasks counts them; the rest is done here, by whichever manager comes to it first: held tasks are let go
 * when the entry task has completed, or ended when it has not; an implicit batch that has drained is closed; the exit task
 * is submitted, and the end is told. Each step is a transaction that checks the batch's row, so that it is made once.
 */
#ifndef REEVE_MANAGER_CORE_BATCHES_H
#define REEVE_MANAGER_CORE_BATCHES_H

#include "manager/core/core.h"

struct batches *batches_create(struct core *core);
void batches_destroy(struct batches *batches);

/* Something has happened to a batch: looks after them at once, not only in the next second. */
void batches_kick(struct batches *batches);

/* Does what is due. Returns when it wants to be called again. */
int64_t batches_turn(struct batches *batches, int64_t now_ms);

#endif
