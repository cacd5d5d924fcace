/* The fields' names and types come from the message's descriptor. */
#include "manager/service/schedule_task.h"

#include "common/field.h"
#include "manager/service/retry.h"

#include <string.h>

typedef Reeve__V1__TaskSpec task;

bool schedule_task_put(json_t *spec, const char *name, const task *t)
{
	const ProtobufCFieldDescriptor *field =
	    protobuf_c_message_descriptor_get_field_by_name(&reeve__v1__task_spec__descriptor, name);
	if (!field || !strcmp(name, "run_at_us") || !strcmp(name, "version"))
		return false;
	bool own = t->own_priority && !strcmp(name, "priority");
	if (!strcmp(name, "own_priority"))
		return true; /* a priority in the spec is its own */
	if (!strcmp(name, "retry"))
		retry_put(spec, t->retry);
	else
		json_object_set_new(spec, name,
		    !own && !field_is_set(&t->base, field)      ? json_null()
		        : field->type == PROTOBUF_C_TYPE_STRING ? json_string(field_text(&t->base, field))
		                                                : json_integer(field_number(&t->base, field)));
	return true;
}

void schedule_task_put_all(json_t *spec, const task *t)
{
	const char *name;
	json_t *value;
	void *next;
	for (unsigned i = 0; i < reeve__v1__task_spec__descriptor.n_fields; i++)
		schedule_task_put(spec, reeve__v1__task_spec__descriptor.fields[i].name, t);
	json_object_foreach_safe(spec, next, name, value) if (json_is_null(value)) json_object_del(spec, name);
}
