/* See check_task.h. */
#include "manager/service/check_task.h"

#include "common/limits.h"
#include "common/task_texts.h"
#include "manager/service/check.h"
#include "manager/service/retry.h"

#include <stdio.h>
#include <string.h>

/* Builds the field's path only for an error, because every task of every call is checked. */
static bool part_range(
    const char *field, const char *part, int64_t value, int64_t least, int64_t most, struct reeve_error *error)
{
	char path[64];
	if (value >= least && value <= most)
		return true;
	snprintf(path, sizeof path, "%s.%s", field, part);
	return check_range(path, value, least, most, error);
}

static bool part_retry(const char *field, const Reeve__V1__RetryPolicy *retry, struct reeve_error *error)
{
	char path[64];
	snprintf(path, sizeof path, "%s.retry", field);
	return retry_check(path, retry, error);
}

/* Checks that the task has no field which the stages of its pipeline set. */
static bool nothing_of_stages(const char *field, const Reeve__V1__TaskSpec *t, struct reeve_error *error)
{
	const char *given = *t->type ? "type"
	    : t->max_attempts        ? "max_attempts"
	    : t->timeout_ms          ? "timeout_ms"
	    : t->retry               ? "retry"
	                             : NULL;
	return !given ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s.%s cannot be combined with a pipeline, whose stages set it",
	        field, given);
}

bool check_task(const char *field, const Reeve__V1__TaskSpec *t, int64_t max_details_bytes, struct reeve_error *error)
{
	const char *part, *problem = task_text_problem(t, &part);
	if (problem)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.%s %s", field, part, problem);
	if (*t->pipeline && !nothing_of_stages(field, t, error))
		return false;
	problem = source_problem(t->source);
	if (problem)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.source %s", field, problem);
	int64_t length = (int64_t)strlen(t->details);
	if (length > max_details_bytes)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.details has %lld bytes; at most %lld are taken", field,
		    (long long)length, (long long)max_details_bytes);
	if (t->delay_ms && t->run_at_us)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.delay_ms and run_at_us cannot be combined", field);
	if (*t->stage && !*t->pipeline)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.stage needs a pipeline", field);
	if (t->version && !*t->key)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.version needs a key", field);
	if (t->key_ttl_ms && !*t->key)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s.key_ttl_ms needs a key", field);
	return part_range(field, "priority", t->priority, -LIMIT_PRIORITY, LIMIT_PRIORITY, error) &&
	    part_range(field, "delay_ms", t->delay_ms, 0, DAYS_MS(LIMIT_DELAY_DAYS), error) &&
	    part_range(field, "run_at_us", t->run_at_us, 0, LIMIT_TIME_US, error) &&
	    part_range(field, "key_ttl_ms", t->key_ttl_ms, 0, DAYS_MS(LIMIT_DELAY_DAYS), error) &&
	    part_range(field, "max_attempts", t->max_attempts, 0, LIMIT_ATTEMPTS, error) &&
	    part_range(field, "timeout_ms", t->timeout_ms, 0, DAYS_MS(LIMIT_TIMEOUT_DAYS), error) &&
	    part_range(field, "version", t->version, 0, INT64_MAX, error) &&
	    part_range(field, "batch_id", t->batch_id, 0, INT64_MAX, error) &&
	    (!t->retry || part_retry(field, t->retry, error));
}
