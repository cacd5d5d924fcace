/*
 * A task as a JSON object: the fields of the contract's TaskSpec by their names, durations also as strings ("delay":
 * "5m" or "delay_ms": 300000), details as any JSON. A table maps the fields; null counts as left out.
 */
#include "client/cmd/bulk_line.h"

#include "common/clock.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	KIND_TEXT,
	KIND_DETAILS,
	KIND_INT32,
	KIND_UINT32,
	KIND_INT64,
	KIND_LIMIT, /* of retries: one less than the attempts */
	KIND_SPAN,    /* "5m" */
	KIND_SPAN_MS, /* 300000 */
	KIND_TIME,
	KIND_RETRY,   /* an object of its own */
	KIND_BACKOFF, /* "linear:5s:3s" */
	KIND_JITTER,  /* a percentage */
};

struct field {
	const char *name;
	enum kind kind;
	size_t offset;
};

#define FIELD(name, kind, member)                                                                                      \
	{                                                                                                              \
		name, kind, offsetof(struct bulk_task, member)                                                         \
	}

static const struct field task_fields[] = {
    FIELD("queue", KIND_TEXT, spec.queue),
    FIELD("type", KIND_TEXT, spec.type),
    FIELD("pipeline", KIND_TEXT, spec.pipeline),
    FIELD("details", KIND_DETAILS, spec.details),
    FIELD("priority", KIND_INT32, spec.priority),
    FIELD("delay", KIND_SPAN, spec.delay_ms),
    FIELD("delay_ms", KIND_SPAN_MS, spec.delay_ms),
    FIELD("run_at", KIND_TIME, spec.run_at_us),
    FIELD("key", KIND_TEXT, spec.key),
    FIELD("key_ttl", KIND_SPAN, spec.key_ttl_ms),
    FIELD("key_ttl_ms", KIND_SPAN_MS, spec.key_ttl_ms),
    FIELD("version", KIND_INT64, spec.version),
    FIELD("batch_id", KIND_INT64, spec.batch_id),
    FIELD("max_attempts", KIND_UINT32, spec.max_attempts),
    FIELD("retry_limit", KIND_LIMIT, spec.max_attempts),
    FIELD("timeout", KIND_SPAN, spec.timeout_ms),
    FIELD("timeout_ms", KIND_SPAN_MS, spec.timeout_ms),
    {"retry", KIND_RETRY, 0},
    FIELD("source", KIND_TEXT, spec.source),
    {NULL},
};

static const struct field retry_fields[] = {
    FIELD("base", KIND_SPAN, base_ms),
    FIELD("base_ms", KIND_SPAN_MS, base_ms),
    FIELD("max", KIND_SPAN, max_ms),
    FIELD("max_ms", KIND_SPAN_MS, max_ms),
    {"backoff", KIND_BACKOFF, 0},
    {"jitter", KIND_JITTER, 0},
    {NULL},
};

static bool refuse(struct reeve_error *error, const char *prefix, const char *name, const char *problem)
{
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s%.100s %s", prefix, name, problem);
}

/* Reads a string. Returns what is wrong with the value, or NULL. */
static const char *read_text(const json_t *value, const char **text)
{
	*text = json_string_value(value);
	if (!*text)
		return "must be a text";
	return strlen(*text) != json_string_length(value) ? "holds a NUL byte" : NULL;
}

/* Reads a string that is not empty (an empty one would count as left out). Returns what is wrong with it, or NULL. */
static const char *read_name(const json_t *value, const char **text)
{
	const char *problem = read_text(value, text);

	return !problem && !**text ? "is empty" : problem;
}

static const char *read_details(struct bulk_task *task, const json_t *value)
{
	if (json_is_string(value))
		return read_text(value, &task->spec.details);
	task->details = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!task->details)
		return "cannot be written as text";
	task->spec.details = task->details;
	return NULL;
}

static const char *read_whole(const json_t *value, json_int_t low, json_int_t high, json_int_t *number)
{
	if (!json_is_integer(value))
		return "must be a whole number";
	*number = json_integer_value(value);
	if (*number < 0 && low == 0)
		return "is negative";
	return *number < low || *number > high ? "is out of range" : NULL;
}

static const char *read_span(const json_t *value, int64_t *ms)
{
	const char *text = json_string_value(value);
	int64_t ignored;

	if (text && duration_parse(text, ms))
		return NULL;
	if (text && *text == '-' && duration_parse(text + 1, &ignored))
		return "is negative";
	return "must be a duration like \"250ms\", \"5s\" or \"1m30s\"";
}

static const char *read_time(const json_t *value, int64_t *us)
{
	const char *text = json_string_value(value);

	if (!text || !time_parse(text, us))
		return "must be a time like \"2026-01-14T08:00:00Z\" or \"+5m\"";
	/* A time up to 1970 means now; 0 would mean that no time is set. */
	if (*us <= 0)
		*us = 1;
	return NULL;
}

static const char *read_value(struct bulk_task *task, const struct field *field, const json_t *value)
{
	void *at = (char *)task + field->offset;
	const char *problem = NULL;
	const char *text;
	json_int_t number = 0;
	int64_t span = 0;

	switch (field->kind) {
	case KIND_TEXT:
		problem = read_name(value, &text);
		memcpy(at, &text, sizeof text);
		break;
	case KIND_DETAILS:
		return read_details(task, value);
	case KIND_INT32:
		problem = read_whole(value, INT32_MIN, INT32_MAX, &number);
		*(int32_t *)at = (int32_t)number;
		break;
	case KIND_UINT32:
		problem = read_whole(value, 0, UINT32_MAX, &number);
		*(uint32_t *)at = (uint32_t)number;
		break;
	case KIND_INT64:
		problem = read_whole(value, 0, INT64_MAX, &number);
		*(int64_t *)at = number;
		break;
	case KIND_LIMIT:
		problem = read_whole(value, 0, UINT32_MAX - 1, &number);
		*(uint32_t *)at = (uint32_t)number + 1;
		break;
	case KIND_JITTER:
		problem = read_whole(value, 0, 100, &number);
		task->jitter_percent = number ? (int32_t)number : -1;
		break;
	case KIND_SPAN:
		problem = read_span(value, &span);
		*(int64_t *)at = span;
		break;
	case KIND_SPAN_MS:
		problem = read_whole(value, 0, INT64_MAX, &number);
		*(int64_t *)at = number;
		break;
	case KIND_TIME:
		problem = read_time(value, at);
		break;
	case KIND_RETRY:
	case KIND_BACKOFF:
		break;
	}
	return problem;
}

/* Reads the line's own backoff; settle_rest sets its jitter. */
static bool read_backoff(struct bulk_task *task, const json_t *value, struct reeve_error *error)
{
	struct reeve_error wrong;
	const char *text;
	const char *problem = read_text(value, &text);

	if (problem)
		return refuse(error, "retry.", "backoff", problem);
	return backoff_parse(&task->backoff, text, -1, &wrong) || refuse(error, "retry.", "backoff:", wrong.message);
}

static bool read_object(struct bulk_task *task, const json_t *object, const struct field *fields, const char *prefix,
    struct reeve_error *error)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		const struct field *field = fields;
		const char *problem;

		while (field->name && strcmp(field->name, name) != 0)
			field++;
		if (!field->name)
			return refuse(error, prefix, name, "is not a field of a task");
		if (json_is_null(value))
			continue;
		if (field->kind == KIND_RETRY) {
			if (!json_is_object(value))
				return refuse(error, prefix, name, "must be an object");
			if (!read_object(task, value, retry_fields, "retry.", error))
				return false;
			continue;
		}
		if (field->kind == KIND_BACKOFF) {
			if (!read_backoff(task, value, error))
				return false;
			continue;
		}
		problem = read_value(task, field, value);
		if (problem)
			return refuse(error, prefix, name, problem);
	}
	return true;
}

/* If the line sets one of two fields that exclude each other, the default of the other one is cleared. */
static void settle_due_time(struct bulk_task *task, const Reeve__V1__TaskSpec *defaults)
{
	bool own_delay = json_object_get(task->object, "delay") || json_object_get(task->object, "delay_ms");
	bool own_time = json_object_get(task->object, "run_at") != NULL;

	if (own_time && !own_delay && defaults->delay_ms)
		task->spec.delay_ms = 0;
	if (own_delay && !own_time && defaults->run_at_us)
		task->spec.run_at_us = 0;
}

static bool given(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return value && !json_is_null(value);
}

/* The same for type and pipeline. */
static void settle_pipeline(struct bulk_task *task)
{
	bool own_type = given(task->object, "type"), own_pipeline = given(task->object, "pipeline");

	if (own_pipeline && !own_type)
		task->spec.type = NULL;
	if (own_type && !own_pipeline)
		task->spec.pipeline = NULL;
}

/* Merges the line's retry policy with the default one. A backoff replaces the default's, with its base and cap; without
 * a backoff, other members replace only the same members. */
static bool settle_rest(struct bulk_task *task, const Reeve__V1__TaskSpec *defaults, struct reeve_error *error)
{
	const json_t *retry = json_object_get(task->object, "retry");
	bool own_base = given(retry, "base") || given(retry, "base_ms");
	bool own_max = given(retry, "max") || given(retry, "max_ms");
	bool own = given(retry, "backoff");
	Reeve__V1__RetryPolicy *policy = &task->backoff.policy;

	if (given(task->object, "max_attempts") && given(task->object, "retry_limit"))
		return error_set(error, STATUS(INVALID_ARGUMENT), "max_attempts and retry_limit cannot be combined");
	if (own && own_base)
		return error_set(error, STATUS(INVALID_ARGUMENT), "retry.backoff and retry.base cannot be combined");
	if (own && policy->max_ms && own_max)
		return error_set(error, STATUS(INVALID_ARGUMENT), "the cap of retry.backoff and retry.max cannot be combined");
	if (!own && !own_base && !own_max && !task->jitter_percent)
		return true;
	if (defaults->retry && !own)
		*policy = *defaults->retry;
	if (defaults->retry && own) {
		policy->jitter_percent = defaults->retry->jitter_percent;
		if (!defaults->retry->kind && !policy->max_ms)
			policy->max_ms = defaults->retry->max_ms;
	}
	if (own_base)
		policy->base_ms = task->base_ms;
	if (own_max)
		policy->max_ms = task->max_ms;
	if (task->jitter_percent)
		policy->jitter_percent = task->jitter_percent;
	task->spec.retry = policy;
	return true;
}

bool bulk_task_read(struct bulk_task *task, const char *line, size_t length, const Reeve__V1__TaskSpec *defaults,
    struct reeve_error *error)
{
	json_error_t problem;

	*task = (struct bulk_task){.spec = *defaults};
	task->object = json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &problem);
	if (!task->object)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "is not JSON: %s (at byte %d)", problem.text, problem.position);
	if (!json_is_object(task->object))
		return error_set(error, STATUS(INVALID_ARGUMENT), "must be a JSON object");
	if (!read_object(task, task->object, task_fields, "", error))
		return false;
	settle_due_time(task, defaults);
	settle_pipeline(task);
	return settle_rest(task, defaults, error);
}

void bulk_task_free(struct bulk_task *task)
{
	json_decref(task->object);
	free(task->details);
	*task = (struct bulk_task){0};
}
