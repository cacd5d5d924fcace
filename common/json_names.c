/* The names of fields and values in JSON, derived from the contract's descriptors. */
#include "common/json_names.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char time_suffix[] = "_us";

bool json_is_time(const ProtobufCFieldDescriptor *field)
{
	size_t length = strlen(field->name), suffix = strlen(time_suffix);

	return field->type == PROTOBUF_C_TYPE_INT64 && length > suffix &&
	    strcmp(field->name + length - suffix, time_suffix) == 0;
}

const char *json_field_name(const ProtobufCFieldDescriptor *field, char out[JSON_NAME_BYTES])
{
	snprintf(out, JSON_NAME_BYTES, "%s", field->name);
	if (json_is_time(field))
		out[strlen(out) - strlen(time_suffix)] = '\0';
	return out;
}

const char *json_camel_name(const ProtobufCFieldDescriptor *field, char out[JSON_NAME_BYTES])
{
	size_t length = 0;
	bool upper = false;

	for (const char *c = field->name; *c && length < JSON_NAME_BYTES - 1; c++) {
		if (*c != '_')
			out[length++] = upper ? (char)toupper((unsigned char)*c) : *c;
		upper = *c == '_';
	}
	out[length] = '\0';
	return out;
}

const ProtobufCFieldDescriptor *json_mapped_field(const ProtobufCMessageDescriptor *descriptor, const char *name)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
	char camel[JSON_NAME_BYTES];

	for (unsigned i = 0; !field && i < descriptor->n_fields; i++)
		if (!strcmp(json_camel_name(&descriptor->fields[i], camel), name))
			field = &descriptor->fields[i];
	return field;
}

const ProtobufCFieldDescriptor *json_field_by_name(const ProtobufCMessageDescriptor *descriptor, const char *name)
{
	static const char *const suffixes[] = {time_suffix, "_ms"};
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
	char with_suffix[JSON_NAME_BYTES];

	if (field)
		return json_is_time(field) ? NULL : field;
	for (size_t i = 0; !field && i < sizeof suffixes / sizeof *suffixes; i++) {
		snprintf(with_suffix, sizeof with_suffix, "%s%s", name, suffixes[i]);
		field = protobuf_c_message_descriptor_get_field_by_name(descriptor, with_suffix);
	}
	return field && field->type == PROTOBUF_C_TYPE_INT64 ? field : NULL;
}

/* Returns the length of the prefix that all the values' names share, up to and including an underscore. */
static size_t shared_prefix(const ProtobufCEnumDescriptor *descriptor)
{
	const char *first = descriptor->values[0].name;
	size_t length = strlen(first);

	for (unsigned i = 1; i < descriptor->n_values; i++) {
		size_t same = 0;

		while (same < length && descriptor->values[i].name[same] == first[same])
			same++;
		length = same;
	}
	while (length > 0 && first[length - 1] != '_')
		length--;
	return length;
}

static void lower_word(const char *name, size_t prefix, char out[JSON_NAME_BYTES])
{
	size_t i;

	name += prefix;
	for (i = 0; name[i] && i < JSON_NAME_BYTES - 1; i++)
		out[i] = (char)tolower((unsigned char)name[i]);
	out[i] = '\0';
}

bool json_enum_word(const ProtobufCEnumDescriptor *descriptor, int number, char out[JSON_NAME_BYTES])
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(descriptor, number);

	if (!value)
		return false;
	lower_word(value->name, shared_prefix(descriptor), out);
	return true;
}

const char *json_enum_words(const ProtobufCEnumDescriptor *descriptor, char *out, size_t size)
{
	size_t prefix = shared_prefix(descriptor);
	char word[JSON_NAME_BYTES];
	size_t used = 0;

	*out = '\0';
	for (unsigned i = 0; i < descriptor->n_values && used < size; i++) {
		lower_word(descriptor->values[i].name, prefix, word);
		used += snprintf(out + used, size - used, "%s%s", i ? ", " : "", word);
	}
	return out;
}

bool json_enum_number(const ProtobufCEnumDescriptor *descriptor, const char *word, int *number)
{
	size_t prefix = shared_prefix(descriptor);
	char candidate[JSON_NAME_BYTES];

	for (unsigned i = 0; i < descriptor->n_values; i++) {
		lower_word(descriptor->values[i].name, prefix, candidate);
		if (strcmp(candidate, word) == 0) {
			*number = descriptor->values[i].value;
			return true;
		}
	}
	return false;
}

size_t json_element_size(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE: return sizeof(int64_t);
	case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
	default: return sizeof(int32_t);
	}
}
