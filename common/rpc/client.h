/*
 * The calling side of the RPC. A client has one or several equivalent managers, with a connection to each. Pings detect
 * which are alive. Calls move to another manager automatically and keep their request id. The client prefers one
 * manager, chosen at random, and returns to it some time after that is back.
 *
 * All functions are thread-safe. Callbacks run on threads of the client; they must not block and must not destroy the
 * client.
 */
#ifndef REEVE_COMMON_RPC_CLIENT_H
#define REEVE_COMMON_RPC_CLIENT_H

#include "common/error.h"
#include "common/rpc/tls.h"
#include "common/token_file.h"
#include "common/uuid.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_client;

/* Identifies a started call; never 0, never reused. */
typedef uint64_t rpc_call_id;

struct rpc_client_options {
	const char *urls;  /* "tcp://a:7171,tls+tcp://b:7171" */
	const char *token; /* sent with every call; may be NULL */
	/* If not NULL, in place of `token`. A file is read again when it changes, and when the token is refused: such a
	 * call is sent again with the new token. */
	const struct token_source *token_source;
	const char *actor;        /* the caller's name; NULL: user@host */
	size_t max_message_bytes; /* a longer call, or one over the manager's limit, is refused locally; 0: 64 MiB */
	int64_t ping_interval_ms; /* while calls are open; otherwise the manager's interval if longer; 0: 500 */
	int64_t ping_limit_ms;    /* a pinged manager that is silent for this long is not alive; 0: 1500 */
	struct tls_files tls;     /* for tls+tcp; of each path not set, $REEVE_TLS_CERT, _KEY, _CA or _CRL */
};

/* Returns the URLs of the managers: `option`, else $REEVE_MANAGER, else this host at the default port. */
const char *rpc_client_managers(const char *option);

/* Copies the options and starts dialing. Invalid URLs are INVALID_ARGUMENT; an unreachable manager is not an error. The
 * client starts threads, also nng's: a process that forks and makes calls in the child must fork before the parent
 * creates its first client (or server). */
struct rpc_client *rpc_client_create(const struct rpc_client_options *options, struct reeve_error *error);

/* Ends open calls with CANCELLED, waits for their callbacks, and frees everything. Calls that such a callback starts
 * also end with CANCELLED: a callback that starts the next call must stop on that code. */
void rpc_client_destroy(struct rpc_client *client);

struct rpc_answer {
	reeve_status code; /* OK, or the error */
	char message[512];
	ProtobufCMessage *response; /* if OK; owned by the receiver: protobuf_c_message_free_unpacked(…, NULL) */
	int sends;                  /* how often the call was sent; 0: never */
};

/* Called once for each started call. */
typedef void rpc_done(void *arg, struct rpc_answer *answer);

/* Options of one call. */
struct rpc_call_options {
	int64_t timeout_ms;        /* in total, including resends; 0: 30 s */
	const uint8_t *request_id; /* 16 bytes, kept on resends; NULL: generated */
	bool parks;                /* the call may wait long on the manager, which then needs no frequent pings */
	/* If not NULL: called before the call is sent again (to another manager, or on a new connection to the same one)
	 * with the message, so that it can mark a Fetch as `again`. The message is then packed again. */
	void (*before_resend)(ProtobufCMessage *request, void *arg);
};

/* Starts a call of a method ("Submit") of a service. The request is packed at once; with before_resend it must live
 * until `done` was called. `done` may run before this returns. If the manager dies or stops answering pings during the
 * call, or answers UNAVAILABLE, the call moves to another manager (without another one it waits for this one) until the
 * timeout. Then the code is DEADLINE_EXCEEDED if the call was ever sent, otherwise UNAVAILABLE. A manager with another
 * version of the contract gets no calls; if all have, the code is UNIMPLEMENTED at once.
 *
 * rpc_client_cancel makes `done` run soon with CANCELLED. It has no effect on a call that has ended. */
rpc_call_id rpc_client_start(struct rpc_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    ProtobufCMessage *request, const struct rpc_call_options *options, rpc_done *done, void *arg);
void rpc_client_cancel(struct rpc_client *client, rpc_call_id call);

/* Makes a call and waits for its answer. The caller owns the response. Returns NULL with *error set if the call
 * failed. */
ProtobufCMessage *rpc_client_call(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const struct rpc_call_options *options, struct reeve_error *error);

/* Returns true if a manager is alive by its ping, or if all refuse this program's version of the contract, so that a
 * call ends at once. Waits up to `wait_ms` for that. */
bool rpc_client_alive(struct rpc_client *client, int64_t wait_ms);

/* Writes why no manager is alive, for people: "connection refused", or with several managers the URL and reason of
 * each. Truncated to fit. */
void rpc_client_absence(struct rpc_client *client, char *out, size_t size);

/* Writes why a call in flight has no answer although a manager is alive: the manager's last message, or that it has no
 * database or no room for another call. Returns false if no reason is known, or the call has ended. */
bool rpc_client_obstacle(struct rpc_client *client, rpc_call_id call, char *out, size_t size);

/* Reads the file of the access token again, at once. On an error the former token stays in use. */
void rpc_client_reload(struct rpc_client *client);

/* Returns the path of the file with the access token, or NULL: the token cannot change. It lives as long as the client.
 */
const char *rpc_client_token_file(const struct rpc_client *client);

/* Returns the name that the client gives its caller in the audit. It lives as long as the client. */
const char *rpc_client_actor(const struct rpc_client *client);

/* Returns the managers' time in milliseconds since 1970: the last ping's time plus the monotonic clock; before any
 * ping, this machine's time. For request ids. */
int64_t rpc_client_now_ms(struct rpc_client *client);

/* Return the limits from the last ping; 0 before any ping. */
uint32_t rpc_client_max_details(struct rpc_client *client);
uint32_t rpc_client_max_message(struct rpc_client *client);

#endif
