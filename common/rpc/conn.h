/*
 * A connection that carries requests or replies in nng's own wire protocol (SP, REQ 0 and REP 0), over an nng stream or
 * a socket. Any nng req0 or rep0 socket can be the other end.
 *
 * Why not nng's sockets: in nng 1.5.2, if a connection ends between the head and the body of an incoming message, the
 * thread that closes connections blocks forever (nng's pull request 1636 reports the same for 1.6). That thread serves
 * all sockets of the process: from then on nothing connects again, and nng_close hangs. Closing a busy rep0 socket
 * triggers it nearly every time. Closing a stream does not wait for that thread. Streams also allow batching: what is
 * queued during a write leaves in the next one, many messages in one system call.
 */
#ifndef REEVE_COMMON_RPC_CONN_H
#define REEVE_COMMON_RPC_CONN_H

#include "common/rpc/frame.h"

#include <event2/event.h>
#include <nng/nng.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_conn;

/* what this end sends; nng's numbers of REQ and REP */
enum rpc_conn_side { RPC_CONN_REQUESTS = 0x30, RPC_CONN_REPLIES = 0x31 };

/* The memory that many connections share, in bytes. Set the limits and zero the counters. */
struct rpc_conn_budget {
	size_t incoming_max; /* limit; frames of up to 64 KiB may take an eighth more */
	size_t unsent_max;
	atomic_size_t incoming; /* of frames, from their first byte until the owner subtracts them */
	atomic_size_t unsent;   /* queued for connections that are not closing */
	atomic_bool exceeded;   /* set when a protocol does not get memory */
};

/* Callbacks to the owner, on nng's threads or the loop's, without any lock held. `opened` and `arrived` never run
 * concurrently; `closed` is the last callback and comes once, perhaps from inside rpc_conn_close. */
struct rpc_conn_events {
	void (*opened)(void *owner); /* the other end sent the expected hello; may be NULL */
	/* takes the frames; false: stop reading until rpc_conn_resume */
	bool (*arrived)(void *owner, struct frame *frames);
	void (*closed)(void *owner);                 /* it has ended; call rpc_conn_free soon */
	void (*eased)(void *owner);                  /* after rpc_conn_heavy: the backlog has shrunk; may be NULL */
	void (*withdrawn)(void *owner, uint32_t id); /* rpc_conn_withdraw was called; may be NULL */
};

/* What a protocol gets of a connection's bytes, and what it makes of them. */
struct rpc_intake {
	const uint8_t *bytes; /* those that it left before, and then new ones */
	size_t length;
	size_t used;         /* it sets: how many it has taken; the others come again, with more or after rpc_conn_resume */
	struct frame **last; /* it appends complete messages here, whose memory it has counted by rpc_conn_reserve */
	bool starved;        /* it sets: it needs memory that the budget does not have */
	bool begun;          /* it sets: a message has begun, and is not complete */
	size_t expected;     /* the length of that message, as far as known */
	size_t held;         /* … and its memory, counted in the budget; of several messages, that of all */
	int64_t since_ms;    /* … and when the first of several began; 0: there is one, or none */
};

/* How bytes become frames, instead of nng's protocol. What a frame contains is the protocol's affair. */
struct rpc_protocol {
	void *(*open)(void *arg, struct rpc_conn *conn);
	bool (*take)(void *state, struct rpc_intake *intake); /* false: the connection must be closed */
	void (*sent)(void *state);                            /* all that was queued has been sent; may be NULL */
	void (*free)(void *state);
};

/* Makes a connection of a connected stream. `budget` may be NULL: no limits. A long frame takes memory as its bytes
 * arrive; when the budget is used up, reading stops until rpc_conn_resume finds memory again. Nothing happens before
 * rpc_conn_start. */
struct rpc_conn *rpc_conn_create(nng_stream *stream, enum rpc_conn_side side, size_t max_body,
    struct rpc_conn_budget *budget, const struct rpc_conn_events *events, void *owner);

/* Like rpc_conn_create, with a connected nonblocking socket on an event loop. Use the connection only on the loop's
 * thread; only rpc_conn_poll may be called on others. The connection owns the socket. */
struct rpc_conn *rpc_conn_create_on_loop(struct event_base *base, int fd, enum rpc_conn_side side, size_t max_body,
    struct rpc_conn_budget *budget, const struct rpc_conn_events *events, void *owner);

/* Makes a connection on a loop use a protocol. Call it before rpc_conn_start. rpc_conn_protocol_state returns what its
 * `open` returned. */
void rpc_conn_use(struct rpc_conn *conn, const struct rpc_protocol *protocol, void *arg);
void *rpc_conn_protocol_state(const struct rpc_conn *conn);

/* Counts memory for an incoming message of a protocol, of which `length` bytes are known, in the budget. Returns false,
 * and counts nothing, if the budget is used up. rpc_conn_unreserve subtracts it. */
bool rpc_conn_reserve(struct rpc_conn *conn, size_t bytes, size_t length);
void rpc_conn_unreserve(struct rpc_conn *conn, size_t bytes);

/* For a protocol that sends answers in pieces. rpc_conn_queue_bytes queues a copy of up to 64 KiB, and returns how many
 * queued bytes are unsent: SIZE_MAX if the connection is closing. rpc_conn_hold adds bytes of answers that the protocol
 * holds until the other end takes them, or subtracts them (a negative number): they count as unsent. */
size_t rpc_conn_queue_bytes(struct rpc_conn *conn, const void *bytes, size_t length);
void rpc_conn_hold(struct rpc_conn *conn, size_t bytes);

/* A protocol calls it when the other end does not want the answer to a call any more. */
void rpc_conn_withdraw(struct rpc_conn *conn, uint32_t id);

/* Sends the hello and starts reading. Call it on the thread that will free the connection. */
void rpc_conn_start(struct rpc_conn *conn);

/* rpc_conn_queue queues a sealed frame and takes ownership of it; on a closing connection it drops the frame.
 * rpc_conn_flush sends what is queued; if a write is in flight, its completion sends it instead. Both may be called on
 * any thread until rpc_conn_free. rpc_conn_queue only takes a lock of the connection for a moment; rpc_conn_flush may
 * make a system call. */
void rpc_conn_queue(struct rpc_conn *conn, struct frame *frame);
void rpc_conn_flush(struct rpc_conn *conn);

/* Returns true if more than `max` bytes are not yet passed to the kernel. Then `eased` is called once, when no more
 * than half of `max` are left. */
bool rpc_conn_heavy(struct rpc_conn *conn, size_t max);

/* Resumes reading after `arrived` returned false, or the budget was used up. A protocol gets again what it left. */
void rpc_conn_resume(struct rpc_conn *conn);

/* Closes the connection and drops unsent frames. May be called on any thread and repeatedly until rpc_conn_free. */
void rpc_conn_close(struct rpc_conn *conn);

/* Sends what is queued, and ends the sending direction of a connection on a loop. */
void rpc_conn_finish(struct rpc_conn *conn);

/* Only for a connection on a loop. Both block until `until_ms` of the monotonic clock at the latest. rpc_conn_drain
 * sends what is queued and ends the sending direction. rpc_conn_await_end waits until the other end has closed, too,
 * and discards what it sends until then: a socket that is closed with unread bytes, or receives more later, makes TCP
 * reset the connection, which loses answers that the other end has not read yet. */
void rpc_conn_drain(struct rpc_conn *conn, int64_t until_ms);
void rpc_conn_await_end(struct rpc_conn *conn, int64_t until_ms);

/* Frees the connection after `closed`. Waits for callbacks that are returning, so do not call it from a callback of any
 * connection. */
void rpc_conn_free(struct rpc_conn *conn);

enum { RPC_CONN_WAIT_MS = 50 };

struct rpc_conn_state {
	bool opened;
	int64_t quiet_ms;  /* since the last byte arrived, or since the start */
	int64_t stuck_ms;  /* since the other end last took bytes of what is being written or held; 0: there is nothing */
	int64_t waited_ms; /* since the kernel last took bytes that had waited for RPC_CONN_WAIT_MS; INT64_MAX: never */
	size_t backlog;    /* bytes not yet passed to the kernel, with those that a protocol holds; 0 while closing */
	int64_t frame_ms;  /* since the first byte of the incoming frame; 0: none */
	size_t frame;      /* its length, as far as known */
	size_t held;       /* its memory, counted in the budget; 0 while the connection is closing */
	int64_t held_ms;   /* since the first byte of the oldest message in it; 0: none */
	bool starved;      /* reading has stopped because the budget is used up */
	int64_t ended_ms;  /* since rpc_conn_finish; 0: not called */
};

struct rpc_conn_state rpc_conn_poll(struct rpc_conn *conn);

#endif
