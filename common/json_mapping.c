/* Values of protobuf's JSON mapping. */
#include "common/json_internal.h"
#include "common/json_names.h"
#include "common/mem.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to here a double has every integer. */
static const double exact_max = 9007199254740992.0;

/* Reads a double that is an integer, such as 1e3. */
static bool read_whole(double real, json_int_t *number)
{
	if (!(real >= -exact_max && real <= exact_max))
		return false;
	*number = (json_int_t)real;
	return (double)*number == real;
}

/* Reads a text that is a number, and nothing else. */
static bool read_real_text(const json_t *value, double *number)
{
	const char *text = json_string_value(value);
	char *end;

	if (!text || strlen(text) != json_string_length(value) || !(isdigit((unsigned char)*text) || *text == '-') ||
	    strpbrk(text, "xXnN"))
		return false;
	*number = strtod(text, &end);
	return !*end && end != text && isfinite(*number);
}

static bool read_integer_text(const json_t *value, json_int_t *number)
{
	const char *text = json_string_value(value);
	double real;
	char *end;

	if (!text || !*text || strlen(text) != json_string_length(value) || isspace((unsigned char)*text) || *text == '+')
		return false;
	errno = 0;
	*number = strtoll(text, &end, 10);
	if (!*end)
		return errno == 0;
	return read_real_text(value, &real) && read_whole(real, number);
}

bool json_mapped_integer(const json_t *value, json_int_t *number, const struct path *path, struct reeve_error *error)
{
	if (json_is_integer(value)) {
		*number = json_integer_value(value);
		return true;
	}
	return (json_is_real(value) && read_whole(json_real_value(value), number)) || read_integer_text(value, number) ||
	    json_refuse(error, path, "must be a whole number of 64 bits");
}

bool json_mapped_real(const json_t *value, double *number, const struct path *path, struct reeve_error *error)
{
	static const struct {
		const char *text;
		double number;
	} words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

	for (size_t i = 0; json_is_string(value) && i < sizeof words / sizeof *words; i++)
		if (!strcmp(json_string_value(value), words[i].text)) {
			*number = words[i].number;
			return true;
		}
	if (json_is_number(value)) {
		*number = json_number_value(value);
		return true;
	}
	return read_real_text(value, number) || json_refuse(error, path, "must be a number");
}

/* Returns the value of a digit of base64, or of base64 for URLs; or -1. */
static int digit_of(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *digit = c ? strchr(digits, c == '-' ? '+' : c == '_' ? '/' : c) : NULL;

	return digit ? (int)(digit - digits) : -1;
}

bool json_base64_read(const char *text, size_t length, ProtobufCBinaryData *bytes)
{
	uint32_t group = 0;
	size_t digits = 0;

	if (length > 0 && length % 4 == 0 && text[length - 1] == '=')
		length -= text[length - 2] == '=' ? 2 : 1;
	if (length % 4 == 1)
		return false;
	bytes->data = mem_calloc(length / 4 * 3 + 3, 1);
	bytes->len = 0;
	for (size_t i = 0; i < length; i++) {
		int digit = digit_of(text[i]);

		if (digit < 0)
			return false;
		group = group << 6 | (uint32_t)digit;
		if (++digits % 4 == 0) {
			bytes->data[bytes->len++] = (uint8_t)(group >> 16);
			bytes->data[bytes->len++] = (uint8_t)(group >> 8);
			bytes->data[bytes->len++] = (uint8_t)group;
		}
	}
	if (digits % 4 >= 2)
		bytes->data[bytes->len++] = (uint8_t)(digits % 4 == 2 ? group >> 4 : group >> 10);
	if (digits % 4 == 3)
		bytes->data[bytes->len++] = (uint8_t)(group >> 2);
	return true;
}

bool json_mapped_bytes(
    const json_t *value, ProtobufCBinaryData *bytes, const struct path *path, struct reeve_error *error)
{
	return (json_is_string(value) && json_base64_read(json_string_value(value), json_string_length(value), bytes)) ||
	    json_refuse(error, path, "must be bytes in base64");
}

bool json_mapped_enum(const json_t *value, const ProtobufCEnumDescriptor *descriptor, int *number,
    const struct path *path, struct reeve_error *error)
{
	const char *name = json_string_value(value);
	const ProtobufCEnumValue *found = name ? protobuf_c_enum_descriptor_get_value_by_name(descriptor, name) : NULL;
	char problem[400];
	size_t used;

	if (found) {
		*number = found->value;
		return true;
	}
	if (json_is_integer(value) && json_integer_value(value) >= INT32_MIN && json_integer_value(value) <= INT32_MAX) {
		*number = (int)json_integer_value(value); /* of a later version of the contract, perhaps */
		return true;
	}
	used = (size_t)snprintf(problem, sizeof problem, "must be one of:");
	for (unsigned i = 0; i < descriptor->n_values && used < sizeof problem; i++)
		used +=
		    (size_t)snprintf(problem + used, sizeof problem - used, "%s %s", i ? "," : "", descriptor->values[i].name);
	return json_refuse(error, path, problem);
}
