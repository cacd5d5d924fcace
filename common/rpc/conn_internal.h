/*
 * The parts of a connection: conn.c opens, closes and writes, conn_read.c reads; conn_nng.c and conn_loop.c carry the bytes,
 * over an nng stream for whoever has no event loop, or over a socket on one.
 */
#ifndef REEVE_COMMON_RPC_CONN_INTERNAL_H
#define REEVE_COMMON_RPC_CONN_INTERNAL_H

#include "common/rpc/conn.h"

#include <pthread.h>
#include <sys/uio.h>

enum {
	GREETING_BYTES = 8,
	IOV_MOST = 8,        /* places that one read or write has bytes in */
	WRITE_MOST = 262144, /* bytes of one write */
	BUFFER_LEAST = 2048, /* most connections are idle most of the time */
};

/* Bytes to be sent: gathered ones, or one frame's. Bytes may be added while others of the chunk are being written. */
struct chunk {
	struct chunk *next;
	struct frame *frame;
	size_t filled, room;
	uint8_t gathered[];
};

/* What carries a connection's bytes. At most one read and one write are under way; each ends in conn_received or
 * conn_written, also when the carrier is closed. */
struct carrier {
	bool (*receive)(struct conn *conn, const struct iovec *places, unsigned count); /* false: it is closed */
	bool (*send)(struct conn *conn, const struct iovec *places, unsigned count);    /* false: it is closed */
	void (*close)(struct conn *conn); /* once */
	void (*free)(struct conn *conn);  /* when everything has ended */
};

struct conn {
	const struct carrier *carrier;
	union {
		struct {
			nng_stream *stream;
			nng_aio *read_aio, *write_aio;
			pthread_mutex_t io_lock;
			bool stream_closed;
		};
		struct {
			int fd; /* -1: closed */
			struct event *readable, *writable;
			bool receiving, sending, in_turn;
			struct iovec receive_places[IOV_MOST], send_places[IOV_MOST];
			unsigned receive_count, send_count;
		};
	};
	enum conn_side side;
	size_t max_body;
	struct conn_budget *budget; /* or NULL */
	const struct conn_events *events;
	void *owner;

	/* The reader's own. */
	bool greeted;
	uint8_t *buffer;
	size_t size, filled;
	struct frame *partial; /* a long frame, read into directly */
	size_t partial_filled, partial_room; /* bytes of it with its head */

	pthread_mutex_t lock;
	bool opened, closing, over;
	bool reading, writing, shutting;
	bool resumed; /* conn_resume came before the reader had stopped */
	struct chunk *out, *out_last;
	size_t out_offset; /* of the first chunk: bytes that are sent */
	size_t backlog;
	size_t heavy; /* `eased` is to be told when no more is queued than this; 0: not */
	int64_t heard_ms, progress_ms;
	int64_t frame_since_ms; /* of the frame that is coming in, 0: none is */
	size_t frame_length;
	size_t frame_room; /* the memory it has */
	bool starved;
};

/* Lowers a flag, with the lock held. True if that was the end: the owner is to be told when the lock is let go. */
bool conn_lower(struct conn *conn, bool *flag);

/* Lowers a flag, and tells the owner if that was the end. */
void conn_stop(struct conn *conn, bool *flag);

/* Counts bytes of frames that come in, or, a negative number, that do not any more. */
void conn_count_incoming(struct conn *conn, size_t bytes);

/* A read is done, a write is done: so many bytes, or none any more if it is not `good`. */
void conn_received(struct conn *conn, bool good, size_t count);
void conn_written(struct conn *conn, bool good, size_t count);

/* Makes what both carriers share. NULL: no memory. */
struct conn *conn_new(const struct carrier *carrier, enum conn_side side, size_t max_body, struct conn_budget *budget,
    const struct conn_events *events, void *owner);

/* Frees what conn_new has made. */
void conn_discard(struct conn *conn);

#endif
