/* Checks of requests. The comments of the .proto files document the limits. */
#include "manager/service/check.h"

#include "common/check_task.h"
#include "common/limits.h"
#include "common/text.h"
#include "manager/callbacks/signature.h"
#include "manager/callbacks/url.h"

#include <stdio.h>
#include <string.h>

bool check_name(const char *field, const char *name, bool may_be_empty, struct reeve_error *error)
{
	const char *problem = name_problem(name, may_be_empty);
	return !problem || error_set(error, STATUS(INVALID_ARGUMENT), "%s %s", field, problem);
}

bool check_source(const char *field, const char *source, struct reeve_error *error)
{
	const char *problem = task_source_problem(source);
	return !problem || error_set(error, STATUS(INVALID_ARGUMENT), "%s %s", field, problem);
}

bool check_names(const char *field, const char *const *names, size_t count, struct reeve_error *error)
{
	char path[64];
	if (count > LIMIT_ACCEPTED)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s has more than %d names", field, LIMIT_ACCEPTED);
	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s[%zu]", field, i);
		if (!check_name(path, names[i], false, error))
			return false;
	}
	return true;
}

bool check_text(const char *field, const char *text, struct reeve_error *error)
{
	size_t length = strlen(text);
	return length <= LIMIT_REASON_BYTES ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "%s has %zu bytes; at most %d are allowed", field, length,
	        LIMIT_REASON_BYTES);
}

bool check_page(const char *page, struct reeve_error *error)
{
	enum { PAGE_MAX = 200 };
	return strlen(page) <= PAGE_MAX ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "page has more than %d bytes", PAGE_MAX);
}

bool check_callback_url(const char *field, const char *url, struct reeve_error *error)
{
	const char *problem = callback_url_problem(url);
	return !problem || error_set(error, STATUS(INVALID_ARGUMENT), "%s %s", field, problem);
}

bool check_callback_secret(const char *field, const char *secret, struct reeve_error *error)
{
	const char *problem = callback_secret_problem(secret);
	return !problem || error_set(error, STATUS(INVALID_ARGUMENT), "%s %s", field, problem);
}

bool check_range(const char *field, int64_t value, int64_t min, int64_t max, struct reeve_error *error)
{
	if (value >= min && value <= max)
		return true;
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s is %lld; it must be from %lld to %lld", field,
	    (long long)value, (long long)min, (long long)max);
}

bool check_ids(const int64_t *ids, size_t count, struct reeve_error *error)
{
	char path[32];
	if (count == 0)
		return error_set(error, STATUS(INVALID_ARGUMENT), "ids is empty");
	if (count > LIMIT_CALL_TASKS)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "ids has %zu elements; at most %d are allowed", count, LIMIT_CALL_TASKS);
	for (size_t i = 0; i < count; i++) {
		if (ids[i] >= 1)
			continue;
		snprintf(path, sizeof path, "ids[%zu]", i);
		return check_range(path, ids[i], 1, INT64_MAX, error);
	}
	return true;
}
