/*
 * One message of nng's wire protocol for requests and replies: eight bytes of length, four bytes of request id (with
 * the highest bit set), and the body, here an envelope.
 */
#ifndef REEVE_COMMON_RPC_FRAME_H
#define REEVE_COMMON_RPC_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { FRAME_LENGTH_BYTES = 8, FRAME_ID_BYTES = 4, FRAME_HEAD_BYTES = FRAME_LENGTH_BYTES + FRAME_ID_BYTES };

#define FRAME_ID_LOWEST UINT32_C(0x80000000)

struct frame {
	struct frame *next;
	int64_t at_ms;  /* when it arrived, on the monotonic clock; set by the receiver */
	size_t length;  /* of the body */
	uint8_t wire[]; /* head and body */
};

/* Creates a frame with room for a body. Free it with free(). */
struct frame *frame_create(size_t length);

/* Creates a frame of another protocol, for rpc_conn_queue: `size` bytes in all, from `wire` on; at least
 * FRAME_HEAD_BYTES. */
static inline struct frame *frame_of_bytes(size_t size)
{
	return frame_create(size - FRAME_HEAD_BYTES);
}

static inline uint8_t *frame_body(struct frame *frame)
{
	return frame->wire + FRAME_HEAD_BYTES;
}

/* Returns the request id, which the reply repeats. */
uint32_t frame_id(const struct frame *frame);

/* Fills in the head. */
void frame_seal(struct frame *frame, uint32_t id);

/* Reads a frame's length from its first eight bytes. It includes the id and the body. */
uint64_t frame_read_length(const uint8_t *bytes);

/* Frees a list of frames. */
void frame_free_all(struct frame *frames);

#endif
