/*
 * Batches of tasks for Submit. The messages of all tasks are in one array, their strings in blocks that are freed
 * together. The strings are copied because protobuf-c needs a final NUL, which the caller's details need not have.
 */
#include "client/lib/batch.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_MIN = 512, BLOCK_MAX = 64 * 1024, TASK_OVERHEAD = 64, DELAY_BYTES = 6 };

struct text_block {
	struct text_block *next;
	size_t size, used;
	char text[];
};

/* A task, its sub-message, and a copy of the list in that. */
struct entry {
	Reeve__V1__TaskSpec task;
	Reeve__V1__RetryPolicy retry;
	int64_t delays_ms[];
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
	/* Each task is the first member of its entry. */
	for (size_t i = 0; i < batch->request.n_tasks; i++)
		free(batch->request.tasks[i]);
	free(batch->request.tasks);
	free(batch);
}

static char *keep(struct batch *batch, const char *text, size_t length)
{
	struct text_block *block = batch->texts;

	if (!block || block->size - block->used < length + 1) {
		size_t size = block ? 2 * block->size : BLOCK_MIN;

		if (size > BLOCK_MAX)
			size = BLOCK_MAX;
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

/* Copies a name; a missing one stays protobuf-c's own empty string. */
static void set_name(struct batch *batch, char **field, const char *name)
{
	if (name && *name)
		*field = keep(batch, name, strlen(name));
}

/* Sets the task's retry policy if any part of one is set; otherwise the queue's applies. */
static void set_retry(struct entry *entry, const struct reeve_task_spec *spec)
{
	const struct reeve_retry_policy plain = {.base_ms = spec->retry_base_ms, .max_ms = spec->retry_max_ms};

	if (!spec->retry && !plain.base_ms && !plain.max_ms)
		return;
	policy_to_message(&entry->retry, spec->retry ? spec->retry : &plain);
	entry->retry.delays_ms = entry->delays_ms;
	for (size_t i = 0; i < entry->retry.n_delays_ms; i++)
		entry->delays_ms[i] = spec->retry->delays_ms[i];
	entry->task.retry = &entry->retry;
}

size_t batch_cost(const struct reeve_task_spec *spec)
{
	const char *const names[] = {spec->type, spec->queue, spec->key, spec->source, spec->pipeline};
	size_t bytes = TASK_OVERHEAD + spec_details_length(spec);

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		bytes += names[i] ? strlen(names[i]) : 0;
	if (spec->retry)
		bytes += DELAY_BYTES * spec->retry->n_delays;
	return bytes;
}

void batch_add(struct batch *batch, const struct reeve_task_spec *spec)
{
	size_t n_delays = spec->retry ? spec->retry->n_delays : 0;
	struct entry *entry = allocate(1, sizeof *entry + n_delays * sizeof *entry->delays_ms);
	Reeve__V1__TaskSpec *task = &entry->task;

	reeve__v1__task_spec__init(task);
	set_name(batch, &task->queue, spec->queue);
	set_name(batch, &task->type, spec->type);
	set_name(batch, &task->key, spec->key);
	set_name(batch, &task->source, spec->source);
	set_name(batch, &task->pipeline, spec->pipeline);
	if (spec_details_length(spec))
		task->details = keep(batch, spec->details, spec_details_length(spec));
	task->priority = spec->priority;
	task->delay_ms = spec->delay_ms;
	task->run_at_us = spec->run_at_us;
	task->key_ttl_ms = spec->key_ttl_ms;
	task->max_attempts = spec->max_attempts;
	task->timeout_ms = spec->timeout_ms;
	task->version = spec->version;
	task->batch_id = spec->batch_id;
	set_retry(entry, spec);
	batch->request.tasks[batch->request.n_tasks++] = task;
	batch->bytes += batch_cost(spec);
}
