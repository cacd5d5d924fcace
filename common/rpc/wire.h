/*
 * Validates the wire bytes of a message by its descriptor before protobuf-c unpacks it: protobuf-c cuts a string at a
 * NUL and accepts any bytes as UTF-8.
 */
#ifndef REEVE_COMMON_RPC_WIRE_H
#define REEVE_COMMON_RPC_WIRE_H

#include "common/error.h"

#include <protobuf-c/protobuf-c.h>

/* Limits for one message, including everything inside it. Without them a few megabytes of two-byte fields would unpack
 * to hundreds of megabytes. Elements are submessages, and the values of repeated strings and bytes. */
enum { WIRE_MAX_DEPTH = 16, WIRE_MAX_ELEMENTS = 250000, WIRE_MAX_UNKNOWN = 10000, WIRE_MAX_FIELDS = 2000000 };

/* Returns true if `bytes` is a well-formed message of the descriptor: known wire types, lengths within the message,
 * strings in valid UTF-8 without NUL, within the limits above. Otherwise returns false; *error is INVALID_ARGUMENT and
 * names the field by its path ("tasks[3].details holds a NUL byte"). */
bool wire_check(
    const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length, struct reeve_error *error);

/* Like wire_check; also sets *memory to the bytes that the message occupies when arena_unpack unpacks it. */
bool wire_measure(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length, size_t *memory,
    struct reeve_error *error);

/* Checks a message with wire_check and unpacks it. Free it with protobuf_c_message_free_unpacked(message, NULL). */
ProtobufCMessage *wire_unpack(
    const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length, struct reeve_error *error);

#endif
