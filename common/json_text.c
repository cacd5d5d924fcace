/* JSON texts of callers, which may be hostile: bounded before they are parsed, since a parsed value takes far more
 * memory than its text; and values that stay text, since a parsed number loses digits. */
#include "common/json.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* A part of a text. */
struct part {
	const char *at, *end;
};

/* What jansson takes, rounded up: for an object or array with its first entries, and for a further value. */
enum { NEST_BYTES = 320, VALUE_BYTES = 128 };

/* Returns the position after a string that begins at `at`, and after its quotation mark. */
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

static bool skip_digits(const char **at, const char *end)
{
	const char *begin = *at;

	while (*at < end && **at >= '0' && **at <= '9')
		++*at;
	return *at > begin;
}

/* Returns true if all of the text is one number. */
static bool is_number(const char *at, const char *end)
{
	const char *digits;

	at += at < end && *at == '-';
	digits = at;
	if (!skip_digits(&at, end) || (*digits == '0' && at - digits > 1))
		return false;
	if (at < end && *at == '.') {
		at++;
		if (!skip_digits(&at, end))
			return false;
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		at++;
		at += at < end && (*at == '+' || *at == '-');
		if (!skip_digits(&at, end))
			return false;
	}
	return at == end;
}

/* `key` has its quotation marks. It may have escapes. */
static bool is_name(struct part key, const char *name)
{
	json_t *read = json_loadb(key.at, (size_t)(key.end - key.at), JSON_DECODE_ANY, NULL);
	bool same = json_is_string(read) && !strcmp(json_string_value(read), name);

	json_decref(read);
	return same;
}

/* Finds the value of an object's member, of several with that name the last one as jansson does; or an empty part. The
 * text need not be valid. */
static struct part find_value(struct part text, const char *name)
{
	struct part found = {text.at, text.at}, key = found;
	const char *at = text.at, *begin, *value = NULL;
	int depth = 0;

	while (at < text.end) {
		begin = at++;
		if (*begin == '"') {
			at = skip_string(at, text.end);
			if (depth == 1)
				key = (struct part){begin, at};
		} else if (depth == 1 && *begin == ':') {
			value = is_name(key, name) ? at : NULL;
		} else if (depth == 1 && value && (*begin == ',' || *begin == '}')) {
			found = (struct part){value, begin};
			value = NULL;
		}
		depth += *begin == '{' || *begin == '[';
		depth -= *begin == '}' || *begin == ']';
	}
	return found;
}

/* Returns a copy of a text with 0 in place of the numbers of a part. It has the same length, and is valid if the text
 * is; free it. */
static char *without_numbers(struct part text, struct part part)
{
	static const char number[] = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '+', '-', '.', 'e', 'E'};
	char *copy = mem_malloc((size_t)(text.end - text.at) + 1);
	const char *at = part.at, *begin;

	memcpy(copy, text.at, (size_t)(text.end - text.at));
	while (at < part.end) {
		begin = at;
		while (at < part.end && memchr(number, *at, sizeof number))
			at++;
		if (at == begin) {
			at = *at == '"' ? skip_string(at + 1, part.end) : at + 1;
		} else if (is_number(begin, at)) {
			memset(copy + (begin - text.at), ' ', (size_t)(at - begin));
			copy[begin - text.at] = '0';
		}
	}
	return copy;
}

/* Returns a part of a valid text as a string, without the blanks outside of its strings. */
static json_t *compact(struct part part)
{
	char *text = mem_malloc((size_t)(part.end - part.at) + 1), *to = text;
	const char *at = part.at, *begin;
	json_t *string;

	while (at < part.end) {
		begin = at++;
		if (*begin == '"')
			at = skip_string(at, part.end);
		else if (*begin == ' ' || *begin == '\t' || *begin == '\r' || *begin == '\n')
			continue;
		memcpy(to, begin, (size_t)(at - begin));
		to += at - begin;
	}
	string = json_stringn(text, (size_t)(to - text));
	free(text);
	return string;
}

json_t *json_load_as_text(const char *bytes, size_t length, size_t flags, const char *name, json_error_t *why)
{
	const struct part text = {bytes, bytes + length};
	json_t *value = json_loadb(bytes, length, flags, why), *member;

	if (!value && json_error_code(why) == json_error_numeric_overflow) {
		char *copy = without_numbers(text, name ? find_value(text, name) : text);

		value = json_loadb(copy, length, flags, why);
		free(copy);
	}
	member = name ? json_object_get(value, name) : value;
	if (!member || json_is_null(member) || json_is_string(member))
		return value;
	if (name) {
		json_object_set_new(value, name, compact(find_value(text, name)));
		return value;
	}
	json_decref(value);
	return compact(text);
}
