/*
 * Batches. The messages of all tasks stand in one array, their text in blocks that are freed together; protobuf-c wants
 * text that ends with NUL, and the caller's details need not.
 */
#include "client/lib/batch.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_LEAST = 512, BLOCK_MOST = 64 * 1024, TASK_OVERHEAD = 64 };

struct text_block {
	struct text_block *next;
	size_t size, used;
	char text[];
};

/* A task and its sub-message. */
struct entry {
	Reeve__V1__TaskSpec task;
	Reeve__V1__RetryPolicy retry;
};

struct batch *batch_create(size_t capacity)
{
	struct batch *batch = allocate(1, sizeof *batch);

	reeve__v1__submit_request__init(&batch->request);
	batch->capacity = capacity;
	batch->request.tasks = allocate(capacity, sizeof *batch->request.tasks);
	return batch;
}

void batch_destroy(struct batch *batch)
{
	while (batch->texts) {
		struct text_block *block = batch->texts;

		batch->texts = block->next;
		free(block);
	}
	/* Tasks are the first members of their entries. */
	for (size_t i = 0; i < batch->request.n_tasks; i++)
		free(batch->request.tasks[i]);
	free(batch->request.tasks);
	free(batch);
}

static char *keep(struct batch *batch, const char *text, size_t length)
{
	struct text_block *block = batch->texts;

	if (!block || block->size - block->used < length + 1) {
		size_t size = block ? 2 * block->size : BLOCK_LEAST;

		if (size > BLOCK_MOST)
			size = BLOCK_MOST;
		if (size < length + 1)
			size = length + 1;

		block = allocate(1, sizeof *block + size);
		block->size = size;
		block->next = batch->texts;
		batch->texts = block;
	}
	char *kept = block->text + block->used;
	memcpy(kept, text, length);
	kept[length] = '\0';
	block->used += length + 1;
	return kept;
}

/* Keeps a name; one not given stays protobuf-c's own empty string. */
static void set_name(struct batch *batch, char **field, const char *name)
{
	if (name && *name)
		*field = keep(batch, name, strlen(name));
}

size_t batch_cost(const struct reeve_task_spec *spec)
{
	const char *const names[] = {spec->type, spec->queue, spec->key, spec->source};
	size_t bytes = TASK_OVERHEAD + spec_details_length(spec);

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		bytes += names[i] ? strlen(names[i]) : 0;
	return bytes;
}

void batch_add(struct batch *batch, const struct reeve_task_spec *spec)
{
	struct entry *entry = allocate(1, sizeof *entry);
	Reeve__V1__TaskSpec *task = &entry->task;

	reeve__v1__task_spec__init(task);
	set_name(batch, &task->queue, spec->queue);
	set_name(batch, &task->type, spec->type);
	set_name(batch, &task->key, spec->key);
	set_name(batch, &task->source, spec->source);
	if (spec_details_length(spec))
		task->details = keep(batch, spec->details, spec_details_length(spec));
	task->priority = spec->priority;
	task->delay_ms = spec->delay_ms;
	task->run_at_us = spec->run_at_us;
	task->key_ttl_ms = spec->key_ttl_ms;
	task->max_attempts = spec->max_attempts;
	task->timeout_ms = spec->timeout_ms;
	if (spec->retry_base_ms || spec->retry_max_ms) {
		reeve__v1__retry_policy__init(&entry->retry);
		entry->retry.base_ms = spec->retry_base_ms;
		entry->retry.max_ms = spec->retry_max_ms;
		task->retry = &entry->retry;
	}
	batch->request.tasks[batch->request.n_tasks++] = task;
	batch->bytes += batch_cost(spec);
}
