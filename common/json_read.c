/*
 * Converts JSON to protobuf messages. A message is set field by field; after an error the partial message is freed like
 * any other. Errors name the field by its path, "tasks[3].details", which is a linked list on the stack.
 */
#include "common/clock.h"
#include "common/json_internal.h"
#include "common/json_names.h"
#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

static size_t write_path(const struct path *path, char *out, size_t size)
{
	size_t used;

	if (!path->parent) {
		*out = '\0';
		return 0;
	}
	used = write_path(path->parent, out, size);
	if (path->name)
		used += snprintf(out + used, size - used, "%s%s", used ? "." : "", path->name);
	else
		used += snprintf(out + used, size - used, "[%zu]", path->index);
	return used < size ? used : size - 1;
}

bool json_refuse(struct reeve_error *error, const struct path *path, const char *problem)
{
	char field[256];

	write_path(path, field, sizeof field);
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s %s", *field ? field : "the value", problem);
}

static ProtobufCMessage *read_message(const json_t *object, const ProtobufCMessageDescriptor *descriptor,
    const struct path *path, struct reeve_error *error);

static bool read_integer(const json_t *value, json_int_t low, json_int_t high, json_int_t *number,
    const struct path *path, struct reeve_error *error)
{
	if (path->form == JSON_MAPPING && !json_mapped_integer(value, number, path, error))
		return false;
	if (path->form == JSON_OWN && !json_is_integer(value))
		return json_refuse(error, path, "must be a whole number");
	if (path->form == JSON_OWN)
		*number = json_integer_value(value);
	if (*number < 0 && low == 0)
		return json_refuse(error, path, "is negative");
	if (*number < low || *number > high)
		return json_refuse(error, path, "is out of range");
	return true;
}

static bool read_time(const json_t *value, int64_t *us, const struct path *path, struct reeve_error *error)
{
	const char *text = json_string_value(value);

	if (!text || !time_parse(text, us))
		return json_refuse(error, path, "must be a time like \"2026-01-14T08:00:00Z\" or \"+5m\"");
	return true;
}

static bool read_duration(const json_t *value, int64_t *ms, const struct path *path, struct reeve_error *error)
{
	const char *text = json_string_value(value);

	if (text && duration_parse(text, ms))
		return true;
	return json_refuse(error, path,
	    text && *text == '-' && duration_parse(text + 1, ms)
	        ? "is negative"
	        : "must be a duration like \"250ms\", \"5s\" or \"1m30s\"");
}

/* Returns whether the JSON name is not the field's: it has no unit, so that the value is a text. */
static bool has_no_unit(const ProtobufCFieldDescriptor *field, const struct path *path)
{
	return strcmp(path->name ? path->name : path->parent->name, field->name) != 0;
}

static bool read_text(const json_t *value, char **text, const struct path *path, struct reeve_error *error)
{
	if (!json_is_string(value))
		return json_refuse(error, path, "must be a string");
	if (strlen(json_string_value(value)) != json_string_length(value))
		return json_refuse(error, path, "holds a NUL byte");
	*text = mem_strdup(json_string_value(value));
	return true;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) : -1;
}

static bool read_bytes(
    const json_t *value, ProtobufCBinaryData *bytes, const struct path *path, struct reeve_error *error)
{
	const char *hex = json_string_value(value);
	size_t length = hex ? json_string_length(value) : 1;

	if (path->form == JSON_MAPPING)
		return json_mapped_bytes(value, bytes, path, error);
	if (length % 2)
		return json_refuse(error, path, "must be bytes in hexadecimal digits");
	bytes->data = mem_calloc(length / 2, 1);
	bytes->len = length / 2;
	for (size_t i = 0; i < bytes->len; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return json_refuse(error, path, "must be bytes in hexadecimal digits");
		bytes->data[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool read_enum(const json_t *value, const ProtobufCEnumDescriptor *descriptor, int *number,
    const struct path *path, struct reeve_error *error)
{
	const char *word = json_string_value(value);
	char words[256], problem[300];

	if (path->form == JSON_MAPPING)
		return json_mapped_enum(value, descriptor, number, path, error);
	if (word && json_enum_number(descriptor, word, number))
		return true;
	snprintf(problem, sizeof problem, "must be one of: %s", json_enum_words(descriptor, words, sizeof words));
	return json_refuse(error, path, problem);
}

static bool read_real(const json_t *value, const ProtobufCFieldDescriptor *field, void *at, const struct path *path,
    struct reeve_error *error)
{
	double number = json_number_value(value);

	if (path->form == JSON_MAPPING && !json_mapped_real(value, &number, path, error))
		return false;
	if (path->form == JSON_OWN && !json_is_number(value))
		return json_refuse(error, path, "must be a number");
	if (field->type == PROTOBUF_C_TYPE_FLOAT)
		*(float *)at = (float)number;
	else
		*(double *)at = number;
	return true;
}

/* Reads one value of a field into `at`. */
static bool read_value(const json_t *value, const ProtobufCFieldDescriptor *field, void *at, const struct path *path,
    struct reeve_error *error)
{
	json_int_t number = 0;

	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		if (!read_integer(value, INT32_MIN, INT32_MAX, &number, path, error))
			return false;
		*(int32_t *)at = (int32_t)number;
		return true;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		if (!read_integer(value, 0, UINT32_MAX, &number, path, error))
			return false;
		*(uint32_t *)at = (uint32_t)number;
		return true;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		if (path->form == JSON_OWN && json_is_time(field))
			return read_time(value, at, path, error);
		if (path->form == JSON_OWN && has_no_unit(field, path))
			return read_duration(value, at, path, error);
		if (!read_integer(value, INT64_MIN, INT64_MAX, &number, path, error))
			return false;
		*(int64_t *)at = number;
		return true;
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		if (!read_integer(value, 0, INT64_MAX, &number, path, error))
			return false;
		*(uint64_t *)at = (uint64_t)number;
		return true;
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_DOUBLE: return read_real(value, field, at, path, error);
	case PROTOBUF_C_TYPE_BOOL:
		if (!json_is_boolean(value))
			return json_refuse(error, path, "must be true or false");
		*(protobuf_c_boolean *)at = json_is_true(value);
		return true;
	case PROTOBUF_C_TYPE_ENUM: return read_enum(value, field->descriptor, at, path, error);
	case PROTOBUF_C_TYPE_STRING: return read_text(value, at, path, error);
	case PROTOBUF_C_TYPE_BYTES: return read_bytes(value, at, path, error);
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)at = read_message(value, field->descriptor, path, error);
		return *(ProtobufCMessage **)at != NULL;
	}
	return json_refuse(error, path, "is of a type that JSON cannot give");
}

static bool read_array(const json_t *array, const ProtobufCFieldDescriptor *field, void **elements, size_t *count,
    const struct path *path, struct reeve_error *error)
{
	size_t size = json_element_size(field->type);

	if (!json_is_array(array))
		return json_refuse(error, path, "must be an array");
	if (json_array_size(array) == 0)
		return true;
	*elements = mem_calloc(json_array_size(array), size);
	for (size_t i = 0; i < json_array_size(array); i++) {
		struct path here = {.parent = path, .form = path->form, .index = i};

		/* Count the element first, so that a partly read one is freed with the message. An unread one is all zeroes. */
		*count = i + 1;
		if (!read_value(json_array_get(array, i), field, (char *)*elements + i * size, &here, error))
			return false;
	}
	return true;
}

static bool read_field(const json_t *value, const ProtobufCFieldDescriptor *field, ProtobufCMessage *message,
    const struct path *path, struct reeve_error *error)
{
	char *at = (char *)message + field->offset;
	char *quantifier = (char *)message + field->quantifier_offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return read_array(value, field, (void **)at, (size_t *)quantifier, path, error);
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
		if (*(uint32_t *)quantifier != 0)
			return json_refuse(error, path, "cannot be combined with another field that is set");
		memset(at, 0, json_element_size(field->type));
		*(uint32_t *)quantifier = field->id;
	} else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_STRING &&
	    field->type != PROTOBUF_C_TYPE_MESSAGE) {
		*(protobuf_c_boolean *)quantifier = true;
	}
	return read_value(value, field, at, path, error);
}

/* Writes the name that errors show for a field. */
static const char *shown_name(enum json_form form, const ProtobufCFieldDescriptor *field, char out[JSON_NAME_BYTES])
{
	return form == JSON_MAPPING ? json_camel_name(field, out) : json_field_name(field, out);
}

static bool refuse_unknown(
    struct reeve_error *error, const struct path *path, const ProtobufCMessageDescriptor *descriptor)
{
	char text[400], name[JSON_NAME_BYTES];

	snprintf(text, sizeof text, "is not a known field: %s has", descriptor->short_name);
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof text - used, "%s %s", i ? "," : "",
		    shown_name(path->form, &descriptor->fields[i], name));
	}
	return json_refuse(error, path, text);
}

/* Returns whether an object has a field by both of its names in protobuf's mapping. */
static bool is_given_twice(const json_t *object, const ProtobufCFieldDescriptor *field)
{
	char camel[JSON_NAME_BYTES];

	return strcmp(json_camel_name(field, camel), field->name) != 0 && json_object_get(object, camel) &&
	    json_object_get(object, field->name);
}

/* Reads one member of an object. */
static bool read_member(const json_t *object, const json_t *value, ProtobufCMessage *message, const struct path *path,
    struct reeve_error *error)
{
	const ProtobufCFieldDescriptor *field;

	if (path->form == JSON_MAPPING)
		field = json_mapped_field(message->descriptor, path->name);
	else
		field = json_field_by_name(message->descriptor, path->name);
	if (!field)
		return refuse_unknown(error, path, message->descriptor);
	if (path->form == JSON_MAPPING && is_given_twice(object, field))
		return json_refuse(error, path, "is given twice");
	return json_is_null(value) || read_field(value, field, message, path, error);
}

static ProtobufCMessage *read_message(const json_t *object, const ProtobufCMessageDescriptor *descriptor,
    const struct path *path, struct reeve_error *error)
{
	ProtobufCMessage *message;
	const char *key;
	json_t *value;

	if (!json_is_object(object)) {
		json_refuse(error, path, "must be an object");
		return NULL;
	}
	message = mem_calloc(1, descriptor->sizeof_message);
	protobuf_c_message_init(descriptor, message);
	json_object_foreach ((json_t *)object, key, value) {
		struct path here = {.parent = path, .form = path->form, .name = key};

		if (!read_member(object, value, message, &here, error)) {
			protobuf_c_message_free_unpacked(message, NULL);
			return NULL;
		}
	}
	return message;
}

ProtobufCMessage *json_to_message_in(
    enum json_form form, const json_t *object, const ProtobufCMessageDescriptor *descriptor, struct reeve_error *error)
{
	return read_message(object, descriptor, &(struct path){.form = form}, error);
}

ProtobufCMessage *json_to_message(
    const json_t *object, const ProtobufCMessageDescriptor *descriptor, struct reeve_error *error)
{
	return json_to_message_in(JSON_OWN, object, descriptor, error);
}
