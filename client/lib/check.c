/* What a task must be: said here, before anything is sent, with the field's name; the manager says the same again. */
#include "client/lib/internal.h"

#include "common/clock.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PRIORITY_LIMIT = 1000000, MAX_ATTEMPTS = 10000 };
#define LONGEST_TIMEOUT_MS (INT64_C(30) * 24 * 3600 * 1000)

size_t spec_details_length(const struct reeve_task_spec *spec)
{
	if (!spec->details)
		return 0;
	return spec->details_length ? spec->details_length : strlen(spec->details);
}

static const char *name_in_trouble(const struct reeve_task_spec *spec, char *out, size_t size)
{
	const struct {
		const char *field;
		const char *name;
		bool may_be_empty;
	} names[] = {
	    {"type", spec->type, false},
	    {"queue", spec->queue, true},
	    {"key", spec->key, true},
	    {"source", spec->source, true},
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *problem = name_problem(names[i].name ? names[i].name : "", names[i].may_be_empty);

		if (problem) {
			snprintf(out, size, "%s %s", names[i].field, problem);
			return out;
		}
	}
	return NULL;
}

static const char *details_in_trouble(const struct reeve_task_spec *spec, size_t max_details, char *out, size_t size)
{
	size_t length = spec_details_length(spec);

	if (max_details && length > max_details)
		snprintf(out, size, "details is longer than %zu bytes, the manager's limit", max_details);
	else if (length && memchr(spec->details, '\0', length))
		snprintf(out, size, "details holds a NUL byte");
	else if (length && !utf8_valid(spec->details, length))
		snprintf(out, size, "details is not UTF-8");
	else
		return NULL;
	return out;
}

static const char *span_in_trouble(const struct reeve_task_spec *spec, char *out, size_t size)
{
	const struct {
		const char *field;
		int64_t ms;
	} spans[] = {
	    {"delay", spec->delay_ms},
	    {"key_ttl", spec->key_ttl_ms},
	    {"timeout", spec->timeout_ms},
	    {"retry.base", spec->retry_base_ms},
	    {"retry.max", spec->retry_max_ms},
	};
	char text[64];

	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
		if (spans[i].ms < 0) {
			snprintf(out, size, "%s is negative (%s)", spans[i].field,
			    duration_format(spans[i].ms, text, sizeof text));
			return out;
		}
	}
	if (spec->timeout_ms > LONGEST_TIMEOUT_MS) {
		snprintf(out, size, "timeout is longer than 30 days");
		return out;
	}
	return NULL;
}

const char *spec_problem(const struct reeve_task_spec *spec, size_t max_details, char *out, size_t size)
{
	const char *problem = name_in_trouble(spec, out, size);

	if (!problem)
		problem = details_in_trouble(spec, max_details, out, size);
	if (!problem)
		problem = span_in_trouble(spec, out, size);
	if (problem)
		return problem;
	if (spec->priority < -PRIORITY_LIMIT || spec->priority > PRIORITY_LIMIT)
		snprintf(out, size, "priority is %" PRId32 ", not from -1000000 to 1000000", spec->priority);
	else if (spec->max_attempts > MAX_ATTEMPTS)
		snprintf(out, size, "max_attempts is %" PRIu32 ", not from 1 to 10000", spec->max_attempts);
	else if (spec->delay_ms && spec->run_at_us)
		snprintf(out, size, "delay and run_at exclude each other");
	else if (spec->run_at_us < 0)
		snprintf(out, size, "run_at lies before 1970");
	else
		return NULL;
	return out;
}

bool reeve_check(struct reeve_client *client, const struct reeve_task_spec *task, struct reeve_failure *failure)
{
	char problem[256];

	if (spec_problem(task, reeve_client_max_details(client), problem, sizeof problem))
		return fail(failure, STATUS(INVALID_ARGUMENT), "%s", problem);
	return true;
}
