/* One table has all fields of the task except `retry`, with their types and places in the message. */
#include "manager/service/schedule_task.h"

#include "common/mem.h"
#include "manager/service/retry.h"

#include <stdlib.h>
#include <string.h>

typedef Reeve__V1__TaskSpec task;

enum type { TEXT, NUMBER_32, NUMBER_64 };

static const struct field {
	const char *name; /* in the .proto and in the JSON */
	enum type type;
	size_t offset;
} fields[] = {
    {"queue", TEXT, offsetof(task, queue)},
    {"type", TEXT, offsetof(task, type)},
    {"details", TEXT, offsetof(task, details)},
    {"priority", NUMBER_32, offsetof(task, priority)},
    {"delay_ms", NUMBER_64, offsetof(task, delay_ms)},
    {"key", TEXT, offsetof(task, key)},
    {"key_ttl_ms", NUMBER_64, offsetof(task, key_ttl_ms)},
    {"max_attempts", NUMBER_32, offsetof(task, max_attempts)},
    {"timeout_ms", NUMBER_64, offsetof(task, timeout_ms)},
    {"source", TEXT, offsetof(task, source)},
    {"batch_id", NUMBER_64, offsetof(task, batch_id)},
    {"pipeline", TEXT, offsetof(task, pipeline)},
};

enum { FIELDS = sizeof fields / sizeof *fields };

static json_t *field_value(const struct field *field, const task *t)
{
	const char *at = (const char *)t + field->offset;
	int64_t number;
	if (field->type == TEXT) {
		const char *text = *(char *const *)at;
		return *text ? json_string(text) : json_null();
	}
	number = field->type == NUMBER_32 ? *(const int32_t *)at : *(const int64_t *)at;
	return number ? json_integer(number) : json_null();
}

static void put_retry(json_t *spec, const Reeve__V1__RetryPolicy *retry)
{
	char *policy = retry ? retry_json(retry) : NULL;
	json_object_set_new(spec, "retry_base_ms", retry ? json_integer(retry_base_ms(retry)) : json_null());
	json_object_set_new(spec, "retry_max_ms", retry ? json_integer(retry_max_ms(retry)) : json_null());
	json_object_set_new(spec, "retry_policy", policy ? json_loads(policy, 0, NULL) : json_null());
	free(policy);
}

bool schedule_task_put(json_t *spec, const char *name, const task *t)
{
	if (!strcmp(name, "retry")) {
		put_retry(spec, t->retry);
		return true;
	}
	for (int i = 0; i < FIELDS; i++) {
		if (strcmp(fields[i].name, name))
			continue;
		json_object_set_new(spec, name, field_value(&fields[i], t));
		return true;
	}
	return false;
}

void schedule_task_put_all(json_t *spec, const task *t)
{
	for (int i = 0; i < FIELDS; i++) {
		json_t *value = field_value(&fields[i], t);
		if (json_is_null(value))
			json_decref(value);
		else
			json_object_set_new(spec, fields[i].name, value);
	}
	if (t->retry)
		put_retry(spec, t->retry);
}
