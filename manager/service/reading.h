/*
 * A call that one statement answers. A service that needs more data embeds this struct as the first member of
 * its own, which it allocates zeroed.
 */
#ifndef REEVE_MANAGER_SERVICE_READING_H
#define REEVE_MANAGER_SERVICE_READING_H

#include "manager/service/services.h"

#include <sql/sql.h>

struct reading {
	struct store_read op;
	struct rpc_call *call;
	struct services *services;
	ProtobufCMessage *request;  /* a copy, whose own fields may be changed; what it points to belongs to the call */
	ProtobufCMessage *response; /* on the heap, with everything it points to */
	char *change;               /* @change of the statement, or NULL */
};

typedef void reading_done_fn(struct store_op *op, const struct reeve_error *error);

/* Prepares a reading into a new message of the descriptor. `request` may be NULL. */
void reading_begin(struct reading *reading, struct services *services, struct rpc_call *call, enum store_read_kind kind,
    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *descriptor, reading_done_fn *done);

/* Sets the response's warning, if it has that field; "": none. */
void reading_warn(struct reading *reading, const char *warning);

/* Creates a reading of a statement whose head names the request and the response. */
struct reading *reading_of(struct services *services, struct rpc_call *call, enum sql_id statement,
    const ProtobufCMessage *request, reading_done_fn *done);

/* Like reading_of, for a struct that begins with a reading. */
void reading_begin_of(struct reading *reading, struct services *services, struct rpc_call *call, enum sql_id statement,
    const ProtobufCMessage *request, reading_done_fn *done);

/* Makes it a change, with the call's request id and actor, and JSON for the statement's @change or NULL, which it
 * frees. */
void reading_change(struct reading *reading, char *change);

/* Sends it to the store. If the caller's connection closes, a read is cancelled. */
void reading_send(struct reading *reading);

/* Answers the call with the response or the error, and frees the response and the struct. */
void reading_end(struct reading *reading, const struct reeve_error *error);

/* Like reading_end, with an answer that points to parts of the response. */
void reading_end_with(struct reading *reading, const ProtobufCMessage *answer, const struct reeve_error *error);

/* Frees the response and the struct without an answer. */
void reading_free(struct reading *reading);

/* A `done` that only calls reading_end. */
reading_done_fn reading_done;

#endif
