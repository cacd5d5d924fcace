/*
 * A transport is a protocol in which calls arrive and their answers leave. The server does the same for every
 * transport: limits, order, deadlines, methods. This header has what it needs from one. nng's (server_nng.c) is the
 * server's own; folders above this one define others and pass them to rpc_server_listen_for.
 *
 * All functions run on the loop's thread.
 */
#ifndef REEVE_COMMON_RPC_TRANSPORT_H
#define REEVE_COMMON_RPC_TRANSPORT_H

#include "common/error.h"
#include "common/rpc/conn.h"
#include "common/rpc/envelope.h"

struct rpc_server;

/* A call as it arrived. The views are valid as long as its frame. */
struct rpc_message {
	struct envelope_request envelope;
	struct envelope_view key; /* an idempotency key; the request id is for a new one. NULL: it has none */
	const char *traceparent;  /* the caller's trace context, or NULL */
	uint32_t id;              /* of the call on its connection */
	uint32_t form;            /* the transport's notes for the answer */
	uint32_t max_age_ms;      /* of a read: how old the answer may be. 0: it is the call's own */
};

struct rpc_transport {
	const char *scheme;                  /* of the URLs that it listens on */
	bool expires;                        /* the server answers calls at their deadline */
	const struct rpc_protocol *protocol; /* how bytes become frames; NULL: nng's protocol */

	/* Answers a frame that is no call, such as a request for a file; NULL: it is a call. May be NULL. */
	struct frame *(*serve)(void *arg, struct frame *frame);

	/* Reads a call. Returns false with *error set if it is invalid: it is answered with that. */
	bool (*read)(void *arg, struct frame *frame, struct rpc_message *message, struct reeve_error *error);

	/* Makes protobuf's bytes of the body, up to `max` of them. *made: memory for them, to be freed, or NULL. Returns
	 * false with *error set if it cannot. May be NULL: bodies are protobuf's bytes. */
	bool (*decode)(struct rpc_message *message, const ProtobufCMessageDescriptor *input, size_t max, uint8_t **made,
	    struct reeve_error *error);

	/* Write an answer. `respond` returns NULL with *error set if the response would exceed `max` bytes. */
	struct frame *(*respond)(
	    void *arg, uint32_t id, uint32_t form, const ProtobufCMessage *response, size_t max, struct reeve_error *error);
	struct frame *(*refuse)(void *arg, uint32_t id, uint32_t form, reeve_status code, const char *message);

	/* Sends an answer on its connection, and takes ownership of it. NULL: rpc_conn_queue. */
	void (*send)(struct rpc_conn *conn, struct frame *answer);

	/* Returns whether the other end still wants the answer to a frame that has arrived. NULL: always. */
	bool (*wants_answer)(struct rpc_conn *conn, struct frame *frame);

	/* Called every second, and once before the server closes the connection because it stops (`stopping`). May be NULL.
	 */
	void (*maintain)(void *arg, struct rpc_conn *conn, bool stopping);
};

/* Like rpc_server_listen, for a transport, whose functions get `arg`. */
bool rpc_server_listen_for(struct rpc_server *server, const struct rpc_transport *transport, void *arg, const char *url,
    struct reeve_error *error);

#endif
