/*
 * One message of nng's wire protocol for requests and replies: eight bytes of length, four bytes that name the request
 * (the highest bit set), and the body, here an envelope.
 */
#ifndef REEVE_COMMON_RPC_FRAME_H
#define REEVE_COMMON_RPC_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { FRAME_LENGTH_BYTES = 8, FRAME_ID_BYTES = 4, FRAME_HEAD_BYTES = FRAME_LENGTH_BYTES + FRAME_ID_BYTES };

/* The lowest request id. */
#define FRAME_ID_LOWEST UINT32_C(0x80000000)

struct frame {
	struct frame *next;
	int64_t at_ms; /* since when it is there, for whoever queues it */
	size_t length;  /* of the body */
	uint8_t wire[]; /* head and body */
};

/* Makes a frame with room for a body. NULL: no memory. Freed with free(). */
struct frame *frame_make(size_t length);

static inline uint8_t *frame_body(struct frame *frame)
{
	return frame->wire + FRAME_HEAD_BYTES;
}

/* The request's id, which the reply repeats. */
uint32_t frame_id(const struct frame *frame);

/* Completes the head. */
void frame_seal(struct frame *frame, uint32_t id);

/* Reads a frame's length, which counts id and body, from its first eight bytes. */
uint64_t frame_read_length(const uint8_t *bytes);

/* Frees a list. */
void frame_free_all(struct frame *frames);

#endif
