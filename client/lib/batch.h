/* Tasks put together for one Submit call, with copies of all their text. */
#ifndef REEVE_CLIENT_BATCH_H
#define REEVE_CLIENT_BATCH_H

#include "client/lib/internal.h"

struct batch {
	Reeve__V1__SubmitRequest request; /* what to send; n_tasks of them */
	size_t capacity;
	size_t bytes;                     /* about how long it is */
	struct text_block *texts;
};

/* Creates an empty one for up to `capacity` tasks. */
struct batch *batch_create(size_t capacity);
void batch_destroy(struct batch *batch);

/* Adds a task that spec_problem has found nothing wrong with. */
void batch_add(struct batch *batch, const struct reeve_task_spec *spec);

/* How long a task will about be in a batch. */
size_t batch_cost(const struct reeve_task_spec *spec);

#endif
