/* Fields of messages by their descriptors. */
#ifndef REEVE_MANAGER_SERVICE_FIELD_H
#define REEVE_MANAGER_SERVICE_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns a field that exists. */
const ProtobufCFieldDescriptor *field_named(const ProtobufCMessage *message, const char *name);

/* Returns the address of a field's value. */
void *field_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

const char *field_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Return and set an integer, an enum or a bool. */
int64_t field_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
void field_set_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int64_t value);

/* Returns false if the field has its default: 0, false, "", an empty list or no message. */
bool field_is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

#endif
