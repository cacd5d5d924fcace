/* A list of chunks, each at least twice as large as the previous one. Single allocations are never freed. */
#include "common/rpc/arena.h"

#include "common/mem.h"

#include <stdlib.h>

struct arena_chunk {
	struct arena_chunk *next;
	_Alignas(max_align_t) char bytes[];
};

enum { ARENA_SMALL = 256, ARENA_ALIGN = _Alignof(max_align_t) };

static void *take(void *data, size_t size)
{
	struct arena *arena = data;
	void *piece;

	size = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
	if (!arena->chunks || arena->size - arena->used < size) {
		size_t bytes = arena->chunks ? 2 * arena->size : arena->first;
		struct arena_chunk *chunk;

		if (bytes < ARENA_SMALL)
			bytes = ARENA_SMALL;
		if (bytes < size)
			bytes = size;
		chunk = mem_malloc(sizeof *chunk + bytes);
		chunk->next = arena->chunks;
		arena->chunks = chunk;
		arena->used = 0;
		arena->size = bytes;
		arena->total += bytes;
	}
	piece = arena->chunks->bytes + arena->used;
	arena->used += size;
	return piece;
}

static void leave(void *data, void *piece)
{
	(void)data;
	(void)piece;
}

ProtobufCMessage *arena_unpack(struct arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
    size_t length, size_t memory)
{
	ProtobufCAllocator allocator = {.alloc = take, .free = leave, .allocator_data = arena};

	arena->first = memory;
	return protobuf_c_message_unpack(descriptor, &allocator, length, bytes);
}

void arena_clear(struct arena *arena)
{
	while (arena->chunks) {
		struct arena_chunk *next = arena->chunks->next;

		free(arena->chunks);
		arena->chunks = next;
	}
	*arena = (struct arena){0};
}
