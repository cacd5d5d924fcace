/*
 * Memory for one unpacked message: allocated in pieces, freed at once. It saves a malloc and a free for each string and
 * submessage, and its total is the memory that a message occupies.
 */
#ifndef REEVE_COMMON_RPC_ARENA_H
#define REEVE_COMMON_RPC_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct arena_chunk;

/* An arena of all zeros is empty. */
struct arena {
	struct arena_chunk *chunks;
	size_t used, size; /* of the newest chunk */
	size_t total;      /* bytes allocated from the system */
	size_t first;      /* size of the first chunk; 0: small */
};

/* Unpacks checked bytes into the arena. `memory` is the size that wire_measure returned. Returns NULL if the message is
 * malformed after all. The message lives as long as the arena; never free it separately. */
ProtobufCMessage *arena_unpack(struct arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
    size_t length, size_t memory);

/* Frees all memory; the arena is empty again. */
void arena_clear(struct arena *arena);

#endif
