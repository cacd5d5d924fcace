/*
 * The parts of a connection: conn.c opens, closes and writes; conn_read.c reads; conn_nng.c carries the bytes over an
 * nng stream, for owners without an event loop; conn_loop.c carries them over a socket on an event loop; conn_tls.c
 * encrypts above either.
 */
#ifndef REEVE_COMMON_RPC_CONN_INTERNAL_H
#define REEVE_COMMON_RPC_CONN_INTERNAL_H

#include "common/rpc/conn.h"

#include <pthread.h>
#include <sys/uio.h>

enum {
	HELLO_BYTES = 8,
	IOV_MAX = 8,        /* buffers of one read or write */
	WRITE_MAX = 262144, /* bytes of one write */
	BUFFER_MIN = 2048,  /* small, because most connections are idle most of the time */
};

/* Bytes to send: those of several frames, or one long frame. Bytes may be appended while others of the chunk are being
 * written. */
struct chunk {
	struct chunk *next;
	struct frame *frame;
	size_t filled, capacity;
	uint8_t copied[];
};

/* Carries a connection's bytes. There is up to one read and one write in flight. Each ends in the connection's
 * `received` or `written`, also when the carrier is closed. */
struct carrier {
	bool (*receive)(struct rpc_conn *conn, const struct iovec *places, unsigned count); /* false: it is closed */
	bool (*send)(struct rpc_conn *conn, const struct iovec *places, unsigned count);    /* false: it is closed */
	void (*close)(struct rpc_conn *conn);                                               /* called once */
	void (*free)(struct rpc_conn *conn); /* when all operations have ended */
	void (*end)(struct rpc_conn *conn);  /* ends the sending direction when nothing is being sent; NULL: it cannot */
	void (*send_all)(struct rpc_conn *conn); /* from now on send without turns for others; NULL: it has no turns */
};

struct rpc_conn {
	const struct carrier *carrier;
	/* Handle the completion of a read or write of the carrier: rpc_conn_received and rpc_conn_written, without TLS. */
	void (*received)(struct rpc_conn *conn, bool good, size_t count);
	void (*written)(struct rpc_conn *conn, bool good, size_t count);
	struct tls_layer *tls; /* or NULL */
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
			struct iovec receive_places[IOV_MAX], send_places[IOV_MAX];
			unsigned receive_count, send_count;
		};
	};
	enum rpc_conn_side side;
	size_t max_body;
	struct rpc_conn_budget *budget; /* or NULL */
	const struct rpc_conn_events *events;
	void *owner;
	const struct rpc_protocol *protocol; /* NULL: nng's */
	void *protocol_state;

	/* Used only by the reader. */
	bool said_hello, stranger; /* stranger: the first bytes are TLS */
	uint8_t *buffer;
	size_t size, filled;
	struct frame *partial;                   /* a long frame, read into directly */
	size_t partial_filled, partial_capacity; /* in bytes, including the head */

	pthread_mutex_t lock;
	bool opened, closing, over;
	bool reading, writing, shutting;
	bool resumed; /* rpc_conn_resume was called while the reader was active */
	struct chunk *out, *out_last;
	size_t out_offset;    /* bytes of the first chunk that are sent */
	size_t backlog, held; /* held: the part that a protocol holds */
	bool taken;           /* of the queue, some bytes were held */
	size_t heavy;         /* call `eased` when the backlog is no larger than this; 0: do not */
	int64_t last_received_ms, progress_ms;
	int64_t taken_ms;       /* when the other end last took some of what a protocol holds */
	int64_t waited_ms;      /* the last progress after RPC_CONN_WAIT_MS; 0: none */
	int64_t finish_ms;      /* when rpc_conn_finish was called; 0: it was not */
	int64_t frame_since_ms; /* of the incoming frame; 0: none */
	size_t frame_length;
	size_t frame_capacity; /* its allocated memory */
	int64_t held_since_ms; /* since_ms of struct rpc_intake */
	bool starved;
};

/* Clears a flag; call with the lock held. Returns true if the connection has ended: the caller must call `closed` after
 * it releases the lock. */
bool rpc_conn_clear(struct rpc_conn *conn, bool *flag);

/* Clears a flag, and calls `closed` if the connection has ended. */
void rpc_conn_stop(struct rpc_conn *conn, bool *flag);

/* Adds bytes of incoming frames to the budget, or subtracts them (a negative number). */
void rpc_conn_count_incoming(struct rpc_conn *conn, size_t bytes);

/* Passes the buffer's bytes to the protocol again. */
void rpc_conn_take_again(struct rpc_conn *conn);

/* Handle the completion of a read or write of `count` bytes. If `good` is false, the carrier is closed or has
 * failed. */
void rpc_conn_received(struct rpc_conn *conn, bool good, size_t count);
void rpc_conn_written(struct rpc_conn *conn, bool good, size_t count);

/* Notes that the kernel has taken bytes, with the lock held. */
void rpc_conn_progressed(struct rpc_conn *conn);

/* Creates what both carriers share. */
struct rpc_conn *rpc_conn_alloc(const struct carrier *carrier, enum rpc_conn_side side, size_t max_body,
    struct rpc_conn_budget *budget, const struct rpc_conn_events *events, void *owner);

#endif
