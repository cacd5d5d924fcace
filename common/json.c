/* Converts protobuf messages to JSON. json_read.c does the opposite; json_names.c has the names of fields and
 * values. */
#include "common/json.h"

#include "common/clock.h"
#include "common/json_names.h"
#include "common/mem.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>

static json_t *text_value(const char *text)
{
	json_t *value = json_string(text);

	if (!value) {
		/* json_string refuses only strings that are not UTF-8. */
		char *repaired = utf8_repair(text, strlen(text));

		value = json_string(repaired);
		free(repaired);
	}
	return value;
}

static json_t *bytes_value(const ProtobufCBinaryData *bytes)
{
	static const char digits[] = "0123456789abcdef";
	char *hex = mem_malloc(2 * bytes->len + 1);
	json_t *value;

	for (size_t i = 0; i < bytes->len; i++) {
		hex[2 * i] = digits[bytes->data[i] >> 4];
		hex[2 * i + 1] = digits[bytes->data[i] & 15];
	}
	value = json_stringn_nocheck(hex, 2 * bytes->len);
	free(hex);
	return value;
}

static json_t *enum_value(const ProtobufCEnumDescriptor *descriptor, int number)
{
	char word[JSON_NAME_BYTES];

	/* A value of a later version of the contract has no name here. */
	if (!json_enum_word(descriptor, number, word))
		return json_integer(number);
	return json_string_nocheck(word);
}

/* Returns one value of a field, or NULL for an unset time, string or message, which is left out. */
static json_t *field_value(const ProtobufCFieldDescriptor *field, const void *at)
{
	char text[40];

	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32: return json_integer(*(const int32_t *)at);
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32: return json_integer(*(const uint32_t *)at);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		if (!json_is_time(field))
			return json_integer(*(const int64_t *)at);
		if (*(const int64_t *)at == 0)
			return NULL;
		return json_string_nocheck(time_format(*(const int64_t *)at, text, sizeof text));
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64: return json_integer((json_int_t) * (const uint64_t *)at);
	case PROTOBUF_C_TYPE_FLOAT: return json_real(*(const float *)at);
	case PROTOBUF_C_TYPE_DOUBLE: return json_real(*(const double *)at);
	case PROTOBUF_C_TYPE_BOOL: return json_boolean(*(const protobuf_c_boolean *)at);
	case PROTOBUF_C_TYPE_ENUM: return enum_value(field->descriptor, *(const int *)at);
	case PROTOBUF_C_TYPE_STRING: return *(char *const *)at ? text_value(*(char *const *)at) : NULL;
	case PROTOBUF_C_TYPE_BYTES: return bytes_value(at);
	case PROTOBUF_C_TYPE_MESSAGE:
		if (!*(const ProtobufCMessage *const *)at)
			return NULL;
		return json_from_message(*(const ProtobufCMessage *const *)at);
	}
	return NULL;
}

static json_t *array_value(const ProtobufCFieldDescriptor *field, const void *elements, size_t count)
{
	size_t size = json_element_size(field->type);
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *value = field_value(field, (const char *)elements + i * size);

		json_array_append_new(array, value ? value : json_null());
	}
	return array;
}

json_t *json_from_message(const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	json_t *object = json_object();

	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		const char *at = (const char *)message + field->offset;
		const char *quantifier = (const char *)message + field->quantifier_offset;
		char name[JSON_NAME_BYTES];
		json_t *value;

		if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && *(const uint32_t *)quantifier != field->id)
			continue;
		if (field->label == PROTOBUF_C_LABEL_REPEATED)
			value = array_value(field, *(const void *const *)at, *(const size_t *)quantifier);
		else
			value = field_value(field, at);
		if (value)
			json_object_set_new_nocheck(object, json_field_name(field, name), value);
	}
	return object;
}
