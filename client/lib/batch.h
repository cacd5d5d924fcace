/* The tasks of one Submit call, with copies of all their strings. */
#ifndef REEVE_CLIENT_BATCH_H
#define REEVE_CLIENT_BATCH_H

#include "client/lib/internal.h"

struct batch {
	Reeve__V1__SubmitRequest request; /* the message to send, with n_tasks tasks */
	size_t capacity;
	size_t bytes;                     /* approximate size */
	struct text_block *texts;
};

/* Creates an empty batch for up to `capacity` tasks. */
struct batch *batch_create(size_t capacity);
void batch_destroy(struct batch *batch);

/* Adds a task, which spec_problem must have found valid. */
void batch_add(struct batch *batch, const struct reeve_task_spec *spec);

/* Returns the approximate size of a task in a batch, in bytes. */
size_t batch_cost(const struct reeve_task_spec *spec);

#endif
