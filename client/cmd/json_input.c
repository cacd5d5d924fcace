#include "client/cmd/json_input.h"

#include <stdio.h>
#include <string.h>

static bool refuse(struct reeve_error *error, const char *prefix, const char *name, const char *problem)
{
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s%.100s %s", prefix, name, problem);
}

bool json_input_given(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return value && !json_is_null(value);
}

bool json_input_number(const json_t *object, const char *prefix, const char *name, json_int_t low, json_int_t high,
    json_int_t *number, struct reeve_error *error)
{
	const json_t *value = json_object_get(object, name);
	char problem[100];

	if (!json_input_given(object, name))
		return true;
	*number = json_integer_value(value);
	if (json_is_integer(value) && *number >= low && *number <= high)
		return true;
	snprintf(problem, sizeof problem, "must be a whole number from %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT,
	    low, high);
	return refuse(error, prefix, name, problem);
}

bool json_input_backoff(json_t *object, const char *prefix, struct backoff *backoff, struct reeve_error *error)
{
	const char *text = json_string_value(json_object_get(object, "backoff"));
	json_int_t jitter = -1;
	struct reeve_error wrong;

	if (!json_input_number(object, prefix, "jitter", 0, 100, &jitter, error))
		return false;
	if (!text && json_input_given(object, "backoff"))
		return refuse(error, prefix, "backoff", "must be a string");
	if (text && !backoff_parse(backoff, text, jitter, &wrong))
		return refuse(error, prefix, "backoff:", wrong.message);
	if (!text && jitter >= 0)
		backoff->policy.jitter_percent = jitter ? (int32_t)jitter : -1;
	json_object_del(object, "backoff");
	json_object_del(object, "jitter");
	return true;
}

bool json_input_check(const json_t *object, const char *prefix, struct reeve_error *error)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)object, name, value) {
		if (json_is_string(value) && !json_string_length(value) && strcmp(name, "details") != 0)
			return refuse(error, prefix, name, "is empty");
		if (json_is_integer(value) && json_integer_value(value) < 0 && strcmp(name, "priority") != 0)
			return refuse(error, prefix, name, "is negative");
	}
	return true;
}
