/*
 * Protobuf messages as JSON, driven by their descriptors, with the fields' own names. A field named …_us that holds a
 * time is shown without the suffix as RFC 3339 text ("created": "2026-01-14T08:00:00.000000Z"), or left out when 0;
 * enumerations are shown as their value's name in lower case, behind the prefix that all values share
 * ("TASK_STATUS_QUEUED": "queued"); 64-bit numbers are numbers, bytes hexadecimal digits. Reading takes what writing
 * makes.
 */
#ifndef REEVE_COMMON_JSON_H
#define REEVE_COMMON_JSON_H

#include "common/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

/* A new object (json_decref it) with all fields of the message in their order; empty texts and zero numbers are there
 * too, unset times and sub-messages are left out, and texts that are NULL, which no unpacked message has. */
json_t *json_from_message(const ProtobufCMessage *message);

/* A new message from an object (protobuf_c_message_free_unpacked(message, NULL)), or NULL with *error naming the field.
 * Unknown fields, wrong types and numbers out of range are errors. */
ProtobufCMessage *json_to_message(
    const json_t *object, const ProtobufCMessageDescriptor *descriptor, struct reeve_error *error);

#endif
