#include "manager/service/field.h"

#include <assert.h>
#include <stddef.h>

const ProtobufCFieldDescriptor *field_named(const ProtobufCMessage *message, const char *name)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
	assert(field);
	return field;
}

void *field_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return (char *)message + field->offset;
}

const char *field_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	assert(field->type == PROTOBUF_C_TYPE_STRING);
	return *(char **)field_at(message, field);
}

int64_t field_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_UINT32: return *(uint32_t *)field_at(message, field);
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32: return *(int32_t *)field_at(message, field);
	default: assert(field->type == PROTOBUF_C_TYPE_INT64); return *(int64_t *)field_at(message, field);
	}
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
		return *(size_t *)((char *)message + field->quantifier_offset) != 0;
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(ProtobufCMessage **)field_at(message, field) != NULL;
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return *field_text(message, field) != '\0';
	return field_number(message, field) != 0;
}
