/*
 * A task as a JSON object: the fields of the contract's TaskSpec (common/json.h), details as any JSON, and the short
 * forms "retry_limit", "retry.backoff" and "retry.jitter".
 */
#include "client/cmd/bulk_line.h"

#include "client/cmd/json_input.h"
#include "common/json.h"
#include "common/json_names.h"
#include "common/options.h"

#include <jansson.h>
#include <string.h>

/* Replaces a version that is a time. */
static bool take_version(json_t *object, struct reeve_error *error)
{
	const json_t *version = json_object_get(object, "version");
	int64_t number;

	if (!json_is_string(version))
		return true;
	if (!version_parse(json_string_value(version), &number))
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "version \"%.40s\" is neither a time like 2026-01-14T08:00:00Z nor a whole number",
		    json_string_value(version));
	json_object_set_new(object, "version", json_integer(number));
	return true;
}

/* Replaces the limit of retries, which is one less than that of attempts. */
static bool take_limit(json_t *object, struct reeve_error *error)
{
	json_int_t limit = -1;

	if (!json_input_number(object, "", "retry_limit", 0, UINT32_MAX - 1, &limit, error))
		return false;
	if (limit >= 0 && json_input_given(object, "max_attempts"))
		return error_set(error, STATUS(INVALID_ARGUMENT), "max_attempts and retry_limit cannot be combined");
	if (limit >= 0)
		json_object_set_new(object, "max_attempts", json_integer(limit + 1));
	json_object_del(object, "retry_limit");
	return true;
}

/* Copies the fields that the object gives, except messages. The copies share texts and lists with `own`. */
static void overlay(void *to, const ProtobufCMessage *own, const json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)object, name, value) {
		const ProtobufCFieldDescriptor *field = json_field_by_name(own->descriptor, name);
		bool list = field->label == PROTOBUF_C_LABEL_REPEATED;

		if (json_is_null(value) || field->type == PROTOBUF_C_TYPE_MESSAGE)
			continue;
		memcpy((char *)to + field->offset, (const char *)own + field->offset,
		    list ? sizeof(void *) : json_element_size(field->type));
		if (list)
			memcpy((char *)to + field->quantifier_offset, (const char *)own + field->quantifier_offset, sizeof(size_t));
	}
}

/* If the line sets one of two fields that exclude each other, the default of the other one is cleared. */
static void set_defaults(Reeve__V1__TaskSpec *spec, const json_t *object)
{
	bool delay = json_input_given(object, "delay") || json_input_given(object, "delay_ms");
	bool time = json_input_given(object, "run_at");
	bool type = json_input_given(object, "type"), pipeline = json_input_given(object, "pipeline");

	if (json_input_given(object, "priority"))
		spec->own_priority = true;
	if (time && !delay)
		spec->delay_ms = 0;
	if (delay && !time)
		spec->run_at_us = 0;
	if (pipeline && !type)
		spec->type = NULL;
	if (type && !pipeline)
		spec->pipeline = NULL;
	/* A time up to 1970 means now; 0 would mean that no time is set. */
	if (time && spec->run_at_us <= 0)
		spec->run_at_us = 1;
}

/* Merges the line's retry policy with the default one. A backoff replaces the default's, with its base and cap; without
 * a backoff, other members replace only the same members. */
static bool finish_retry(struct bulk_task *task, const json_t *retry, bool own, const Reeve__V1__RetryPolicy *otherwise,
    struct reeve_error *error)
{
	Reeve__V1__RetryPolicy *policy = &task->backoff.policy;
	bool own_base = json_input_given(retry, "base") || json_input_given(retry, "base_ms");
	bool own_max = json_input_given(retry, "max") || json_input_given(retry, "max_ms");
	int32_t jitter = policy->jitter_percent;
	bool any = own || jitter;
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)retry, name, value)
		any = any || !json_is_null(value);
	if (!any)
		return true;
	if (own && own_base)
		return error_set(error, STATUS(INVALID_ARGUMENT), "retry.backoff and retry.base cannot be combined");
	if (own && policy->max_ms && own_max)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the cap of retry.backoff and retry.max cannot be combined");
	if (otherwise && !own)
		*policy = *otherwise;
	if (otherwise && own && !otherwise->kind && !policy->max_ms)
		policy->max_ms = otherwise->max_ms;
	policy->jitter_percent = jitter || !otherwise ? jitter : otherwise->jitter_percent;
	overlay(policy, &task->own->retry->base, retry);
	task->spec.retry = policy;
	return true;
}

static bool read_object(
    struct bulk_task *task, json_t *object, const Reeve__V1__TaskSpec *defaults, struct reeve_error *error)
{
	json_t *retry = json_object_get(object, "retry");
	bool own_backoff = json_input_given(retry, "backoff");

	if (!take_version(object, error) || !take_limit(object, error) ||
	    !json_input_backoff(retry, "retry.", &task->backoff, error))
		return false;
	if (!json_input_check(object, "", error) || !json_input_check(retry, "retry.", error))
		return false;
	task->own = (Reeve__V1__TaskSpec *)json_to_message(object, &reeve__v1__task_spec__descriptor, error);
	if (!task->own)
		return false;
	overlay(&task->spec, &task->own->base, object);
	set_defaults(&task->spec, object);
	return !task->own->retry || finish_retry(task, retry, own_backoff, defaults->retry, error);
}

bool bulk_task_read(struct bulk_task *task, const char *line, size_t length, bool bare,
    const Reeve__V1__TaskSpec *defaults, struct reeve_error *error)
{
	json_error_t problem;
	json_t *object = json_load_as_text(
	    line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, bare ? NULL : "details", &problem);

	*task = (struct bulk_task){.spec = *defaults};
	if (!object)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "is not JSON: %s (at byte %d)", problem.text, problem.position);
	if (bare)
		object = json_pack("{so}", "details", object);
	bool read = json_is_object(object) ? read_object(task, object, defaults, error)
	                                   : error_set(error, STATUS(INVALID_ARGUMENT), "must be a JSON object");
	json_decref(object);
	return read;
}

void bulk_task_free(struct bulk_task *task)
{
	if (task->own)
		reeve__v1__task_spec__free_unpacked(task->own, NULL);
	*task = (struct bulk_task){0};
}
