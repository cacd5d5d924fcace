/* Validation of tasks before they are sent; errors name the field. The manager validates again. */
#include "client/lib/internal.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/task_texts.h"
#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static_assert((int)REEVE_MAX_BATCH == (int)LIMIT_CALL_TASKS, "the public header includes no other");

static const char *pipeline_problem(const Reeve__V1__TaskSpec *spec, char *out, size_t size)
{
	const char *field = !text_given(spec->pipeline) ? NULL
	    : text_given(spec->type)                    ? "type"
	    : spec->max_attempts                        ? "max_attempts"
	    : spec->timeout_ms                          ? "timeout"
	    : spec->retry                               ? "retry"
	                                                : NULL;

	if (!field)
		return NULL;
	snprintf(out, size, "%s cannot be combined with a pipeline, whose stages set it", field);
	return out;
}

static const char *texts_problem(const Reeve__V1__TaskSpec *spec, char *out, size_t size)
{
	const char *field, *problem = task_text_problem(spec, &field);

	if (!problem)
		return NULL;
	snprintf(out, size, "%s %s", field, problem);
	return out;
}

static const char *details_problem(const Reeve__V1__TaskSpec *spec, size_t max_details, char *out, size_t size)
{
	size_t length = spec->details ? strlen(spec->details) : 0;

	if (max_details && length > max_details)
		snprintf(out, size, "details is longer than %zu bytes, the manager's limit", max_details);
	else if (length && !utf8_valid(spec->details, length))
		snprintf(out, size, "details is not UTF-8");
	else
		return NULL;
	return out;
}

static const char *span_problem(const Reeve__V1__TaskSpec *spec, char *out, size_t size)
{
	const struct {
		const char *field;
		int64_t ms;
	} spans[] = {
	    {"delay", spec->delay_ms},
	    {"key_ttl", spec->key_ttl_ms},
	    {"timeout", spec->timeout_ms},
	};
	char text[64];

	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
		if (spans[i].ms < 0) {
			snprintf(out, size, "%s is negative (%s)", spans[i].field, duration_format(spans[i].ms, text, sizeof text));
			return out;
		}
	}
	if (spec->timeout_ms > DAYS_MS(LIMIT_TIMEOUT_DAYS)) {
		snprintf(out, size, "timeout is longer than " LIMIT_TEXT(LIMIT_TIMEOUT_DAYS) " days");
		return out;
	}
	return NULL;
}

static const char *retry_delay_problem(const char *field, int64_t ms, char *out, size_t size)
{
	char text[64];

	if (ms >= 0 && ms <= DAYS_MS(LIMIT_RETRY_DAYS))
		return NULL;
	duration_format(ms, text, sizeof text);
	snprintf(out, size, ms < 0 ? "%s is negative (%s)" : "%s is longer than " LIMIT_TEXT(LIMIT_RETRY_DAYS) " days (%s)",
	    field, text);
	return out;
}

/* Members that belong to another kind are refused by the manager, which knows the kinds. */
static const char *retry_problem(const Reeve__V1__TaskSpec *spec, char *out, size_t size)
{
	const Reeve__V1__RetryPolicy *retry = spec->retry;
	const char *problem;
	char field[40];

	if (!retry)
		return NULL;
	problem = retry_delay_problem("retry.base", retry->base_ms, out, size);
	if (!problem)
		problem = retry_delay_problem("retry.max", retry->max_ms, out, size);
	if (problem)
		return problem;
	problem = out;
	if ((int)retry->kind < 0 || retry->kind > REEVE__V1__RETRY_KIND__RETRY_KIND_LIST)
		snprintf(out, size, "retry.kind is %d; it must be from 0 to %d (RetryKind)", (int)retry->kind,
		    REEVE__V1__RETRY_KIND__RETRY_KIND_LIST);
	else if (retry->jitter_percent < -1 || retry->jitter_percent > 100)
		snprintf(out, size, "retry.jitter is %" PRId32 " percent, not from 0 to 100", retry->jitter_percent);
	else if (!isfinite(retry->exponent) || retry->exponent < 0 || retry->exponent > LIMIT_RETRY_EXPONENT)
		snprintf(
		    out, size, "retry.exponent is %g; it must be above 0, at most %d", retry->exponent, LIMIT_RETRY_EXPONENT);
	else if (retry->n_delays_ms > LIMIT_RETRY_DELAYS)
		snprintf(out, size, "retry.delays has %zu elements, more than %d", retry->n_delays_ms, LIMIT_RETRY_DELAYS);
	else if (retry->kind == REEVE__V1__RETRY_KIND__RETRY_KIND_LIST && !retry->n_delays_ms)
		snprintf(out, size, "retry.delays is empty");
	else
		problem = retry_delay_problem("retry.step", retry->step_ms, out, size);
	for (size_t i = 0; !problem && i < retry->n_delays_ms; i++) {
		snprintf(field, sizeof field, "retry.delays[%zu]", i);
		problem = retry_delay_problem(field, retry->delays_ms[i], out, size);
	}
	return problem;
}

static const char *version_problem(const Reeve__V1__TaskSpec *spec, char *out, size_t size)
{
	if (spec->batch_id < 0)
		snprintf(out, size, "batch_id is negative (%" PRId64 ")", spec->batch_id);
	else if (spec->version < 0)
		snprintf(out, size, "version is negative (%" PRId64 ")", spec->version);
	else if (spec->version && !text_given(spec->key))
		snprintf(out, size, "version needs a key");
	else
		return NULL;
	return out;
}

const char *spec_problem(const Reeve__V1__TaskSpec *spec, size_t max_details, char *out, size_t size)
{
	const char *problem = texts_problem(spec, out, size);

	if (!problem)
		problem = pipeline_problem(spec, out, size);
	if (!problem)
		problem = details_problem(spec, max_details, out, size);
	if (!problem)
		problem = span_problem(spec, out, size);
	if (!problem)
		problem = retry_problem(spec, out, size);
	if (!problem)
		problem = version_problem(spec, out, size);
	if (problem)
		return problem;
	if (spec->priority < -LIMIT_PRIORITY || spec->priority > LIMIT_PRIORITY)
		snprintf(out, size,
		    "priority is %" PRId32 ", not from -" LIMIT_TEXT(LIMIT_PRIORITY) " to " LIMIT_TEXT(LIMIT_PRIORITY),
		    spec->priority);
	else if (spec->max_attempts > LIMIT_ATTEMPTS)
		snprintf(
		    out, size, "max_attempts is %" PRIu32 ", not from 1 to " LIMIT_TEXT(LIMIT_ATTEMPTS), spec->max_attempts);
	else if (spec->delay_ms && spec->run_at_us)
		snprintf(out, size, "delay and run_at cannot be combined");
	else if (spec->run_at_us < 0)
		snprintf(out, size, "run_at lies before 1970");
	else
		return NULL;
	return out;
}

bool reeve_check(struct reeve_client *client, const Reeve__V1__TaskSpec *task, struct reeve_failure *failure)
{
	char problem[256];

	if (spec_problem(task, reeve_client_max_details(client), problem, sizeof problem))
		return fail(failure, STATUS(INVALID_ARGUMENT), "%s", problem);
	return true;
}
