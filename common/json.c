/* Converts protobuf messages to JSON. json_read.c does the opposite; json_names.c has the names of fields and
 * values. */
#include "common/json.h"

#include "common/clock.h"
#include "common/json_names.h"
#include "common/mem.h"
#include "common/text.h"

#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
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
	char *hex = text_hex(bytes->data, bytes->len, mem_malloc(2 * bytes->len + 1));
	json_t *value = json_stringn_nocheck(hex, 2 * bytes->len);

	free(hex);
	return value;
}

static json_t *base64_value(const ProtobufCBinaryData *bytes)
{
	char *text = mem_malloc((bytes->len + 2) / 3 * 4 + 1);
	int length = EVP_EncodeBlock((unsigned char *)text, bytes->data, (int)bytes->len);
	json_t *value = json_stringn_nocheck(text, (size_t)length);

	free(text);
	return value;
}

static json_t *enum_value(enum json_form form, const ProtobufCEnumDescriptor *descriptor, int number)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(descriptor, number);
	char word[JSON_NAME_BYTES];

	/* A value of a later version of the contract has no name here. */
	if (!value)
		return json_integer(number);
	if (form == JSON_MAPPING)
		return json_string_nocheck(value->name);
	json_enum_word(descriptor, number, word);
	return json_string_nocheck(word);
}

/* Returns a 64-bit number. Programs that keep all numbers as doubles need it as a string. */
static json_t *long_value(enum json_form form, int64_t number)
{
	char text[24];

	if (form == JSON_OWN)
		return json_integer(number);
	snprintf(text, sizeof text, "%lld", (long long)number);
	return json_string_nocheck(text);
}

static json_t *real_value(double number)
{
	return isfinite(number) ? json_real(number)
	                        : json_string_nocheck(isnan(number) ? "NaN"
	                                  : number > 0              ? "Infinity"
	                                                            : "-Infinity");
}

/* Returns one value of a field, or NULL for an unset time, string or message, which is left out. */
static json_t *field_value(enum json_form form, const ProtobufCFieldDescriptor *field, const void *at)
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
		if (form == JSON_MAPPING || !json_is_time(field))
			return long_value(form, *(const int64_t *)at);
		if (*(const int64_t *)at == 0)
			return NULL;
		return json_string_nocheck(time_format(*(const int64_t *)at, text, sizeof text));
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64: return long_value(form, (int64_t) * (const uint64_t *)at);
	case PROTOBUF_C_TYPE_FLOAT: return real_value(*(const float *)at);
	case PROTOBUF_C_TYPE_DOUBLE: return real_value(*(const double *)at);
	case PROTOBUF_C_TYPE_BOOL: return json_boolean(*(const protobuf_c_boolean *)at);
	case PROTOBUF_C_TYPE_ENUM: return enum_value(form, field->descriptor, *(const int *)at);
	case PROTOBUF_C_TYPE_STRING: return *(char *const *)at ? text_value(*(char *const *)at) : NULL;
	case PROTOBUF_C_TYPE_BYTES: return form == JSON_MAPPING ? base64_value(at) : bytes_value(at);
	case PROTOBUF_C_TYPE_MESSAGE:
		if (!*(const ProtobufCMessage *const *)at)
			return NULL;
		return json_from_message_in(form, *(const ProtobufCMessage *const *)at);
	}
	return NULL;
}

static json_t *array_value(
    enum json_form form, const ProtobufCFieldDescriptor *field, const void *elements, size_t count)
{
	size_t size = json_element_size(field->type);
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *value = field_value(form, field, (const char *)elements + i * size);

		json_array_append_new(array, value ? value : json_null());
	}
	return array;
}

/* Returns whether protobuf's mapping has the field: it is in a oneof or set, or has no default as it is optional. */
static bool is_mapped(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const void *at = (const char *)message + field->offset;
	size_t size = json_element_size(field->type);
	static const uint8_t zeros[sizeof(int64_t)];

	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF || field->label == PROTOBUF_C_LABEL_REPEATED)
		return field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF ||
		    *(const size_t *)((const char *)message + field->quantifier_offset) > 0;
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING: return *(char *const *)at && **(char *const *)at;
	case PROTOBUF_C_TYPE_BYTES: return ((const ProtobufCBinaryData *)at)->len > 0;
	case PROTOBUF_C_TYPE_MESSAGE: return *(const void *const *)at;
	default: return memcmp(at, zeros, size) != 0;
	}
}

json_t *json_from_message_in(enum json_form form, const ProtobufCMessage *message)
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
		if (form == JSON_MAPPING && !is_mapped(message, field))
			continue;
		if (field->label == PROTOBUF_C_LABEL_REPEATED)
			value = array_value(form, field, *(const void *const *)at, *(const size_t *)quantifier);
		else
			value = field_value(form, field, at);
		if (value)
			json_object_set_new_nocheck(
			    object, form == JSON_MAPPING ? json_camel_name(field, name) : json_field_name(field, name), value);
	}
	return object;
}

json_t *json_from_message(const ProtobufCMessage *message)
{
	return json_from_message_in(JSON_OWN, message);
}
