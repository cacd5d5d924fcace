/*
 * The parts of the server. server.c is the door: calls, from the frame that brought one to the reply; server_peers.c has
 * the listeners and the connections. nng's threads only append to the lists behind `lock`, and wake the loop; the rest
 * belongs to the loop's thread.
 */
#ifndef REEVE_COMMON_RPC_SERVER_INTERNAL_H
#define REEVE_COMMON_RPC_SERVER_INTERNAL_H

#include "common/hash.h"
#include "common/rpc/arena.h"
#include "common/rpc/conn.h"
#include "common/rpc/server.h"
#include "common/uuid.h"

#include <nng/nng.h>
#include <pthread.h>

struct method {
	char *name; /* "/reeve.v1.TaskService/Submit" */
	const ProtobufCMessageDescriptor *input, *output;
	rpc_method *serve;
	void *service;
	UT_hash_handle hh;
};

/* Somebody at the other end of a connection. */
struct peer {
	struct rpc_server *server;
	struct conn *conn;        /* NULL once it is over */
	struct peer *prev, *next; /* in `peers` */
	struct peer *next_closed, *next_dirty;
	int open_calls; /* it is kept until they are answered */
	bool dirty;     /* replies are queued, not flushed */
	bool over;
	/* Behind the server's lock: frames that have arrived and are not looked at yet. */
	int waiting;
	size_t waiting_bytes;
	bool stalled; /* nothing is read from it for now */
};

struct listener {
	struct rpc_server *server;
	nng_stream_listener *stream_listener;
	nng_aio *aio;
	char *url;
	struct listener *next;
	/* Behind the server's lock. */
	bool idle; /* does not accept: told to by accept_more */
};

/* A connection that is accepted and not looked at yet. */
struct newcomer {
	nng_stream *stream;
	struct newcomer *next;
};

struct rpc_call {
	struct rpc_server *server;
	struct peer *peer;
	struct rpc_call *prev, *next; /* in `open` */
	const struct method *method;
	struct arena arena;
	size_t held; /* bytes counted in the server's `held` */
	uint32_t frame_id;
	uint32_t deadline_ms;
	int64_t arrived_ms;
	uint8_t request_id[UUID_BYTES];
	bool has_request_id;
	const char *actor, *token;
	void (*closed)(void *arg);
	void *closed_arg;
	char texts[]; /* actor and token */
};

struct rpc_server {
	struct event_base *base;
	struct event *wake, *flush, *sweep;
	int wake_fd;
	struct rpc_server_options options;
	struct method *methods;
	struct listener *listeners; /* the last one first */
	struct peer *peers;
	int n_peers;
	struct peer *dirty;
	struct rpc_call *open;
	struct rpc_call *walk; /* the next to be looked at by who goes through `open`; kept right as calls end */
	int n_open;
	size_t held; /* bytes in memory for open calls */
	int64_t n_calls;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* `closed` has grown */
	/* Behind the lock. */
	struct frame *arrived, **arrived_end;
	struct newcomer *newcomers;
	int n_newcomers;
	struct peer *closed;
	bool woken;
};

/* Wakes the loop, once for any number of events. With the lock held. */
void server_wake(struct rpc_server *server);

/* Takes one frame that a peer has sent. On the loop's thread; the frame is freed by the caller. */
void server_dispatch(struct rpc_server *server, struct peer *peer, struct frame *frame);

/* Tells the call's owner, once, that nobody will hear the answer. Any call may be gone afterwards. */
void server_tell_closed(struct rpc_call *call);

/* Adds a listener. */
bool peers_listen(struct rpc_server *server, const char *url, struct reeve_error *error);

/* Takes over what nng's threads have left: newcomers, frames, connections that are over. */
void peers_take(struct rpc_server *server);

/* Queues a reply for a peer; it leaves with others at the end of the loop's round. Takes the frame. */
void peers_reply(struct peer *peer, struct frame *frame);

/* Flushes what was queued. */
void peers_flush(struct rpc_server *server);

/* Closes connections that are silent, stuck or unwanted, and lets listeners try again. Called every second. */
void peers_sweep(struct rpc_server *server);

/* A call of the peer's has ended. */
void peers_release(struct peer *peer);

/* Stops listening, gives replies that are on their way a moment, closes and frees all connections; what has arrived and
 * is not looked at is dropped. No call may be open. */
void peers_destroy(struct rpc_server *server);

#endif
