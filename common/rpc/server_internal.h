/*
 * The parts of the server: server.c has calls, from the frame of a request to the reply; server_peers.c the connections
 * and the order in which they are served; server_memory.c the choice of connections to close when memory is short;
 * server_listen.c new connections; listening.c the listening sockets; server_limits.c the limits; server_guard.c
 * identities and roles of callers; server_guesses.c wrong tokens; server_nng.c nng's protocol; server_expire.c
 * deadlines and the end; server_keys.c idempotency keys; server_share.c answers that equal reads share; server_nest.c
 * calls within a call; server_tls.c TLS. Everything runs on the loop's thread.
 */
#ifndef REEVE_COMMON_RPC_SERVER_INTERNAL_H
#define REEVE_COMMON_RPC_SERVER_INTERNAL_H

#include "common/deadlines.h"
#include "common/hash.h"
#include "common/rpc/arena.h"
#include "common/rpc/conn.h"
#include "common/rpc/conn_tls.h"
#include "common/rpc/envelope.h"
#include "common/rpc/listening.h"
#include "common/rpc/server.h"
#include "common/rpc/transport.h"
#include "common/uuid.h"

#include <sys/socket.h>

struct method {
	char *name; /* "/reeve.v1.TaskService/Submit" */
	const ProtobufCMessageDescriptor *input, *output;
	rpc_method *serve;
	enum rpc_class class;
	uint32_t roles;
	const void *declared;
	void *service;
	UT_hash_handle hh;
};

/* What the limits count. */
enum measure { CALLS, BYTES, MEASURES };
enum { LIMITS_MAX = 3 }; /* for all calls, for one connection, for one address */

/* What open calls use of each pool: of the general one, which is for all calls, and of the reserve of each class. */
enum { GENERAL = RPC_CLASSES, POOLS };
struct usage {
	int64_t of[POOLS][MEASURES];
};

/* The origin of connections: an IPv4 address, the first half of an IPv6 address, or this machine's ipc. */
struct address {
	uint8_t bytes[16];
	bool local; /* ipc or loopback */
	int connections;
	int peers; /* with an open connection, or a closed one with open calls */
	struct usage usage;
	struct tls_queue handshakes;
	UT_hash_handle hh;
};

/* The other end of a connection. */
struct peer {
	struct rpc_server *server;
	uint64_t number;       /* unique among connections */
	struct rpc_conn *conn; /* NULL after its end */
	const struct rpc_transport *transport;
	void *transport_arg;      /* what the transport's functions get */
	struct peer *prev, *next; /* in `peers` */
	struct peer *next_closed, *next_dirty;
	struct address *address;
	bool local;  /* on this machine */
	bool by_ipc; /* a process of this user: */
	uid_t uid;
	struct rpc_identity *identity; /* since its first call, for this token: */
	uint8_t *token;
	size_t token_length;
	struct held_guess *guesses; /* calls with wrong tokens that wait for their answer; the first one until this time: */
	int64_t guess_ms;
	bool guessed; /* its last token was wrong, and the answer must wait */
	struct usage usage;
	struct rpc_call *calls;
	struct rpc_call *walk; /* the next call whose callback on_closed runs; updated as calls end */
	int open_calls;        /* and other references; the peer is freed when there are none */
	bool dirty;            /* has replies that are queued, not flushed */
	bool closed;           /* its connection */
	bool called;           /* has made a call, with an identity */
	const char *refusal;   /* why it was turned away, the answer to all its calls; or NULL */
	int64_t since_ms;
	/* Frames that have arrived and are not processed yet. */
	struct frame *frames, **frames_end;
	struct deadline ready; /* its place in the server's `ready` while it has some */
	int64_t turn;          /* of the frame for which it was put there last */
	int waiting;
	size_t waiting_bytes;
	bool stalled;     /* reading from it is suspended */
	bool heavy;       /* has too many unsent answers: its frames wait until some have left */
	bool paused;      /* it has sent wrong tokens: its frames wait for the answer to the first one; or: */
	bool identifying; /* its identity may appear (may_appear): its frames wait; or, if it has another identity: */
	struct frame *checked_frame; /* only the call with the unknown token waits; or NULL */
};

/* Returns whether frames of a peer must wait although it takes its answers. */
static inline bool peer_suspended(const struct peer *peer)
{
	return peer->paused || peer->identifying;
}

struct listener {
	struct rpc_server *server;
	struct listening listening;
	bool secure; /* uses TLS */
	const struct rpc_transport *transport;
	void *transport_arg; /* what the transport's functions get */
	struct event *newcomers;
	struct listener *next;
};

struct rpc_call {
	struct rpc_server *server;
	struct peer *peer;
	struct rpc_call *prev, *next;                 /* in `open` */
	struct rpc_call *prev_of_peer, *next_of_peer; /* in the peer's `calls` */
	const struct method *method;
	const ProtobufCMessage *request;
	struct arena arena;
	struct usage usage; /* the call itself, and bytes */
	uint32_t id, form;  /* see struct rpc_message */
	uint32_t deadline_ms;
	int64_t arrived_ms;
	struct deadline expiry; /* its place in the server's `expiries` */
	bool answered;          /* the server has answered it: the service's answer is dropped */
	bool withdrawn;         /* the caller does not want the answer; `expiry` is now */
	uint8_t request_id[UUID_BYTES];
	bool has_request_id;
	struct rpc_identity *identity;
	char *traceparent;   /* or NULL */
	struct rpc_key *key; /* of a call that waits for the guard; NULL: none */
	const char *actor;
	char *own_actor; /* the same, if the identity has a name, or NULL */
	void (*closed)(void *arg);
	void *closed_arg;
	struct rpc_nested
	    *nested;         /* gets the answer, instead of the caller; NULL: it has it, or the call is the caller's */
	struct share *share; /* of equal calls, or NULL; and its place among those that wait for the first one: */
	struct rpc_call *prev_sharing, *next_sharing;
	char texts[]; /* the actor */
};

struct rpc_server {
	struct event_base *base;
	struct event *wake, *flush, *sweep;
	struct event *again; /* accepts again after a failure */
	struct rpc_server_options options;
	struct rpc_guard guard;
	struct server_tls *tls; /* NULL: not used yet */
	struct method *methods;
	rpc_find_key *find_key; /* or NULL */
	void *find_key_arg;
	struct listener *listeners; /* the last one first */
	struct peer *peers;
	int n_peers; /* without those that were turned away */
	int n_turned_away, turned_away_max;
	uint64_t last_number;
	struct address *addresses;
	struct guesses *guesses;    /* by address */
	int64_t full_logged_ms;     /* last warning about refused connections */
	int64_t majority_logged_ms; /* last warning about a closed connection of an address with more than half of all */
	int64_t refused_logged_ms;  /* last warning about refused calls */
	int64_t contract_logged_ms; /* last warning about a program with another version of the contract */
	int64_t idle_search_ms;     /* last search for a connection to close */
	struct peer *dirty;
	struct rpc_call *open;
	struct usage usage;
	int64_t n_calls, n_refused, n_denied;
	struct rpc_conn_budget budget;
	struct event *expire;
	struct deadlines expiries; /* of calls */
	struct deadlines ready;    /* peers with frames to process, by the turn of their next one */
	int64_t turn;              /* the work that each of them would have got if all were served at once */
	struct peer *closed;
	struct share *shares;
	size_t kept_bytes; /* of those that have an answer */
	bool woken;
	bool identifying; /* a peer is */
};

/* nng's protocol. */
extern const struct rpc_transport server_nng;

/* Schedules peers_take, once for any number of events. */
void server_wake(struct rpc_server *server);

/* Processes one frame of a peer. The caller frees the frame. Returns false if the frame must be processed again,
 * because the peer's identity may appear. */
bool server_dispatch(struct rpc_server *server, struct peer *peer, struct frame *frame);

/* Answers a call before its service does. The call stays open until the service answers, too, perhaps before this
 * returns. */
void server_answer_early(struct rpc_call *call, reeve_status code, const char *text);

/* The caller does not want the answer any more. The server ends the call soon after this function returns, never before
 * that: it may be answering another call of a list that contains both. */
void server_withdraw(struct rpc_call *call);

/* Lets the method serve a call that is complete, once its request id is known. */
void server_begin_call(struct rpc_call *call, const struct rpc_message *message);

/* Creates the call of a message, with copies of everything that the accessors return. */
struct rpc_call *server_open_call(
    struct rpc_server *server, struct peer *peer, int64_t arrived_ms, const struct rpc_message *message);

/* Unpacks the request, within the limits. Returns false with *error set if it cannot. */
bool server_unpack(struct rpc_call *call, const struct envelope_request *envelope, struct reeve_error *error);

/* Give the answer of a nested call to the one that made it, once. Return false if the call is not nested, or has been
 * answered. */
bool nest_answer(struct rpc_call *call, const ProtobufCMessage *response, const struct reeve_error *error);
bool nest_fail(struct rpc_call *call, reeve_status code, const char *text);

/* Finds the request id of a call that had to wait for the guard with its key. */
void keys_find(struct rpc_call *call);

/* Frees a call without an answer. */
void server_drop_call(struct rpc_call *call);

/* expire_add makes a call end at its deadline. expire_remove does nothing if that was not called. */
void expire_open(struct rpc_server *server);
void expire_add(struct rpc_call *call);
void expire_remove(struct rpc_call *call);
void expire_close(struct rpc_server *server);

/* Ends all calls when the server stops, and lets the transports do the same. */
void expire_all(struct rpc_server *server);

/* Calls the transport's `maintain` for the connection. */
void server_maintain(struct peer *peer, bool stopping);

/* Returns true if the call, a read, waits for the answer to an equal one, or has got it. */
bool share_join(struct rpc_call *call, const struct rpc_message *message);

/* Returns whether equal calls wait for the answer to this one. Then it goes on when its own caller has gone. */
bool share_awaited(const struct rpc_call *call);

/* Give a call's answer to those that wait for it. */
void share_reply(struct rpc_call *first, const ProtobufCMessage *response);
void share_fail(struct rpc_call *first, reeve_status code, const char *text);

/* Removes a call that has been given up, or that its service will not answer. */
void share_leave(struct rpc_call *call);

/* Removes old answers. */
void share_sweep(struct rpc_server *server);

/* Drops all calls that wait for an equal one. */
void share_end_all(struct rpc_server *server);

/* Runs the call's on_closed callback, once, unless share_awaited. Any call may be freed when this returns. */
void server_notify_closed(struct rpc_call *call);

/* Notes the origin of a peer: whether it is on this machine, and on an ipc socket the user of its process. */
void guard_note_origin(struct peer *peer, int fd, const struct sockaddr *from);

/* Identifies a call's caller by the token, and checks whether it may call the method. Returns false with *error set if
 * it is refused. */
bool guard_admit(struct rpc_call *call, const struct envelope_view *token, struct reeve_error *error);

/* The same for a call that another one makes. */
bool guard_admit_nested(struct rpc_call *call, const struct rpc_call *outer, struct reeve_error *error);

/* Serves a call, or passes it to the guard's check_call. */
void guard_serve(struct rpc_call *call, const ProtobufCMessage *request);

/* Returns whether the identity of a peer has ended and the peer waits for no answer. Then its connection must be
 * closed. */
bool guard_identity_ended(const struct peer *peer);

/* Removes a reference; NULL is allowed. */
void rpc_identity_release(struct rpc_identity *identity);

/* Remove the reference of a connection or a call to its identity. */
void guard_forget_peer(struct peer *peer);
void guard_forget_call(struct rpc_call *call);

/* Counts a refused call of a peer without an identity. `token`: the call has a wrong token; `guessed` of the peer is
 * set if its address has sent many of these. */
void guesses_note(struct peer *peer, bool token);

/* Returns whether the peer's address has sent many such calls. */
bool guesses_suspect(const struct peer *peer);

/* guesses_hold delays the answer to a call with a wrong token. In that time the connection's calls with valid tokens
 * are served; a second wrong token suspends the connection. guesses_answer answers the call that waits, if there is
 * one. guesses_forget removes a call that has been answered. */
void guesses_hold(struct rpc_call *call, const struct reeve_error *error);
void guesses_answer(struct peer *peer, int64_t now_ms);
void guesses_forget(struct rpc_call *call);

void guesses_forget_all(struct rpc_server *server);

/* Lowers max_connections to what the limit of descriptors allows. */
void server_fit_files(struct rpc_server *server);

/* server_accept_more makes stopped listeners accept again; server_listen_no_more closes all listeners. */
void server_accept_more(struct rpc_server *server);
void server_listen_no_more(struct rpc_server *server);

/* The limits. `limits_enter` counts an open call, `limits_hold` memory for it, and `limits_leave` subtracts both. What
 * would exceed a limit is not counted; then they return false, and *error is RESOURCE_EXHAUSTED and names the limit. */
bool limits_enter(struct rpc_call *call, struct reeve_error *error);
bool limits_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error);
void limits_leave(struct rpc_call *call);

/* Returns how much all open calls use. */
int64_t limits_used(const struct rpc_server *server, enum measure measure);

/* Returns the maximum share of `total` for one address: at least 1. */
int limits_of_address(const struct rpc_server *server, int total);

/* Returns whether an address is on this machine: a loopback address, or an ipc socket's. */
bool limits_is_local(const struct sockaddr *address);

/* limits_connect finds or creates an address and counts a peer and a connection of it.
 * limits_forget subtracts the peer when it is freed. */
struct address *limits_connect(struct rpc_server *server, const struct sockaddr *from);
void limits_forget(struct rpc_server *server, struct address *address);

/* Processes frames of the connections in turn, as many as fit in one iteration of the loop, and removes the connections
 * that have ended. */
void peers_take(struct rpc_server *server);

/* Creates a peer for a socket that a listener has accepted. */
struct peer *peers_add(const struct listener *listener, int fd, const struct sockaddr *from);

/* Returns whether a listener uses TLS, and prepares that. Returns false with *error set if the server has no
 * certificate. */
bool server_tls_listen(struct rpc_server *server, const char *url, bool *secure, struct reeve_error *error);

/* Makes a new connection use TLS. */
void server_tls_secure(struct peer *peer);

/* Returns the number of unfinished handshakes. */
int server_tls_unfinished(const struct rpc_server *server);

/* Logs why a connection that has ended was refused, if it was. */
void server_tls_note(struct peer *peer);

/* Logs that a peer is refused because it has shown no certificate. */
void server_tls_note_uncertified(struct peer *peer);

/* Ends the threads of handshakes, before connections are closed for the end of the server. */
void server_tls_stop(struct rpc_server *server);

/* Call it after the end of all connections. */
void server_tls_free(struct rpc_server *server);

/* Queues a reply for a peer; replies leave together at the end of the loop's iteration. Takes ownership of the
 * frame. */
void peers_reply(struct peer *peer, struct frame *frame);

/* Closes the connections with the most unread answers until the other answers fit into the limit of memory. */
void peers_close_unread(struct rpc_server *server);

/* Handles a lack of memory for incoming messages: closes the connections whose unfinished messages have taken the most,
 * until a part is free again. Messages that have just begun stay. Messages of callers that were suspended before they
 * had an identity count as unfinished. */
void peers_close_largest(struct rpc_server *server);

/* Sends the queued replies. */
void peers_flush(struct rpc_server *server);

/* Closes connections that are silent, slow, stuck or turned away. Called every second. */
void peers_sweep(struct rpc_server *server);

/* Add and remove a reference to a peer; peers_release may free it. */
void peers_keep(struct peer *peer);
void peers_release(struct peer *peer);

/* Stops listening, gives outgoing replies a moment to leave, closes and frees all connections, and drops frames that
 * were not processed. No call may be open. */
void peers_destroy(struct rpc_server *server);

#endif
