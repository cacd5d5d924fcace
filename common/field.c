#include "common/field.h"

#include "common/json_names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ProtobufCFieldDescriptor *field_named(const ProtobufCMessageDescriptor *message, const char *name)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message, name);

	assert(field);
	return field;
}

const ProtobufCFieldDescriptor *field_step(const ProtobufCMessageDescriptor *message, const char **path)
{
	size_t length = strcspn(*path, ".");
	char name[JSON_NAME_BYTES];
	const ProtobufCFieldDescriptor *field;

	snprintf(name, sizeof name, "%.*s", (int)length, *path);
	field = protobuf_c_message_descriptor_get_field_by_name(message, name);
	if (!field)
		abort();
	*path += length + ((*path)[length] == '.');
	return field;
}

void *field_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return (char *)(uintptr_t)message + field->offset;
}

size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return (size_t *)((char *)(uintptr_t)message + field->quantifier_offset);
}

const char *field_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	assert(field->type == PROTOBUF_C_TYPE_STRING);
	return *(char **)field_at(message, field);
}

int64_t field_number_at(const ProtobufCFieldDescriptor *field, const void *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32: return *(const uint32_t *)at;
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32: return *(const int32_t *)at;
	default: assert(field->type == PROTOBUF_C_TYPE_INT64); return *(const int64_t *)at;
	}
}

int64_t field_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return field_number_at(field, field_at(message, field));
}

void field_set_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int64_t value)
{
	if (field->type == PROTOBUF_C_TYPE_INT64)
		*(int64_t *)field_at(message, field) = value;
	else
		*(int32_t *)field_at(message, field) = (int32_t)value;
}

bool field_is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return *field_count(message, field) != 0;
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(ProtobufCMessage **)field_at(message, field) != NULL;
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return *field_text(message, field) != '\0';
	return field_number(message, field) != 0;
}

const ProtobufCFieldDescriptor *field_items(const ProtobufCMessageDescriptor *message)
{
	for (unsigned i = 0; i < message->n_fields; i++)
		if (message->fields[i].label == PROTOBUF_C_LABEL_REPEATED && message->fields[i].type == PROTOBUF_C_TYPE_MESSAGE)
			return &message->fields[i];
	return NULL;
}
