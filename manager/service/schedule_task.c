/* The fields' names and types come from the message's descriptor. */
#include "manager/service/schedule_task.h"

#include "common/mem.h"
#include "manager/service/retry.h"

#include <stdlib.h>
#include <string.h>

typedef Reeve__V1__TaskSpec task;

/* Returns a field's value, or null if it has its default. */
static json_t *field_value(const ProtobufCFieldDescriptor *field, const task *t)
{
	const void *at = (const char *)t + field->offset;
	int64_t number;
	if (field->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(char *const *)at;
		return *text ? json_string(text) : json_null();
	}
	number = field->type == PROTOBUF_C_TYPE_INT64 ? *(const int64_t *)at : *(const int32_t *)at;
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
	const ProtobufCFieldDescriptor *field =
	    protobuf_c_message_descriptor_get_field_by_name(&reeve__v1__task_spec__descriptor, name);
	if (!field || !strcmp(name, "run_at_us") || !strcmp(name, "version"))
		return false;
	if (!strcmp(name, "retry"))
		put_retry(spec, t->retry);
	else
		json_object_set_new(spec, name, field_value(field, t));
	return true;
}

void schedule_task_put_all(json_t *spec, const task *t)
{
	const char *name;
	json_t *value;
	void *next;
	for (unsigned i = 0; i < reeve__v1__task_spec__descriptor.n_fields; i++)
		schedule_task_put(spec, reeve__v1__task_spec__descriptor.fields[i].name, t);
	json_object_foreach_safe(spec, next, name, value)
		if (json_is_null(value))
			json_object_del(spec, name);
}
