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
	/* See rpc_call_backlogged; or NULL. */
	void (*eased)(void *arg);
	void *eased_arg;
};

/* Serves one method. `request` belongs to the call and lives until the call is answered. */
typedef void rpc_method(void *service, struct rpc_call *call, const ProtobufCMessage *request);

/* Each class but RPC_WAITING has a reserve beyond the limits, for it alone. Each connection may have two small calls of
 * each class whatever others have. */
enum rpc_class {
	RPC_ORDINARY, /* an eighth more than calls that wait */
	RPC_WAITING,  /* may stay open for long, because it waits for what others do */
	RPC_OPERATOR, /* for operators: a sixteenth more */
	RPC_LEASE,    /* answered soon, and leases depend on it: an eighth more */
	RPC_CLASSES,  /* not a class: the number of classes */
};

/* The bit of methods that also serve callers without an identity. All lower bits are roles, which the host defines. */
#define RPC_ANYONE (UINT32_C(1) << 31)

/* The maximum length of what a caller without an identity has decompressed, and of its waiting messages. */
enum { RPC_STRANGER_BYTES = 64 << 10 };

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
	bool ended;       /* it has ended or has changed: its callers must be identified again. The host sets it */
	bool used;        /* it has made a call; the host can reset it */
	bool check_calls; /* the guard checks each of its calls (check_call); its callers need no certificate */
	int references;   /* of connections, calls and the host */
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
	bool uncertified; /* it has shown no certificate, and the server requires one: its identity must have check_calls */
	int64_t arrived_ms; /* when its call arrived, on the monotonic clock */
	bool suspect;       /* its address has sent many calls of callers without an identity */
};

/* Identifies callers, before the messages of their calls are unpacked. */
struct rpc_guard {
	/* Returns the identity of a caller, with a reference, or NULL with *error (UNAUTHENTICATED, or UNAVAILABLE if it
	 * cannot know for now). */
	struct rpc_identity *(*identify)(void *arg, const struct rpc_caller *caller, struct reeve_error *error);
	/* Returns whether the identity of an unknown caller may have been created just before the call arrived. Then the
	 * call waits until rpc_server_identify_again, for a second at most, and is identified again. Returns false after
	 * that time, with UNAVAILABLE in *error. */
	bool (*may_appear)(void *arg, const struct rpc_caller *caller, struct reeve_error *error);
	/* Sets *error to PERMISSION_DENIED: the identity has none of the roles for the method
	 * ("/reeve.v1.TaskService/Submit"). */
	void (*denied)(
	    void *arg, struct rpc_identity *identity, const char *method, uint32_t roles, struct reeve_error *error);
	/* Serves (rpc_call_serve) or fails a call of an identity with check_calls, now or later. */
	void (*check_call)(void *arg, struct rpc_call *call, const ProtobufCMessage *request);
	void *arg;
};

/* An idempotency key that a call has instead of a request id, and its request in protobuf's bytes. */
struct rpc_key {
	const void *text, *request;
	size_t length, request_length;
};

/* Finds the request id of a key, and calls rpc_call_resume or answers the call. A new key gets the call's own request
 * id. */
typedef void rpc_find_key(void *arg, struct rpc_call *call, const struct rpc_key *key);

/* Creates a server whose handlers run on `base`. Raises the process's limit of open files as far as permitted. */
struct rpc_server *rpc_server_create(struct event_base *base, const struct rpc_server_options *options);

/* Stops listening, abandons open calls (callbacks of rpc_call_on_closed run), gives outgoing answers one second to
 * leave, and frees everything. Do not call it from a handler. */
void rpc_server_destroy(struct rpc_server *server);

/* Sets the guard. Without one the server only serves the methods of RPC_ANYONE. Call it before rpc_server_listen. */
void rpc_server_guard(struct rpc_server *server, const struct rpc_guard *guard);

/* Closes the connections whose identity has ended; their open calls end. An open call of RPC_OPERATOR may have ended
 * the identity: its connection is closed a second after the answer, or ten seconds after the call. */
void rpc_server_close_ended(struct rpc_server *server);

/* Identifies those callers again whose identity may have appeared. */
void rpc_server_identify_again(struct rpc_server *server);

/* Serves the methods of a service that are in the table; the others are answered UNIMPLEMENTED. `service` is passed to
 * each. */
void rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *descriptor,
    const struct rpc_entry *methods, void *service);

/* Lets callers without an identity call a method that was added. */
void rpc_server_open_method(struct rpc_server *server, const char *name);

/* Sets the function that finds request ids. Without it keys are ignored. Keys of callers without an identity always
 * are. */
void rpc_server_keys(struct rpc_server *server, rpc_find_key *find, void *arg);

/* Serves a call with the request id that its key stands for. */
void rpc_call_resume(struct rpc_call *call, const uint8_t *request_id);

/* Listens on an nng URL (tcp://host:port, tls+tcp://host:port, ipc://path; port 0 takes a free one). A host name means
 * its first address; it is looked up at once, which may take as long as its name servers do. Returns false with *error
 * set if it cannot ("tcp://…:7171: address in use").
 *
 * The server closes connections that send no hello within 5 s, take too long for one message, take no answer for 10 s,
 * or send nothing for quiet_ms. */
bool rpc_server_listen(struct rpc_server *server, const char *url, struct reeve_error *error);

/* Returns the URL of the last listener with its real port. It lives as long as the server. */
const char *rpc_server_url(const struct rpc_server *server);

/* Returns the URL of a listener whose address is not loopback, so that other machines may reach it; NULL if there is
 * none. `plain`: only of those without TLS. */
const char *rpc_server_exposed(const struct rpc_server *server, bool plain);

/* Answer a call and free it. The response is packed before the function returns. A response over max_message_bytes is
 * replaced by INTERNAL. A call whose connection has closed must still be answered; its answer is dropped. */
void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *response);
void rpc_call_fail(struct rpc_call *call, reeve_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rpc_call_fail_error(struct rpc_call *call, const struct reeve_error *error);

/* A call that another one makes. */
struct rpc_nested {
	/* Gets the answer, once: the response, or an error. */
	void (*done)(struct rpc_nested *nested, const ProtobufCMessage *response, const struct reeve_error *error);
	struct rpc_call *call; /* until then; the server sets it */
};

/* Makes a call for the caller of an open one that has an identity: with that identity, its deadline, and all limits.
 * `request`: protobuf's bytes. The method must not wait, nor need a request id. `max_age_ms`: how old the answer may
 * be. `done` may run before it returns. rpc_call_give_up makes it run soon. */
void rpc_call_nest(struct rpc_call *outer, struct rpc_nested *nested, const char *method, const void *request,
    size_t length, uint32_t max_age_ms);
void rpc_call_give_up(struct rpc_nested *nested);

/* Returns the type of a method's request; NULL: there is no such method, or it waits. */
const ProtobufCMessageDescriptor *rpc_server_input(const struct rpc_server *server, const char *method);

/* Sends the queued answers at once. Without it they leave at the end of the loop's current iteration. */
void rpc_server_flush(struct rpc_server *server);

/* Returns the call's request id of 16 bytes, or NULL. */
const uint8_t *rpc_call_request_id(const struct rpc_call *call);

/* Returns the caller's name: its identity's, followed by the actor of the envelope: "shop/ann@host". Never NULL. */
const char *rpc_call_actor(const struct rpc_call *call);

/* Returns a name of a task's source, a batch or the like with the identity's name before it: "shop/nightly" for
 * "nightly". The caller must free it. NULL: the name stays as it is, because it begins with the identity's own one
 * ("ann@host" of ann), or because the identity has none. */
char *rpc_identity_qualify(const struct rpc_identity *identity, const char *name);

/* Returns whether a name or source belongs to the identity: it is the identity's name, or begins with that and "/" or
 * "@". */
bool rpc_identity_owns(const struct rpc_identity *identity, const char *name);

/* Returns the caller's identity; NULL only in a method of RPC_ANYONE. */
const struct rpc_identity *rpc_call_identity(const struct rpc_call *call);

/* Returns whether the answer can no longer reach the caller: its connection has closed, or its deadline has passed. A
 * method that begins later must check that, since a callback of rpc_call_on_closed does not run for what has happened
 * before. */
bool rpc_call_gone(const struct rpc_call *call);

/* Serves a call that the guard has checked, unless it is gone. */
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

/* Returns true if more than `max` bytes of answers are not sent yet on the call's connection, because the other end
 * reads slowly or not at all. Then the server calls the option `eased` when no more than half of `max` are left. */
bool rpc_call_backlogged(const struct rpc_call *call, size_t max);

/* Counts memory that a service keeps for an open call, in addition to the request, towards the limits until the call is
 * answered. Returns false, with RESOURCE_EXHAUSTED in *error, if it exceeds a limit. */
bool rpc_call_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error);

/* Sets a callback that runs once, when the answer can no longer reach the caller; never while another call is answered.
 * If the caller's connection has closed or the server has answered at the deadline, the call must still be answered,
 * within the callback or later; the answer is dropped. If the server is destroyed while the call is open, the call may
 * be answered within the callback, and is freed when that returns. */
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
 * RESOURCE_EXHAUSTED, by the server's limits or by a service, or PERMISSION_DENIED by the guard. The log has a warning
 * about the former, but not one for each. */
int rpc_server_connections(const struct rpc_server *server);
int rpc_server_open_calls(const struct rpc_server *server);
int64_t rpc_server_calls(const struct rpc_server *server);
int64_t rpc_server_refused(const struct rpc_server *server);
int64_t rpc_server_denied(const struct rpc_server *server);

#endif
