/*
 * The serving side of the RPC: unary calls of protobuf services, in nng's request/reply protocol over sockets.
 *
 * Everything here runs on the loop's thread: connections, handlers, replies, and all functions of this header. A call is
 * answered exactly once, now or much later, by rpc_call_reply or rpc_call_fail; any number may be open at once.
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

struct rpc_server_options {
	size_t max_message_bytes; /* a longer frame closes its sender's connection, nobody else's; 0: 8 MiB */
	int max_open_calls;       /* over it, or while open calls hold 64 longest messages in memory, a call is answered
	                             RESOURCE_EXHAUSTED at once; rpc_class says who has more; 0: 20,000 */
	int max_connections;      /* over it idle ones are closed, or new ones are told so; 0: 10,000; no more than there are
	                             descriptors for */
	int connection_percent;   /* of open calls and their memory, what one connection may have; 0: 100 */
	int address_percent;      /* of these and of the connections, what one address may have; 0: 100 */
	mode_t socket_mode;       /* permissions of the files of ipc sockets; 0: 0600 */
};

/* Serves one method. `request` lives until the call is answered and belongs to the call. */
typedef void rpc_method(void *service, struct rpc_call *call, const ProtobufCMessage *request);

enum rpc_class {
	RPC_ORDINARY,
	RPC_OPERATOR, /* what operators look at and control: a sixteenth more than ordinary calls */
	RPC_LEASE,    /* what leases depend on, answered soon: an eighth more than ordinary calls, of their own */
	RPC_CLASSES,  /* no class: how many there are */
};

/* A method of a service and what it may do. */
struct rpc_entry {
	const char *name; /* "Submit"; NULL ends a table */
	rpc_method *serve;
	enum rpc_class class;
	const void *declared; /* what `serve` reads by rpc_call_declared, if several methods share it */
};

/* Creates a server whose handlers run on `base`. Raises the process's limit of open files as far as it may. */
struct rpc_server *rpc_server_create(struct event_base *base, const struct rpc_server_options *options,
    struct reeve_error *error);

/* Stops listening, abandons open calls (what rpc_call_on_closed has set runs), gives answers that are still on their way a
 * second, and frees everything. Not from a handler. */
void rpc_server_destroy(struct rpc_server *server);

/* Serves the methods of a service that the table names; the others are answered UNIMPLEMENTED. `service` is passed to
 * each. */
void rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *descriptor,
    const struct rpc_entry *methods, void *service);

/* Listens on an nng URL (tcp://host:port, ipc://path; port 0 takes a free one). A host's name stands for the first of its
 * addresses and is looked up at once, which may take as long as its name servers do. False: *error says why
 * ("tcp://…:7171: address in use"). Connections that do not greet within 5 s, take too long for one message, take no
 * answer for 10 s or say nothing for 5 minutes are closed. */
bool rpc_server_listen(struct rpc_server *server, const char *url, struct reeve_error *error);

/* The URL of the last listener with its real port; lives as long as the server. */
const char *rpc_server_url(const struct rpc_server *server);

/* Answers. The response is packed before the function returns. The call is gone afterwards. A response beyond
 * max_message_bytes is replaced by INTERNAL. A call whose caller has gone stays open; its answer goes nowhere. */
void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *response);
void rpc_call_fail(struct rpc_call *call, reeve_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rpc_call_fail_error(struct rpc_call *call, const struct reeve_error *error);

/* Sends at once what has been answered, which else leaves with what the other events of this turn of the loop answer. */
void rpc_server_flush(struct rpc_server *server);

/* The call's envelope. Never NULL; the request id has 16 bytes or none (NULL). */
const uint8_t *rpc_call_request_id(const struct rpc_call *call);
const char *rpc_call_actor(const struct rpc_call *call);
const char *rpc_call_token(const struct rpc_call *call);

/* What the method's entry declares. */
const void *rpc_call_declared(const struct rpc_call *call);

/* Milliseconds until the caller stops waiting, counted from the message's arrival; INT64_MAX: no limit. */
int64_t rpc_call_remaining_ms(const struct rpc_call *call);

/* The connection that brought the call, as a number that no other connection has; never 0. */
uint64_t rpc_call_origin(const struct rpc_call *call);

/* Counts memory that a service keeps for an open call, in addition to the request, towards the limits, until the call is
 * answered. False: it is too much, and *error is RESOURCE_EXHAUSTED. */
bool rpc_call_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error);

/* Sets what is called, once, when nobody will hear the answer any more. If the caller's connection has gone, the call must
 * still be answered, within the callback or later; the answer goes nowhere. If the server is destroyed with the call open,
 * the call may be answered within the callback, and is gone when that returns. */
void rpc_call_on_closed(struct rpc_call *call, void (*closed)(void *arg), void *arg);

/* Bytes in memory now: messages that come in and are not looked at, requests of open calls with what services hold for
 * them, and answers that wait for their readers. */
struct rpc_server_memory {
	size_t incoming, held, unsent;
};

struct rpc_server_memory rpc_server_memory(const struct rpc_server *server);

/* How often an idle connection should ping, so that all together send a thousand pings a second; at most every 15 s. */
int64_t rpc_server_idle_ping_ms(const struct rpc_server *server);

/* Connections and calls open now; calls since the start, and those of them that were answered RESOURCE_EXHAUSTED, by the server's
 * own limits or by a service. The log tells of these, but not of each. */
int rpc_server_connections(const struct rpc_server *server);
int rpc_server_open_calls(const struct rpc_server *server);
int64_t rpc_server_calls(const struct rpc_server *server);
int64_t rpc_server_refused(const struct rpc_server *server);

#endif
