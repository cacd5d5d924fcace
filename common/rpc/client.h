/*
 * The calling side of the RPC. A client knows one or several managers, equal to each other: a connection to each, a ping
 * that tells which are alive, and calls that move over by themselves, keeping their request id. It stays with one of them,
 * chosen by lot, and goes back to it some time after it has come back.
 *
 * Thread-safe throughout. Callbacks run on threads of the client; they must not block and must not destroy the client.
 */
#ifndef REEVE_COMMON_RPC_CLIENT_H
#define REEVE_COMMON_RPC_CLIENT_H

#include "common/error.h"
#include "common/uuid.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_client;

/* Names a started call; never 0, never used twice. */
typedef uint64_t rpc_call_id;

struct rpc_client_options {
	const char *urls;          /* "tcp://a:7171,tcp://b:7171" */
	const char *token;         /* sent with every call; may be NULL */
	const char *actor;         /* who calls; NULL: user@host */
	size_t max_message_bytes;  /* a longer call is refused here, or one beyond the manager's limit; 0: 64 MiB */
	int64_t ping_interval_ms;  /* while calls are open; else as the manager asks, if that is rarer; 0: 500 */
	int64_t ping_limit_ms;     /* silent for so long although it was pinged: not alive; 0: 1500 */
};

/* Where the managers are: as given, or else by $REEVE_MANAGER, or else on this host at the usual port. */
const char *rpc_client_managers(const char *given);

/* Copies the options and starts dialling. False URLs are INVALID_ARGUMENT; a manager that is away is no error. It starts
 * threads, nng's among them: a process that forks and goes on to make calls in the child must fork before the first
 * client (or server) is created in the parent. */
struct rpc_client *rpc_client_create(const struct rpc_client_options *options, struct reeve_error *error);

/* Ends open calls with CANCELLED, waits for their callbacks, frees everything. Calls that such a callback starts end with
 * CANCELLED too: whoever starts the next call in a callback stops on that code. */
void rpc_client_destroy(struct rpc_client *client);

struct rpc_answer {
	reeve_status code;           /* OK, or what went wrong */
	char message[512];
	ProtobufCMessage *response;  /* when OK; owned by the receiver: protobuf_c_message_free_unpacked(…, NULL) */
	int sends;                   /* how often the call was sent, at least 1 if it was at all */
};

/* Called once for each started call. */
typedef void rpc_done(void *arg, struct rpc_answer *answer);

/* How a call is to be made. */
struct rpc_call_options {
	int64_t timeout_ms;                /* in all, over every resend; 0: 30 s */
	const uint8_t *request_id;         /* 16 bytes, kept over resends; NULL: one is made */
	bool parks;                        /* it waits for long where nothing is to do: the manager is pinged no more for it */
	/* Called, if not NULL, before the call is sent again (another manager, or a new connection to the same), with the
	 * message, so that a Fetch can be marked `again`; the message is packed anew. */
	void (*before_resend)(ProtobufCMessage *request, void *arg);
};

/* Starts a call of a method ("Submit") of a service. The request is packed at once; with before_resend it must live
 * until `done` was called. `done` may run before this returns. A manager that dies or stops answering pings while it has
 * the call, or answers UNAVAILABLE, is left for another (or awaited, if there is no other) until the time is over;
 * then the code is DEADLINE_EXCEEDED if the call was ever sent, else UNAVAILABLE.
 * rpc_client_cancel makes `done` run soon with CANCELLED; for a call that is over it does nothing. */
rpc_call_id rpc_client_start(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const struct rpc_call_options *options, rpc_done *done, void *arg);
void rpc_client_cancel(struct rpc_client *client, rpc_call_id call);

/* The same, waiting for the answer. The response is owned by the caller; NULL with *error set if it did not come. */
ProtobufCMessage *rpc_client_call(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const struct rpc_call_options *options, struct reeve_error *error);

/* True if some manager is alive by its ping, waiting up to `wait_ms` for the first one. */
bool rpc_client_alive(struct rpc_client *client, int64_t wait_ms);

/* Why no manager is alive, for people: "connection refused", or with several managers each one's URL and reason. Cut to fit. */
void rpc_client_absence(struct rpc_client *client, char *out, size_t size);

/* What keeps a call that is under way from being answered, though a manager is alive: what that said, or that it has no
 * database. False: nothing is known to, or the call is over. */
bool rpc_client_obstacle(struct rpc_client *client, rpc_call_id call, char *out, size_t size);

/* How the client names its caller in the audit. Lives as long as the client. */
const char *rpc_client_actor(const struct rpc_client *client);

/* The managers' time in milliseconds since 1970, from the last ping plus the monotonic clock; before any ping, this
 * machine's. For request ids. */
int64_t rpc_client_now_ms(struct rpc_client *client);

/* What the last ping said of limits; 0 before any ping. */
uint32_t rpc_client_max_details(struct rpc_client *client);
uint32_t rpc_client_max_message(struct rpc_client *client);

#endif
