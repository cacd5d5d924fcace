/*
 * Memory for one unpacked message: taken piece by piece, given back at once. Spares a malloc and a free for every
 * string and sub-message, and tells how much a message holds.
 */
#ifndef REEVE_COMMON_RPC_ARENA_H
#define REEVE_COMMON_RPC_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct arena_chunk;

/* All zero is an empty arena. */
struct arena {
	struct arena_chunk *chunks;
	size_t used, size; /* of the newest chunk */
	size_t total;      /* bytes taken from the system */
	size_t first;      /* how large the first chunk is to be; 0: small */
};

/* Unpacks checked bytes into the arena; `memory` is what wire_measure has found that they take. NULL: not well-formed after all, or no memory. The message dies with the
 * arena and must not be freed by itself. */
ProtobufCMessage *arena_unpack(
    struct arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t length,
    size_t memory);

/* Gives everything back; the arena is empty again. */
void arena_clear(struct arena *arena);

#endif
