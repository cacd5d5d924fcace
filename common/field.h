/* Fields of messages by their descriptors. */
#ifndef REEVE_COMMON_FIELD_H
#define REEVE_COMMON_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns a field that exists. */
const ProtobufCFieldDescriptor *field_named(const ProtobufCMessageDescriptor *message, const char *name);

/* Returns the field of the first name in a path, "task.queue", and moves the path to what follows; "" at its end.
 * Aborts if there is no such field: paths stand in the code. */
const ProtobufCFieldDescriptor *field_step(const ProtobufCMessageDescriptor *message, const char **path);

/* Returns the address of a field's value, and of the number of elements of a repeated one. */
void *field_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

const char *field_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Return and set an integer, an enum or a bool. */
int64_t field_number_at(const ProtobufCFieldDescriptor *field, const void *at);
int64_t field_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
void field_set_number(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int64_t value);

/* Returns false if the field has its default: 0, false, "", an empty list or no message. */
bool field_is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Returns the first list of messages, whose items an answer in pages has; NULL: there is none. */
const ProtobufCFieldDescriptor *field_items(const ProtobufCMessageDescriptor *message);

#endif
