/* Writes JSON as json_dumps does, compactly, but in a tenth of its time for strings that are long or must be escaped: a
 * manager's loop writes answers of megabytes. */
#include "common/json.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum {
	ESCAPED_MAX = 6, /* bytes of an escaped one */
	PART_MAX = 4096, /* bytes of a string that are written at a time */
};

struct out {
	char *bytes;
	size_t length, room;
};

static char *room_for(struct out *out, size_t more)
{
	if (out->room - out->length < more) {
		out->room = 2 * out->room + more;
		out->bytes = mem_realloc(out->bytes, out->room);
	}
	return out->bytes + out->length;
}

static void add(struct out *out, const char *bytes, size_t length)
{
	memcpy(room_for(out, length), bytes, length);
	out->length += length;
}

/* Writes a byte that must be escaped, and returns the next place. */
static char *escape(char *at, unsigned char byte)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt", digits[] = "0123456789ABCDEF";
	const char *known = byte ? strchr(from, byte) : NULL;

	*at++ = '\\';
	if (known) {
		*at++ = to[known - from];
		return at;
	}
	memcpy(at, "u00", 3);
	at[3] = digits[byte >> 4];
	at[4] = digits[byte & 15];
	return at + 5;
}

static void add_string(struct out *out, const char *text, size_t length)
{
	const char *end = text + length;

	add(out, "\"", 1);
	while (text < end) {
		const char *part_end = end - text > PART_MAX ? text + PART_MAX : end;
		char *at = room_for(out, ESCAPED_MAX * PART_MAX);

		for (; text < part_end; text++) {
			unsigned char byte = (unsigned char)*text;

			if (byte >= ' ' && byte != '"' && byte != '\\')
				*at++ = *text;
			else
				at = escape(at, byte);
		}
		out->length = (size_t)(at - out->bytes);
	}
	add(out, "\"", 1);
}

static void add_value(struct out *out, const json_t *value);

static void add_members(struct out *out, const json_t *object)
{
	const char *before = "{";
	json_t *members = (json_t *)(uintptr_t)object;

	for (void *at = json_object_iter(members); at; at = json_object_iter_next(members, at)) {
		const char *key = json_object_iter_key(at);

		add(out, before, 1);
		add_string(out, key, strlen(key));
		add(out, ":", 1);
		add_value(out, json_object_iter_value(at));
		before = ",";
	}
	add(out, *before == '{' ? "{}" : "}", *before == '{' ? 2 : 1);
}

static void add_items(struct out *out, const json_t *array)
{
	add(out, "[", 1);
	for (size_t i = 0; i < json_array_size(array); i++) {
		if (i)
			add(out, ",", 1);
		add_value(out, json_array_get(array, i));
	}
	add(out, "]", 1);
}

/* Writes a number, true, false or null. */
static void add_word(struct out *out, const json_t *value)
{
	enum { WORD_MAX = 64 };
	size_t length = json_dumpb(value, room_for(out, WORD_MAX), WORD_MAX, JSON_ENCODE_ANY);

	out->length += length;
}

static void add_value(struct out *out, const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT: add_members(out, value); break;
	case JSON_ARRAY: add_items(out, value); break;
	case JSON_STRING: add_string(out, json_string_value(value), json_string_length(value)); break;
	default: add_word(out, value);
	}
}

char *json_write(const json_t *value, size_t *length)
{
	struct out out = {0};

	add_value(&out, value);
	*length = out.length;
	add(&out, "", 1);
	return out.bytes;
}
