/* KIND:VALUE[:VALUE]. A table has the kinds and the meaning of their one or two values. */
#include "client/cmd/backoff.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_VALUE = 64 };

enum value { NONE, BASE, STEP, CAP, EXPONENT, DELAYS };

#define KIND(name) REEVE__V1__RETRY_KIND__RETRY_KIND_##name

static const struct kind {
	const char *name;
	Reeve__V1__RetryKind kind;
	enum value first, second; /* the second may be omitted */
} kinds[] = {
    {"fixed", KIND(FIXED), BASE, NONE},
    {"linear", KIND(LINEAR), STEP, BASE},
    {"exp", KIND(EXPONENTIAL), BASE, CAP},
    {"poly", KIND(POLYNOMIAL), BASE, EXPONENT},
    {"list", KIND(LIST), DELAYS, NONE},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* Parses a duration of `length` bytes. */
static bool read_delay(const char *text, size_t length, int64_t *ms, struct reeve_error *error)
{
	char copy[LONGEST_VALUE];

	if (length < sizeof copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
		if (duration_parse(copy, ms)) {
			if (*ms <= DAYS_MS(LIMIT_RETRY_DAYS))
				return true;
			return error_set(error, STATUS(INVALID_ARGUMENT), "%s is longer than %d days", copy, LIMIT_RETRY_DAYS);
		}
	}
	return error_set(error, STATUS(INVALID_ARGUMENT), "\"%.*s\" is not a duration like 250ms, 5s, 1m30s or 2h",
	    (int)(length < LONGEST_VALUE ? length : LONGEST_VALUE), text);
}

static bool read_delays(struct backoff *backoff, const char *text, size_t length, struct reeve_error *error)
{
	const char *end = text + length;

	backoff->policy.delays_ms = backoff->delays_ms;
	for (;;) {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		size_t n = (size_t)((comma ? comma : end) - text);

		if (backoff->policy.n_delays_ms == LIMIT_RETRY_DELAYS)
			return error_set(error, STATUS(INVALID_ARGUMENT), "a list has at most %d delays", LIMIT_RETRY_DELAYS);
		if (!read_delay(text, n, &backoff->delays_ms[backoff->policy.n_delays_ms++], error))
			return false;
		if (!comma)
			return true;
		text = comma + 1;
	}
}

static bool read_exponent(double *exponent, const char *text, size_t length, struct reeve_error *error)
{
	char *end;

	*exponent = strtod(text, &end);
	if (end == text + length && length && isfinite(*exponent) && *exponent > 0 && *exponent <= LIMIT_RETRY_EXPONENT)
		return true;
	return error_set(error, STATUS(INVALID_ARGUMENT), "the exponent \"%.*s\" is not a number above 0, at most %d",
	    (int)(length < LONGEST_VALUE ? length : LONGEST_VALUE), text, LIMIT_RETRY_EXPONENT);
}

static bool read_value(
    struct backoff *backoff, enum value value, const char *text, size_t length, struct reeve_error *error)
{
	Reeve__V1__RetryPolicy *policy = &backoff->policy;

	switch (value) {
	case BASE: return read_delay(text, length, &policy->base_ms, error);
	case STEP: return read_delay(text, length, &policy->step_ms, error);
	case CAP: return read_delay(text, length, &policy->max_ms, error);
	case EXPONENT: return read_exponent(&policy->exponent, text, length, error);
	case DELAYS: return read_delays(backoff, text, length, error);
	case NONE: break;
	}
	return error_set(error, STATUS(INVALID_ARGUMENT), "it has one value too many; it takes %s", BACKOFF_ARGUMENT);
}

static const struct kind *find_kind(const char *text, size_t length)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strlen(kinds[i].name) == length && memcmp(kinds[i].name, text, length) == 0)
			return &kinds[i];
	return NULL;
}

bool backoff_parse(struct backoff *backoff, const char *text, int64_t jitter_percent, struct reeve_error *error)
{
	const char *first = strchr(text, ':');
	const struct kind *kind = first ? find_kind(text, (size_t)(first - text)) : NULL;

	*backoff = (struct backoff){0};
	if (jitter_percent >= 0)
		backoff->policy.jitter_percent = jitter_percent == 0 ? -1 : (int32_t)jitter_percent;
	if (!kind)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "\"%.*s\" is invalid; it takes %s", LONGEST_VALUE, text, BACKOFF_ARGUMENT);
	backoff->policy.kind = kind->kind;
	first++;

	const char *second = strchr(first, ':');
	size_t length = second ? (size_t)(second - first) : strlen(first);
	if (!read_value(backoff, kind->first, first, length, error))
		return false;
	if (second && !read_value(backoff, kind->second, second + 1, strlen(second + 1), error))
		return false;
	if ((kind->first == BASE && backoff->policy.base_ms == 0) ||
	    (kind->second == CAP && second && backoff->policy.max_ms == 0))
		return error_set(error, STATUS(INVALID_ARGUMENT), "\"%s\" has a delay of 0; the shortest is 1ms", text);
	return true;
}

static void write_value(FILE *out, const Reeve__V1__RetryPolicy *policy, enum value value)
{
	char text[40];

	switch (value) {
	case BASE: fputs(duration_format(policy->base_ms, text, sizeof text), out); break;
	case STEP: fputs(duration_format(policy->step_ms, text, sizeof text), out); break;
	case CAP: fputs(duration_format(policy->max_ms, text, sizeof text), out); break;
	case EXPONENT: fprintf(out, "%g", policy->exponent != 0 ? policy->exponent : 2); break;
	case DELAYS:
		for (size_t i = 0; i < policy->n_delays_ms; i++)
			fprintf(out, "%s%s", i ? "," : "", duration_format(policy->delays_ms[i], text, sizeof text));
		break;
	case NONE: break;
	}
}

char *backoff_format(const Reeve__V1__RetryPolicy *policy)
{
	const struct kind *kind = find_kind("exp", 3);
	char *text = NULL;
	size_t size;
	FILE *out = mem_stream(&text, &size);

	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].kind == policy->kind)
			kind = &kinds[i];
	fprintf(out, "%s:", kind->name);
	write_value(out, policy, kind->first);
	if (kind->second) {
		fputc(':', out);
		write_value(out, policy, kind->second);
	}
	fclose(out);
	return text;
}
