/* See check_task.h. */
#include "common/check_task.h"

#include "common/clock.h"
#include "common/json_names.h"
#include "common/limits.h"
#include "common/text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Sets the error of a field: its name follows that of what it belongs to, if that has one. */
#define REFUSE(format, ...)                                                                                            \
	error_set(error, STATUS(INVALID_ARGUMENT), "%s%s" format, field, *field ? "." : "", ##__VA_ARGS__)

/* --- texts -------------------------------------------------------------------------------------------------------- */

static const char *name_or_none(const char *text)
{
	return name_problem(text, true);
}

static bool is_hex(const char *text, size_t length)
{
	return strspn(text, "0123456789abcdef") >= length;
}

static bool is_zero(const char *text, size_t length)
{
	return strspn(text, "0") >= length;
}

/* A later version than 00 may go on after the flags. */
const char *task_traceparent_problem(const char *text)
{
	const char *trace = text + 3, *parent = trace + 33, *flags = parent + 17, *end = flags + 2;
	size_t length = strlen(text);
	bool well = length >= 55 && is_hex(text, 2) && trace[-1] == '-' && is_hex(trace, 32) && parent[-1] == '-' &&
	    is_hex(parent, 16) && flags[-1] == '-' && is_hex(flags, 2) && (!*end || (*end == '-' && !is_zero(text, 2)));

	if (!well || strncmp(text, "ff", 2) == 0)
		return "is not a W3C traceparent: version-traceid-parentid-flags in lower case hexadecimal digits";
	if (is_zero(trace, 32) || is_zero(parent, 16))
		return "has a trace id or parent id of zeros, which W3C declares invalid";
	return name_problem(text, true);
}

const char *task_source_problem(const char *text)
{
	static const char reserved[] = "callback of batch ";
	const char *number = text + sizeof reserved - 1;
	if (!strncmp(text, reserved, sizeof reserved - 1) && *number && !number[strspn(number, "0123456789")])
		return "is reserved: it marks the callback tasks that Reeve makes; choose another";
	return name_problem(text, true);
}

static const struct {
	const char *field;
	size_t offset;
	const char *(*problem)(const char *text);
} texts[] = {
    {"pipeline", offsetof(Reeve__V1__TaskSpec, pipeline), name_or_none},
    {"stage", offsetof(Reeve__V1__TaskSpec, stage), name_or_none},
    {"type", offsetof(Reeve__V1__TaskSpec, type), name_or_none},
    {"queue", offsetof(Reeve__V1__TaskSpec, queue), name_or_none},
    {"key", offsetof(Reeve__V1__TaskSpec, key), name_or_none},
    {"source", offsetof(Reeve__V1__TaskSpec, source), task_source_problem},
    {"traceparent", offsetof(Reeve__V1__TaskSpec, traceparent), task_traceparent_problem},
};

static bool check_texts(const char *field, const Reeve__V1__TaskSpec *task, struct reeve_error *error)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		const char *text = *(const char *const *)((const char *)task + texts[i].offset);
		const char *problem = text_given(text) ? texts[i].problem(text) : NULL;
		if (problem)
			return REFUSE("%s %s", texts[i].field, problem);
	}
	return text_given(task->type) || text_given(task->pipeline) || REFUSE("type is empty");
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* These build messages only for an error, because every task of every call is checked. */

static bool in_range(
    const char *field, const char *part, int64_t value, int64_t min, int64_t max, struct reeve_error *error)
{
	return (value >= min && value <= max) ||
	    REFUSE("%s is %lld; it must be from %lld to %lld", part, (long long)value, (long long)min, (long long)max);
}

static bool in_days(const char *field, const char *part, int64_t ms, int max, struct reeve_error *error)
{
	char given[64];
	return (ms >= 0 && ms <= DAYS_MS(max)) ||
	    REFUSE("%s is %s; it must be from 0 to %d days", part, duration_format(ms, given, sizeof given), max);
}

/* --- retry policies ----------------------------------------------------------------------------------------------- */

#define RETRY(kind) REEVE__V1__RETRY_KIND__RETRY_KIND_##kind

static bool belongs(const char *field, const char *part, bool given, Reeve__V1__RetryKind kind, Reeve__V1__RetryKind to,
    struct reeve_error *error)
{
	const ProtobufCEnumDescriptor *kinds = &reeve__v1__retry_kind__descriptor;
	char for_kind[JSON_NAME_BYTES], word[JSON_NAME_BYTES];
	if (!given || kind == to)
		return true;
	json_enum_word(kinds, to, for_kind);
	json_enum_word(kinds, kind, word);
	return REFUSE("%s is for kind %s, not %s", part, for_kind, word);
}

bool check_retry(const char *field, const Reeve__V1__RetryPolicy *p, struct reeve_error *error)
{
	if (!in_range(field, "kind", p->kind, 0, RETRY(LIST), error))
		return false;
	Reeve__V1__RetryKind kind = p->kind ? p->kind : RETRY(EXPONENTIAL);
	if (!in_days(field, "base_ms", p->base_ms, LIMIT_RETRY_DAYS, error) ||
	    !in_days(field, "max_ms", p->max_ms, LIMIT_RETRY_DAYS, error) ||
	    !in_days(field, "step_ms", p->step_ms, LIMIT_RETRY_DAYS, error) ||
	    !in_range(field, "jitter_percent", p->jitter_percent, -1, 100, error) ||
	    !belongs(field, "step_ms", p->step_ms != 0, kind, RETRY(LINEAR), error) ||
	    !belongs(field, "exponent", p->exponent != 0, kind, RETRY(POLYNOMIAL), error) ||
	    !belongs(field, "delays_ms", p->n_delays_ms != 0, kind, RETRY(LIST), error))
		return false;
	if (p->n_delays_ms > LIMIT_RETRY_DELAYS || (kind == RETRY(LIST) && p->n_delays_ms == 0))
		return REFUSE("delays_ms has %zu elements; from 1 to %d are allowed", p->n_delays_ms, LIMIT_RETRY_DELAYS);
	if (!isfinite(p->exponent) || p->exponent < 0 || p->exponent > LIMIT_RETRY_EXPONENT)
		return REFUSE("exponent is %g; it must be above 0, at most %d", p->exponent, LIMIT_RETRY_EXPONENT);
	for (size_t i = 0; i < p->n_delays_ms; i++) {
		char part[32];
		snprintf(part, sizeof part, "delays_ms[%zu]", i);
		if (!in_days(field, part, p->delays_ms[i], LIMIT_RETRY_DAYS, error))
			return false;
	}
	return true;
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static bool check_policy(const char *field, const Reeve__V1__RetryPolicy *policy, struct reeve_error *error)
{
	char path[64];
	snprintf(path, sizeof path, "%s%sretry", field, *field ? "." : "");
	return check_retry(path, policy, error);
}

/* Checks that the task has no field which the stages of its pipeline set. */
static bool nothing_of_stages(const char *field, const Reeve__V1__TaskSpec *t, struct reeve_error *error)
{
	const char *given = text_given(t->type) ? "type"
	    : t->max_attempts                   ? "max_attempts"
	    : t->timeout_ms                     ? "timeout_ms"
	    : t->retry                          ? "retry"
	                                        : NULL;
	return !given || REFUSE("%s cannot be combined with a pipeline, whose stages set it", given);
}

bool check_task(const char *field, const Reeve__V1__TaskSpec *t, int64_t max_details_bytes, struct reeve_error *error)
{
	if (!check_texts(field, t, error) || (text_given(t->pipeline) && !nothing_of_stages(field, t, error)))
		return false;
	if (t->details && (int64_t)strlen(t->details) > max_details_bytes)
		return REFUSE("details is longer than %lld bytes, the manager's limit", (long long)max_details_bytes);
	if (t->delay_ms && t->run_at_us)
		return REFUSE("delay_ms and run_at_us cannot be combined");
	if (text_given(t->stage) && !text_given(t->pipeline))
		return REFUSE("stage needs a pipeline");
	if (t->version && !text_given(t->key))
		return REFUSE("version needs a key");
	if (t->key_ttl_ms && !text_given(t->key))
		return REFUSE("key_ttl_ms needs a key");
	return in_range(field, "priority", t->priority, -LIMIT_PRIORITY, LIMIT_PRIORITY, error) &&
	    in_days(field, "delay_ms", t->delay_ms, LIMIT_DELAY_DAYS, error) &&
	    in_range(field, "run_at_us", t->run_at_us, 0, LIMIT_TIME_US, error) &&
	    in_days(field, "key_ttl_ms", t->key_ttl_ms, LIMIT_DELAY_DAYS, error) &&
	    in_range(field, "max_attempts", t->max_attempts, 0, LIMIT_ATTEMPTS, error) &&
	    in_days(field, "timeout_ms", t->timeout_ms, LIMIT_TIMEOUT_DAYS, error) &&
	    in_range(field, "version", t->version, 0, INT64_MAX, error) &&
	    in_range(field, "batch_id", t->batch_id, 0, INT64_MAX, error) &&
	    (!t->retry || check_policy(field, t->retry, error));
}
