/*
 * A call that is answered by one read of the store. A service that keeps more with it has the struct as the first member of
 * its own, which it allocates zeroed.
 */
#ifndef REEVE_MANAGER_SERVICE_READING_H
#define REEVE_MANAGER_SERVICE_READING_H

#include "manager/service/services.h"

struct reading {
	struct store_read op;
	struct rpc_call *call;
	struct services *services;
	ProtobufCMessage *response; /* on the heap, with all that it leads to */
};

/* Makes ready for reading into a new message of the descriptor; `op.request` is the caller's to set. */
void reading_begin(struct reading *reading, struct services *services, struct rpc_call *call, enum store_read_kind kind,
    const ProtobufCMessageDescriptor *descriptor, void (*done)(struct store_op *op, const struct reeve_error *error));

/* Sends it to the store; if the caller's connection closes, the read ends. */
void reading_send(struct reading *reading);

/* The same for an operation with the call that it answers. */
void reading_send_op(struct services *services, struct rpc_call *call, struct store_read *op);

/* Answers the call with the response, or with the error, and frees the response and the struct. */
void reading_end(struct reading *reading, const struct reeve_error *error);

/* For `done`, where that is all. */
void reading_done(struct store_op *op, const struct reeve_error *error);

#endif
