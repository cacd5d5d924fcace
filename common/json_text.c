/* JSON texts of callers, which may be hostile: bounded before they are parsed, since a parsed value takes far more memory than
 * its text. */
#include "common/json.h"

#include <string.h>

/* What jansson takes, rounded up: for an object or array with its first entries, and for a further value. */
enum { NEST_BYTES = 320, VALUE_BYTES = 128 };

/* Returns the position after a string that begins at `at`, behind its quotation mark. */
static const char *skip_string(const char *at, const char *end)
{
	while (at < end && *at != '"')
		at += *at == '\\' && at + 1 < end ? 2 : 1;
	return at < end ? at + 1 : end;
}

/* Estimates the memory for a text, and finds its depth. */
static void measure(const char *at, const char *end, size_t *memory, int *deepest)
{
	int depth = 0;

	*memory = (size_t)(end - at);
	*deepest = 0;
	while (at < end) {
		char c = *at++;

		if (c == '"') {
			at = skip_string(at, end);
		} else if (c == '{' || c == '[') {
			*memory += NEST_BYTES;
			*deepest = ++depth > *deepest ? depth : *deepest;
		} else if (c == '}' || c == ']') {
			depth--;
		} else if (c == ',' || c == ':') {
			*memory += VALUE_BYTES;
		}
	}
}

json_t *json_read_text(const char *text, size_t length, size_t max_memory, struct reeve_error *error)
{
	json_error_t problem;
	size_t memory;
	json_t *value;
	int depth;

	measure(text, text + length, &memory, &depth);
	if (depth > JSON_DEPTH_MAX) {
		error_set(error, STATUS(INVALID_ARGUMENT), "the JSON is nested deeper than %d", JSON_DEPTH_MAX);
		return NULL;
	}
	if (memory > max_memory) {
		error_set(error, STATUS(INVALID_ARGUMENT), "the JSON would take about %zu bytes of memory; the maximum is %zu",
		    memory, max_memory);
		return NULL;
	}
	value = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
	if (!value)
		error_set(error, STATUS(INVALID_ARGUMENT), "invalid JSON in line %d, column %d: %s", problem.line,
		    problem.column, problem.text);
	return value;
}
