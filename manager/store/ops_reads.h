/* Operations that are statements with heads, and the poll of ended tasks. See op.h. */
#ifndef REEVE_MANAGER_STORE_OPS_READS_H
#define REEVE_MANAGER_STORE_OPS_READS_H

#include "manager/store/op.h"
#include "manager/store/ops_tasks.h"

#include <protobuf-c/protobuf-c.h>

/* Finds out which of some tasks have ended. */
struct store_ended {
	struct store_op op;
	int count;
	const int64_t *ids;
	/* results */
	int64_t *ended;
	int ended_count;
	int64_t *live; /* those that have not */
	int live_count;
};
void store_ended(struct store *store, struct store_ended *op);

enum store_read_kind {
	STORE_BOUND,    /* the response of a statement from its request, by its head (bind.h) */
	STORE_CHANGE,   /* the same, of a statement that changes something; repeated after an unknown outcome */
	STORE_GET,      /* ListResponse: the task `id`, if it exists, with details and result */
	STORE_LIST,     /* ListResponse from a ListRequest that has a filter */
	STORE_MATCHING, /* the response of a change, from a TaskFilter: a page of the tasks that match and can be changed */
};

struct sql_text;

/* Reads straight into a response message, or changes something and reads that. The caller owns and has initialized it;
 * protobuf_c_message_free_unpacked frees everything it refers to. */
struct store_read {
	struct store_op op;
	enum store_read_kind kind;
	const struct sql_text *statement; /* for STORE_BOUND and STORE_CHANGE: one of sql_statements */
	const struct sql_text *then;      /* for STORE_CHANGE: reads the response after it; or NULL */
	bool quick;                       /* it reads few rows, however many there are */
	const ProtobufCMessage *request;
	const uint8_t *request_id; /* for STORE_CHANGE: this and the next two are @request_id, @actor and @change */
	const char *actor, *change;
	int64_t id;                /* for STORE_GET */
	int tasks;                 /* how many the statement looks up by their ids: many make it wait longer for its turn */
	enum store_edit_kind edit; /* for STORE_MATCHING */
	int64_t max_bytes;         /* the maximum of an answer, for kinds that can be long */
	int64_t max_task;          /* the maximum of a task's details, result and stack trace in an answer */
	int64_t max_details;       /* the maximum length of details that this manager assigns */
	int64_t lease_ms;
	/* result */
	ProtobufCMessage *response;
};
void store_read(struct store *store, struct store_read *op);

/* Ends a store_read or store_ended, not yet done, whose answer is not needed any more. Its `done` is called at once, or
 * when PostgreSQL has stopped executing it. */
void store_read_drop(struct store_op *op);

#endif
