/*
 * Takes live batches through their phases. A batch begins in the transaction of its first submit, and the statements
 * that end its tasks count them. Any manager does the other steps here:
 *
 * - It releases blocked tasks when the entry task has completed, or ends them when the entry task has ended otherwise.
 * - It closes an implicit batch that has no unended tasks.
 * - It submits the exit task.
 * - It ends the batch, which creates its callbacks.
 *
 * Each step is a transaction that checks the batch's row, so that it happens once. Code that changes a batch requests
 * a run of the job JOB_BATCHES.
 */
#ifndef REEVE_MANAGER_CORE_BATCHES_H
#define REEVE_MANAGER_CORE_BATCHES_H

#include "manager/core/base.h"

struct task_events;

struct batches *batches_create(struct base *base, struct task_events *events);
void batches_destroy(struct batches *batches);

#endif
