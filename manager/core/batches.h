/*
 * The keeper of batches: takes those that live through their phases. A batch begins in the transaction of its first submit,
 * and what ends its tasks counts them; the rest is done here, by whichever manager comes to it first: held tasks are let go
 * when the entry task has completed, or ended when it has not; an implicit batch that has drained is closed; the exit task
 * is submitted, and the end is told. Each step is a transaction that checks the batch's row, so that it is made once. Whoever
 * knows that something has happened to a batch asks for the job.
 */
#ifndef REEVE_MANAGER_CORE_BATCHES_H
#define REEVE_MANAGER_CORE_BATCHES_H

#include "manager/core/base.h"

struct task_events;

struct batches *batches_create(struct base *base, struct task_events *events);
void batches_destroy(struct batches *batches);

#endif
