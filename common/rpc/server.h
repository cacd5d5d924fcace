/*
 * The serving side of the RPC: unary calls of protobuf services, in nng's request/reply protocol over sockets.
 *
 * Everything runs on the loop's thread: connections, handlers, replies, and all functions of this header. A call must
 * be answered exactly once, now or much later, by rpc_call_reply or rpc_call_fail. Any number of calls may be open.
 */
#ifndef REEVE_COMMON_RPC_SERVER_H
#define REEVE_COMMON_RPC_SERVER_H

#include "common/error.h"

#include <event2/event.h>
#include <protobuf-c/protobuf-c.h>
#include <stdint.h>
#include <sys/types.h>

struct rpc_server;
struct rpc_call;
struct tls;

struct rpc_server_options {
	size_t max_message_bytes; /* a longer frame closes its sender's connection; 0: 8 MiB */
	/* Over it, or while open calls hold 64 longest messages in memory, a call is answered RESOURCE_EXHAUSTED at once;
	 * rpc_class has the exceptions. 0: 20,000. */
	int max_open_calls;
	/* Over it, an idle connection is closed for a new one, or the new one is refused. It is lowered to what the limit
	 * of descriptors allows. 0: 10,000. */
	int max_connections;
	/* Maximum share of one connection in what others leave of the open calls and their memory; 0: 100. */
	int connection_percent;
	int address_percent; /* the same for one address, also in the connections; 0: 100 */
	int quiet_ms;        /* a peer that sends nothing for longer is disconnected; 0: 5 minutes */
	struct tls *tls;     /* for tls+tcp listeners; it must outlive the server; NULL: none */
	mode_t socket_mode;  /* permissions of the files of ipc sockets; 0: 0600 */
};

/* Serves one method. `request` belongs to the call and lives until the call is answered. */
typedef void rpc_method(void *service, struct rpc_call *call, const ProtobufCMessage *request);

/* Each class but RPC_WAITING has a reserve beyond the limits, for it alone. Each connection may have two small calls of each
 * class whatever others have. */
enum rpc_class {
	RPC_ORDINARY, /* an eighth more than calls that wait */
	RPC_WAITING,  /* may stay open for long, because it waits for what others do */
	RPC_OPERATOR, /* for operators: a sixteenth more */
	RPC_LEASE,    /* answered soon, and leases depend on it: an eighth more */
	RPC_CLASSES,  /* not a class: the number of classes */
};

/* The bit of methods that also serve callers without an identity. All lower bits are roles, which the host defines. */
#define RPC_ANYONE (UINT32_C(1) << 31)

/* A method of a service, its class, and who may call it. */
struct rpc_entry {
	const char *name; /* "Submit"; NULL ends a table */
	rpc_method *serve;
	enum rpc_class class;
	uint32_t roles;       /* the identities with one of these roles may call it; 0: none */
	const void *declared; /* for `serve`, by rpc_call_declared, if several methods share it */
};

/* A caller's identity. The host puts it at the beginning of a struct of its own. */
struct rpc_identity {
	const char *name; /* "": the caller's own name counts */
	uint32_t roles;
	bool over;      /* it has ended or has changed: its callers must be identified again. The host sets it */
	bool used;      /* it has made a call; the host can reset it */
	bool held;      /* the guard decides about each of its calls again; its callers need no certificate */
	int references; /* of connections, calls and the host */
	void (*free)(struct rpc_identity *identity); /* called without references */
};

/* What is known of a caller that is not identified yet. */
struct rpc_caller {
	const char *token;   /* not terminated */
	size_t token_length; /* 0: the call has none */
	bool local;          /* it is on this machine: on an ipc socket or a loopback address */
	bool by_ipc;         /* on an ipc socket, by a process of this user: */
	uid_t uid;
	const char *certificate; /* the URI of its verified certificate ("reeve://w1"); NULL: it has none */
	bool uncertified;        /* it has shown no certificate, and the server requires one: its identity must be `held` */
};

/* Identifies callers. One place asks it: before a call's message is unpacked. */
struct rpc_guard {
	/* Returns the identity of a caller, with a reference, or NULL with *error (UNAUTHENTICATED, or UNAVAILABLE if it cannot know
	 * for now). */
	struct rpc_identity *(*identify)(void *arg, const struct rpc_caller *caller, struct reeve_error *error);
	/* Sets *error to PERMISSION_DENIED: the identity has none of the roles for the method ("/reeve.v1.TaskService/Submit"). */
	void (*denied)(
	    void *arg, const struct rpc_identity *identity, const char *method, uint32_t roles, struct reeve_error *error);
	/* Serves (rpc_call_serve) or fails a call of an identity that is `held`, now or later. */
	void (*hold)(void *arg, struct rpc_call *call, const ProtobufCMessage *request);
	void *arg;
};

/* An idempotency key that a call has instead of a request id, and its request in protobuf's bytes. */
struct rpc_key {
	const void *text, *request;
	size_t length, request_length;
};

/* Finds the request id that a key stands for, and ends with rpc_call_go_on or a function that answers the call. The call's
 * own request id is for a new key. */
typedef void rpc_find_key(void *arg, struct rpc_call *call, const struct rpc_key *key);

/* Creates a server whose handlers run on `base`. Raises the process's limit of open files as far as permitted. */
struct rpc_server *rpc_server_create(struct event_base *base, const struct rpc_server_options *options);

/* Stops listening, abandons open calls (callbacks of rpc_call_on_closed run), gives outgoing answers one second to
 * leave, and frees everything. Do not call it from a handler. */
void rpc_server_destroy(struct rpc_server *server);

/* Sets the guard. Without one the server only serves the methods of RPC_ANYONE. Call it before rpc_server_listen. */
void rpc_server_guard(struct rpc_server *server, const struct rpc_guard *guard);

/* Closes the connections with an identity that is over: their open calls end. */
void rpc_server_expel(struct rpc_server *server);

/* Serves the methods of a service that are in the table; the others are answered UNIMPLEMENTED. `service` is passed to
 * each. */
void rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *descriptor,
    const struct rpc_entry *methods, void *service);

/* Lets callers without an identity call a method that was added. */
void rpc_server_open_method(struct rpc_server *server, const char *name);

/* Sets what finds request ids. Without it keys are ignored, and so are those of callers without an identity. */
void rpc_server_keys(struct rpc_server *server, rpc_find_key *find, void *arg);

/* Serves a call with the request id that its key stands for. */
void rpc_call_go_on(struct rpc_call *call, const uint8_t *request_id);

/* Listens on an nng URL (tcp://host:port, tls+tcp://host:port, ipc://path; port 0 takes a free one). A host name means
 * its first address; it is looked up at once, which may take as long as its name servers do. Returns false with *error
 * set if it cannot ("tcp://…:7171: address in use").
 *
 * The server closes connections that send no hello within 5 s, take too long for one message, take no answer for 10 s,
 * or send nothing for quiet_ms. */
bool rpc_server_listen(struct rpc_server *server, const char *url, struct reeve_error *error);

/* Returns the URL of the last listener with its real port. It lives as long as the server. */
const char *rpc_server_url(const struct rpc_server *server);

/* Returns the URL of a listener whose address is not loopback, so that other machines may reach it; NULL if there is none.
 * `plain`: only of those without TLS. */
const char *rpc_server_exposed(const struct rpc_server *server, bool plain);

/* Answer a call and free it. The response is packed before the function returns. A response over max_message_bytes is
 * replaced by INTERNAL. A call whose connection has closed must still be answered; its answer is dropped. */
void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *response);
void rpc_call_fail(struct rpc_call *call, reeve_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rpc_call_fail_error(struct rpc_call *call, const struct reeve_error *error);

/* Sends the queued answers at once. Without it they leave at the end of the loop's current iteration. */
void rpc_server_flush(struct rpc_server *server);

/* Returns the call's request id of 16 bytes, or NULL. */
const uint8_t *rpc_call_request_id(const struct rpc_call *call);

/* Returns the caller's name: its identity's, with what it says of itself in the envelope behind that: "shop/ann@host". Never
 * NULL. */
const char *rpc_call_actor(const struct rpc_call *call);

/* Returns a name that the caller gives something, as its identity may give it: "shop/nightly" for "nightly"; or NULL: as it is.
 * The caller must free it. A name that begins with the identity's own one ("ann@host" of ann) stays as it is. */
char *rpc_identity_says(const struct rpc_identity *identity, const char *name);

/* Returns whether a name or source is the identity's: it is its name, or that with "/" or "@" and more behind it. */
bool rpc_identity_owns(const struct rpc_identity *identity, const char *name);

/* Returns the caller's identity; NULL only in a method of RPC_ANYONE. */
const struct rpc_identity *rpc_call_identity(const struct rpc_call *call);

/* Returns whether the answer can no longer reach the caller: its connection has closed, or its deadline has passed. A method that
 * begins later must check that, since a callback of rpc_call_on_closed does not run for what has happened before. */
bool rpc_call_gone(const struct rpc_call *call);

/* Serves a call that the guard has held, unless it is gone. */
void rpc_call_serve(struct rpc_call *call, const ProtobufCMessage *request);

/* Returns the roles of the call's method. */
uint32_t rpc_call_roles(const struct rpc_call *call);

/* Returns the caller's trace context, a W3C traceparent, or NULL. Only transports with headers have one. */
const char *rpc_call_traceparent(const struct rpc_call *call);

/* Returns the call's method: "/reeve.v1.TaskService/Submit". */
const char *rpc_call_method(const struct rpc_call *call);

/* Returns what the method's entry declares. */
const void *rpc_call_declared(const struct rpc_call *call);

/* Returns how many milliseconds the caller will still wait, counted from the message's arrival, or 0; INT64_MAX: no
 * limit. */
int64_t rpc_call_remaining_ms(const struct rpc_call *call);

/* Returns the number of the call's connection: unique, never 0. */
uint64_t rpc_call_origin(const struct rpc_call *call);

/* Counts memory that a service keeps for an open call, in addition to the request, towards the limits until the call is
 * answered. Returns false, with RESOURCE_EXHAUSTED in *error, if it exceeds a limit. */
bool rpc_call_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error);

/* Sets a callback that runs once, when the answer can no longer reach the caller. If the caller's connection has
 * closed or the server has answered at the deadline, the call must still be answered, within the callback or later; the answer is dropped. If the server is
 * destroyed while the call is open, the call may be answered within the callback, and is freed when that returns. */
void rpc_call_on_closed(struct rpc_call *call, void (*closed)(void *arg), void *arg);

/* Bytes in memory now: incoming messages that are not processed yet; requests of open calls and what services hold for
 * them; answers that are not sent yet. */
struct rpc_server_memory {
	size_t incoming, held, unsent;
};

struct rpc_server_memory rpc_server_memory(const struct rpc_server *server);

/* Returns how often an idle connection should ping, so that all connections together send a thousand pings a second; no
 * longer than 15 s. */
int64_t rpc_server_idle_ping_ms(const struct rpc_server *server);

/* Return the open connections and calls, the calls since the start, and how many of those were answered
 * RESOURCE_EXHAUSTED, by the server's limits or by a service. The log has a warning about these, but not one for
 * each. */
int rpc_server_connections(const struct rpc_server *server);
int rpc_server_open_calls(const struct rpc_server *server);
int64_t rpc_server_calls(const struct rpc_server *server);
int64_t rpc_server_refused(const struct rpc_server *server);

#endif
