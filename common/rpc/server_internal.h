/*
 * The parts of the server. server.c is the door: calls, from the frame that brought one to the reply; server_peers.c has
 * the connections and whose turn it is, server_listen.c the newcomers, listening.c the sockets they come to,
 * server_limits.c what everybody may have. Everything is on the loop's thread.
 */
#ifndef REEVE_COMMON_RPC_SERVER_INTERNAL_H
#define REEVE_COMMON_RPC_SERVER_INTERNAL_H

#include "common/hash.h"
#include "common/rpc/arena.h"
#include "common/rpc/conn.h"
#include "common/rpc/listening.h"
#include "common/rpc/server.h"
#include "common/uuid.h"

#include <sys/socket.h>

struct method {
	char *name; /* "/reeve.v1.TaskService/Submit" */
	const ProtobufCMessageDescriptor *input, *output;
	rpc_method *serve;
	enum rpc_class class;
	const void *declared;
	void *service;
	UT_hash_handle hh;
};

/* What limits count. */
enum measure { CALLS, BYTES, MEASURES };
enum { LIMITS = 3 }; /* for all, for a connection, for an address */

/* What open calls take of a limit: the ordinary part of it, and of the reserves beyond. */
struct usage {
	int64_t all[MEASURES];
	int64_t reserve[RPC_CLASSES][MEASURES]; /* of them, in this limit's reserve for the class */
	int64_t shared[RPC_CLASSES][MEASURES];  /* of them, in the server's reserve for the class */
};

/* Where connections come from: an IPv4 address, the first half of an IPv6 address, or this machine's ipc. */
struct address {
	uint8_t bytes[16];
	bool local; /* ipc or loopback */
	int connections;
	int peers; /* of open connections, and of closed ones whose calls are open */
	struct usage usage;
	UT_hash_handle hh;
};

/* Somebody at the other end of a connection. */
struct peer {
	struct rpc_server *server;
	uint64_t number;          /* no other connection has it */
	struct conn *conn;        /* NULL once it is over */
	struct peer *prev, *next; /* in `peers` */
	struct peer *next_closed, *next_dirty;
	struct address *address;
	struct usage usage;
	struct rpc_call *calls;
	struct rpc_call *walk;  /* the next of them to be told that the connection is over; kept right as calls end */
	int open_calls;         /* and others who need it: it is kept until they have gone */
	bool dirty;             /* replies are queued, not flushed */
	bool over;
	bool called;            /* once at least */
	const char *refusal;    /* why it was turned away, or NULL: its calls are answered with that alone */
	int64_t since_ms;
	/* Frames that have arrived and are not looked at yet. */
	struct frame *frames, **frames_end;
	struct peer *next_ready;
	int waiting;
	size_t waiting_bytes;
	bool stalled; /* nothing is read from it for now */
	bool heavy;   /* it has too many unsent answers: its frames wait until some have left */
};

struct listener {
	struct rpc_server *server;
	struct listening listening;
	struct event *newcomers;
	struct listener *next;
};

struct rpc_call {
	struct rpc_server *server;
	struct peer *peer;
	struct rpc_call *prev, *next;           /* in `open` */
	struct rpc_call *prev_beside, *next_beside; /* in the peer's `calls` */
	const struct method *method;
	struct arena arena;
	int64_t counted[MEASURES];           /* towards the limits: the call itself, bytes … */
	int64_t reserved[LIMITS][MEASURES];  /* … and what of them is in the reserve of each */
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
	struct event *again; /* accepts again after a failure */
	struct rpc_server_options options;
	struct method *methods;
	struct listener *listeners; /* the last one first */
	struct peer *peers;
	int n_peers; /* without those that were turned away */
	int n_turned_away, turned_away_most;
	uint64_t last_number;
	struct address *addresses;
	int64_t full_said_ms; /* when the log was told last that somebody does not get in */
	int64_t majority_said_ms; /* likewise that an address with most connections loses one */
	int64_t refused_said_ms; /* likewise that calls are refused */
	int64_t room_made_ms; /* when an idle connection was looked for last */
	struct peer *dirty;
	struct rpc_call *open;
	struct usage usage;
	int64_t n_calls, n_refused;
	struct conn_budget budget;
	struct peer *ready, *ready_last; /* who has frames that may be looked at, in the order of their turns */
	struct peer *closed;
	bool woken;
};

/* Has what has happened to peers looked at soon, once for any number of events. */
void server_wake(struct rpc_server *server);

/* Takes one frame that a peer has sent. On the loop's thread; the frame is freed by the caller. */
void server_dispatch(struct rpc_server *server, struct peer *peer, struct frame *frame);

/* Tells the call's owner, once, that nobody will hear the answer. Any call may be gone afterwards. */
void server_tell_closed(struct rpc_call *call);

/* Cuts the number of connections to what there are descriptors for. */
void server_fit_files(struct rpc_server *server);

/* Lets listeners that have stopped accept again, and ends them all. */
void server_accept_more(struct rpc_server *server);
void server_listen_no_more(struct rpc_server *server);

/* The limits. `limits_enter` counts an open call, `limits_hold` memory for it and `limits_leave` both back. What would be
 * too much is not counted, and *error is RESOURCE_EXHAUSTED and names the limit. */
bool limits_enter(struct rpc_call *call, struct reeve_error *error);
bool limits_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error);
void limits_leave(struct rpc_call *call);

/* The largest share of `whole` that an address may have: at least 1. */
int limits_of_address(const struct rpc_server *server, int whole);

/* Finds or makes the address and counts a peer and connection of it; NULL: no memory. limits_forget is for when the peer
 * goes. */
struct address *limits_connect(struct rpc_server *server, const struct sockaddr *from);
void limits_forget(struct rpc_server *server, struct address *address);

/* Takes what connections have left: those that are over, and of the frames as many as one turn of the loop has time for, each
 * connection's in its turn. */
void peers_take(struct rpc_server *server);

/* Makes a peer of a connected socket. NULL: no memory; the socket is closed. */
struct peer *peers_add(struct rpc_server *server, int fd, const struct sockaddr *from);

/* Queues a reply for a peer; it leaves with others at the end of the loop's round. Takes the frame. */
void peers_reply(struct peer *peer, struct frame *frame);

/* Flushes what was queued. */
void peers_flush(struct rpc_server *server);

/* Closes connections that are silent, slow, stuck or turned away. Called every second. */
void peers_sweep(struct rpc_server *server);

/* Keeps a peer, and gives it up: it may be freed. */
void peers_keep(struct peer *peer);
void peers_release(struct peer *peer);

/* Stops listening, gives replies that are on their way a moment, closes and frees all connections; what has arrived and
 * is not looked at is dropped. No call may be open. */
void peers_destroy(struct rpc_server *server);

#endif
