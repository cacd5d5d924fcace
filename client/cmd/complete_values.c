/* Each kind is a list of the contract, and a field of its items. */
#include "client/cmd/complete_values.h"

#include "client/cmd/fields.h"
#include "common/mem.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/batch.pb-c.h>
#include <reeve/v1/metric.pb-c.h>
#include <reeve/v1/pipeline.pb-c.h>
#include <reeve/v1/schedule.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/token.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kind {
	const char *name;
	const ProtobufCServiceDescriptor *service;
	const char *method, *items, *field;
	const char *about; /* a field that distinguishes the items, or NULL */
};

static const struct kind kinds[] = {
    {"queue", &reeve__v1__admin_service__descriptor, "ListQueues", "queues", "queue", NULL},
    {"type", &reeve__v1__admin_service__descriptor, "ListQueues", "queues", "type", NULL},
    {"worker", &reeve__v1__admin_service__descriptor, "ListWorkers", "workers", "name", "host"},
    {"batch", &reeve__v1__batch_service__descriptor, "List", "batches", "id", "name"},
    {"schedule", &reeve__v1__schedule_service__descriptor, "List", "schedules", "name", NULL},
    {"pipeline", &reeve__v1__pipeline_service__descriptor, "List", "pipelines", "name", NULL},
    {"metric", &reeve__v1__metric_service__descriptor, "List", "metrics", "category", NULL},
    {"token", &reeve__v1__token_service__descriptor, "List", "tokens", "name", NULL},
    {"task", &reeve__v1__task_service__descriptor, "List", "tasks", "id", "type"},
};

static const struct kind *kind_named(const char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

bool complete_known(const char *kind)
{
	return kind_named(kind) != NULL;
}

struct value {
	char word[512];
	const char *about; /* of the answer */
};

static int by_word(const void *a, const void *b)
{
	return strcmp(((const struct value *)a)->word, ((const struct value *)b)->word);
}

static struct value value_of(const struct kind *kind, const void *item)
{
	const ProtobufCFieldDescriptor *field;
	void *at = fields_at(item, kind->field, &field);
	struct value value = {.about = kind->about ? *(const char **)fields_at(item, kind->about, &field) : ""};

	fields_at(item, kind->field, &field);
	if (field->type == PROTOBUF_C_TYPE_STRING)
		snprintf(value.word, sizeof value.word, "%s", *(const char **)at);
	else
		snprintf(value.word, sizeof value.word, "%lld", (long long)*(const int64_t *)at);
	return value;
}

static void put_all(const struct kind *kind, const ProtobufCMessage *answer, complete_put *put, void *arg)
{
	const ProtobufCFieldDescriptor *field;
	void *const *items = *(void *const **)fields_at(answer, kind->items, &field);
	size_t count = *(const size_t *)((const char *)answer + field->quantifier_offset);
	struct value *values = mem_calloc(count + 1, sizeof *values);

	for (size_t i = 0; i < count; i++)
		values[i] = value_of(kind, items[i]);
	qsort(values, count, sizeof *values, by_word);
	for (size_t i = 0; i < count; i++)
		/* A word with control characters cannot be completed: it would be several lines. */
		if ((!i || strcmp(values[i].word, values[i - 1].word) != 0) && !strpbrk(values[i].word, "\n\t"))
			put(arg, values[i].word, values[i].about);
	free(values);
}

void complete_values(struct reeve_client *client, const char *name, complete_put *put, void *arg)
{
	const struct kind *kind = kind_named(name);
	const ProtobufCMessageDescriptor *descriptor =
	    protobuf_c_service_descriptor_get_method_by_name(kind->service, kind->method)->input;
	ProtobufCMessage *request = mem_malloc(descriptor->sizeof_message);
	struct reeve_failure failure = {0};
	ProtobufCMessage *answer;

	protobuf_c_message_init(descriptor, request);
	answer = reeve_call(client, kind->service, kind->method, request, NULL, &failure);
	if (answer)
		put_all(kind, answer, put, arg);
	reeve_free(answer);
	free(request);
}
