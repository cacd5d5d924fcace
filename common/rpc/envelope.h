/*
 * The envelopes of the RPC (reeve.v1.Request and Reply), without protobuf-c's copies: a message of megabytes is read in
 * place, and written directly into the frame that is sent. Only the server and the client use it.
 */
#ifndef REEVE_COMMON_RPC_ENVELOPE_H
#define REEVE_COMMON_RPC_ENVELOPE_H

#include "common/error.h"
#include "common/rpc/frame.h"
#include "common/uuid.h"

#include <protobuf-c/protobuf-c.h>

/* Bytes inside a message. Not terminated by a NUL; never NULL after reading. */
struct envelope_view {
	const uint8_t *bytes;
	size_t length;
};

struct envelope_request {
	struct envelope_view method, token, actor, body;
	const uint8_t *request_id; /* 16 bytes, or NULL */
	uint32_t deadline_ms;
	uint32_t contract; /* the contract's version of the caller; only set by envelope_read_request */
};

struct envelope_reply {
	uint32_t code;
	struct envelope_view message, body;
};

/* Read an envelope. The views point into `bytes`. The body is not checked. On failure they return false, and *error is
 * INVALID_ARGUMENT. */
bool envelope_read_request(
    const uint8_t *bytes, size_t length, struct envelope_request *request, struct reeve_error *error);
bool envelope_read_reply(const uint8_t *bytes, size_t length, struct envelope_reply *reply, struct reeve_error *error);

/* Returns the maximum length of a request's envelope, whatever its deadline. */
size_t envelope_request_size(const struct envelope_request *request);

/* Writes a request, with the contract's current version, into a frame that is not sealed yet. */
struct frame *envelope_write_request(const struct envelope_request *request);

/* Writes an OK reply that contains the packed response. Returns NULL with *error set if it would exceed `max_bytes`. */
struct frame *envelope_write_response(const ProtobufCMessage *response, size_t max_bytes, struct reeve_error *error);

/* Writes what is wrong, for the user of a program whose version of the contract is not the manager's. */
void envelope_contract_problem(uint32_t program, uint32_t manager, char *out, size_t size);

/* Writes a reply that is not OK. */
struct frame *envelope_write_error(reeve_status code, const char *message);

#endif
