/* Numbers on the wire are big-endian. */
#include "common/rpc/frame.h"

#include "common/mem.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

struct frame *frame_create(size_t length)
{
	struct frame *frame = mem_malloc(sizeof *frame + FRAME_HEAD_BYTES + length);

	frame->next = NULL;
	frame->at_ms = 0;
	frame->length = length;
	return frame;
}

uint32_t frame_id(const struct frame *frame)
{
	uint32_t id;

	memcpy(&id, frame->wire + FRAME_LENGTH_BYTES, sizeof id);
	return be32toh(id);
}

void frame_seal(struct frame *frame, uint32_t id)
{
	uint64_t length = htobe64(frame->length + FRAME_ID_BYTES);

	id = htobe32(id);
	memcpy(frame->wire, &length, sizeof length);
	memcpy(frame->wire + FRAME_LENGTH_BYTES, &id, sizeof id);
}

uint64_t frame_read_length(const uint8_t *bytes)
{
	uint64_t length;

	memcpy(&length, bytes, sizeof length);
	return be64toh(length);
}

void frame_free_all(struct frame *frames)
{
	while (frames) {
		struct frame *next = frames->next;

		free(frames);
		frames = next;
	}
}
