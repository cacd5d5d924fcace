/*
 * What a message must be before protobuf-c may unpack it. protobuf-c cuts a string at a NUL and takes any bytes for
 * UTF-8; this walks the wire bytes by descriptor and finds what is wrong first.
 */
#ifndef REEVE_COMMON_RPC_WIRE_H
#define REEVE_COMMON_RPC_WIRE_H

#include "common/error.h"

#include <protobuf-c/protobuf-c.h>

/* Bounds of one message, everything inside it counted together. Without them a few megabytes of two-byte fields would
 * unpack to hundreds. Elements are those of repeated messages, strings and bytes. */
enum { WIRE_MAX_DEPTH = 16, WIRE_MAX_ELEMENTS = 250000, WIRE_MAX_UNKNOWN = 10000, WIRE_MAX_FIELDS = 2000000 };

/* True if `bytes` is a well-formed message of the descriptor: known wire types, lengths inside, strings valid UTF-8
 * without NUL, within the bounds above. Else false, *error is INVALID_ARGUMENT and names the field by its path
 * ("tasks[3].details holds a NUL byte"). */
bool wire_check(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length,
    struct reeve_error *error);

/* The same, and how many bytes of memory the message takes when arena_unpack unpacks it. */
bool wire_measure(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length, size_t *memory,
    struct reeve_error *error);

/* wire_check and unpack in one. The message is freed with protobuf_c_message_free_unpacked(message, NULL). */
ProtobufCMessage *wire_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length,
    struct reeve_error *error);

#endif
