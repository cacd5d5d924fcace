/*
 * A connection that carries requests or replies: nng's own wire protocol (SP, REQ 0 and REP 0), spoken over an nng
 * stream or a socket, so that any nng req0 or rep0 socket can be the other end.
 *
 * Why not those sockets themselves: in nng 1.5.2, when a connection ends between the head and the body of a message that
 * is coming in, the thread that takes connections down waits for ever (nng's pull request 1636 tells the same of 1.6). It
 * takes down those of all sockets of the process: from then on nothing connects again, and nng_close hangs. Closing a
 * busy rep0 socket does it nearly every time. Streams do not go through that thread's waiting; and what has gathered
 * while a write was under way leaves in the next one, many messages in one system call.
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

struct conn;

enum conn_side { CONN_REQUESTS = 0x30, CONN_REPLIES = 0x31 }; /* what this end sends; nng's numbers of REQ and REP */

/* Bytes that many connections together may have in memory. Zeroed but for the bounds it is ready. */
struct conn_budget {
	size_t incoming_most; /* frames of up to 64 KiB may take an eighth more */
	size_t unsent_most;
	atomic_size_t incoming; /* of frames, from their first byte until the owner takes them off the count */
	atomic_size_t unsent;   /* queued for connections that are not closing */
};

/* What the connection tells its owner, on nng's threads or the loop's, without any lock held. `opened` and `arrived` come
 * one after the other; `closed` is the last and comes once, perhaps from inside conn_close. */
struct conn_events {
	void (*opened)(void *owner);                        /* the other end is what it should be; may be NULL */
	bool (*arrived)(void *owner, struct frame *frames); /* takes the frames; false: read no more until conn_resume */
	void (*closed)(void *owner);                        /* it is over; conn_free it soon */
	void (*eased)(void *owner);                         /* after conn_heavy has said yes: much has left; may be NULL */
};

/* Takes a connected stream. `budget` may be NULL: no bounds. A long frame takes memory as its bytes come; when the budget
 * has none left, nothing is read until conn_resume finds some. NULL: no memory; the stream is freed. Nothing happens before
 * conn_start. */
struct conn *conn_make(nng_stream *stream, enum conn_side side, size_t max_body, struct conn_budget *budget,
    const struct conn_events *events, void *owner);

/* The same with a connected socket that does not block, on an event loop; everything is to happen on the loop's thread, and
 * only conn_look may be called on others. The socket belongs to the connection, and is closed if there is no memory. */
struct conn *conn_make_on_loop(struct event_base *base, int fd, enum conn_side side, size_t max_body,
    struct conn_budget *budget, const struct conn_events *events, void *owner);

/* Begins to read, and greets the other end. On the thread that will free it. */
void conn_start(struct conn *conn);

/* Takes a sealed frame to be sent; conn_flush sends what was queued unless a write is under way, which goes on with it.
 * Any thread, until conn_free. On a connection that is closing the frame is dropped. conn_queue only takes a lock of its
 * own for a moment; conn_flush may make a system call. */
void conn_queue(struct conn *conn, struct frame *frame);
void conn_flush(struct conn *conn);

/* True if more than `most` bytes are not yet given to the kernel; then `eased` is told once when half of them have been. */
bool conn_heavy(struct conn *conn, size_t most);

/* Reads on after `arrived` has said no, or the budget. */
void conn_resume(struct conn *conn);

/* Closes the connection; unsent frames are dropped. Any thread, any number of times until conn_free. */
void conn_close(struct conn *conn);

/* On a loop, both until that moment of the monotonic clock at most; they block. conn_drain sends what is queued and tells the other
 * end that no more comes; conn_await_end waits until that has closed, too, and throws away what it sends till then: a socket that is closed
 * with unread bytes, or that gets more later, has TCP reset the connection, and answers that the other end has not read yet are lost. */
void conn_drain(struct conn *conn, int64_t until_ms);
void conn_await_end(struct conn *conn, int64_t until_ms);

/* Frees it after `closed`. Waits for callbacks that are just returning: not from a callback of any connection. */
void conn_free(struct conn *conn);

struct conn_state {
	bool opened;
	int64_t quiet_ms; /* since the last byte came, or since the start */
	int64_t stuck_ms; /* how long the write under way has made no progress; 0: none is */
	size_t backlog;   /* bytes not yet given to the kernel; 0 when it is closing */
	int64_t frame_ms; /* since the first byte of the frame that is coming in; 0: none is */
	size_t frame;     /* its length, as far as it is known */
	size_t held;      /* the memory that it has taken of the budget; 0 when the connection is closing */
	bool starved;     /* nothing is read, for want of memory in the budget */
};

struct conn_state conn_look(struct conn *conn);

#endif
