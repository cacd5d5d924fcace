/*
 * Conversion between protobuf messages and JSON, driven by the messages' descriptors. JSON uses the fields' names, and:
 * - A time (an int64 field named …_us) loses the suffix and is an RFC 3339 string
 *   ("created": "2026-01-14T08:00:00.000000Z"); a time of 0 is left out.
 * - An enumeration is its value's name in lower case, without the prefix that all its values share
 *   ("TASK_STATUS_QUEUED": "queued").
 * - 64-bit numbers are numbers, and bytes are hexadecimal digits.
 * The reader accepts what the writer produces, null for a field that is left out, times in all forms of time_parse, and
 * instead of a number of milliseconds (an int64 field named …_ms) a duration without the suffix ("timeout": "1m30s").
 */
#ifndef REEVE_COMMON_JSON_H
#define REEVE_COMMON_JSON_H

#include "common/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* The forms of JSON. */
enum json_form {
	JSON_OWN, /* the one above */
	/* protobuf's JSON mapping: names in camelCase, 64-bit numbers as strings, bytes in base64, enumerations by their
	 * full names, no fields with their defaults. The reader also accepts the fields' own names, numbers as numbers or
	 * strings, enumerations by number, and base64 for URLs. Unknown fields are errors. */
	JSON_MAPPING,
};

/* json_from_message and json_to_message are for JSON_OWN; the others for any form. */
json_t *json_from_message_in(enum json_form form, const ProtobufCMessage *message);
ProtobufCMessage *json_to_message_in(
    enum json_form form, const json_t *object, const ProtobufCMessageDescriptor *descriptor, struct reeve_error *error);

enum { JSON_DEPTH_MAX = 40 };

/* Parses the text of a caller: an object or array without duplicate members, not nested deeper than JSON_DEPTH_MAX,
 * that takes up to about `max_memory` bytes. Returns NULL with *error (INVALID_ARGUMENT, with the place) if it is
 * something else. */
json_t *json_read_text(const char *text, size_t length, size_t max_memory, struct reeve_error *error);

/* Parses a text as json_loadb does, with its flags. The value of the object's member `name`, or without a name the
 * whole value, stays text: unless it is a string or null, it becomes a string with the bytes that the text has for it,
 * without the blanks outside of its strings. So its numbers keep their digits, and none is too large. *why is set on
 * errors. */
json_t *json_load_as_text(const char *text, size_t length, size_t flags, const char *name, json_error_t *why);

/* Returns a new object (json_decref it) with the message's fields in their order. Empty strings and zeroes are
 * included. Unset times, unset sub-messages and NULL strings are left out; an unpacked message has no NULL strings. */
json_t *json_from_message(const ProtobufCMessage *message);

/* Returns JSON in the fewest bytes, terminated by a NUL. The caller must free it. *length: without the NUL. */
char *json_write(const json_t *value, size_t *length);

/* Returns a new message (free it with protobuf_c_message_free_unpacked(message, NULL)), or NULL with *error, which
 * names the field. Unknown fields, wrong types and numbers out of range are errors. */
ProtobufCMessage *json_to_message(
    const json_t *object, const ProtobufCMessageDescriptor *descriptor, struct reeve_error *error);

#endif
