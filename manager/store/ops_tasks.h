/* Operations on tasks: submitting, and manual changes. See op.h. */
#ifndef REEVE_MANAGER_STORE_OPS_TASKS_H
#define REEVE_MANAGER_STORE_OPS_TASKS_H

#include "manager/store/op.h"

#include <protobuf-c/protobuf-c.h>
#include <sql/sql.h>

/* --- submitting ------------------------------------------------------------------------------------------------ */

struct store_task {
	int route;
	const char *queue, *type, *details;
	int32_t priority;
	bool own_priority; /* else core/submit replaces it by the queue's */
	int64_t run_at_us; /* STORE_TIME_BEGIN: now */
	int64_t delay_ms;
	const char *key;      /* NULL: none */
	const char *owner;    /* if an older task has the key, it must be this identity's; NULL: it may be anyone's */
	int64_t key_ttl_ms;   /* 0: as the queue sets it */
	int32_t max_attempts; /* core/submit replaces 0 by the queue's value */
	int64_t timeout_ms;   /* the same */
	bool retry_given;     /* else core/submit sets the next three to the queue's values */
	int64_t retry_base_ms, retry_max_ms;
	const char *retry_policy; /* JSON as in the column of that name; NULL: exponential */
	int64_t task_version;     /* with a key: if newer than the stored one, the task runs again; 0: none */
	int64_t batch;            /* an open one; 0: none, or the queue's implicit one */
	bool batched;             /* its queue creates batches, or must be checked before it accepts tasks */
	const char *pipeline;     /* its name; NULL: none. core/submit sets the rest and everything that stages define */
	int64_t pipeline_id;
	const char *stage; /* that it begins with; NULL: core/submit sets the first of the pipeline */
	int64_t parent;    /* the task whose handler submits it; 0: none */
	const char *source;
	bool begins_trace;                /* its trace context was made here */
	const char *texts[SQL_SUBMITTED]; /* of the columns sql_columns_submitted, the key among them; NULL: null */
	/* for the store only: its call's place in the batch from 1; its batch, 0: none; whether it is blocked until that
	 * begins, and whether that begins with it */
	int32_t call;
	int64_t batch_id;
	bool blocked, begins;
};

struct store_created {
	int64_t id;
	bool existing;  /* an older task has the key; nothing was created */
	bool created;   /* created by this operation: version and run_at_us are set */
	bool restarted; /* existing, and runs again because its version is newer */
	bool waits;     /* restarted, and not executing now: all fields below are set */
	bool recalled;  /* the answer of an earlier copy of the call: nothing else is known */
	int64_t version, run_at_us;
	int route;
	int32_t priority;
};

/* Creates tasks. */
struct store_submit {
	struct store_op op;
	uint8_t request_id[16];
	int count;
	struct store_task *tasks;
	/* results */
	struct store_created *created; /* one per task, in order */
	int created_count;             /* differs from count only if the request id was used for another call */
	bool keyed, batched, plain;    /* for the store only; plain: submit_plain.sql has all columns that the tasks need */
};
void store_submit(struct store *store, struct store_submit *op);

/* Finds the request id that an idempotency key of a call stands for. */
struct store_call_key {
	struct store_op op;
	uint8_t key[16];        /* the hash of caller, method and key */
	uint8_t request[16];    /* the hash of the request */
	uint8_t request_id[16]; /* for a new key; a result: for this one */
	/* results */
	bool same; /* the key's first call had the same request */
};
void store_call_key(struct store *store, struct store_call_key *op);

/* --- manual changes -------------------------------------------------------------------------------------------- */

enum store_edit_kind { STORE_CANCEL, STORE_DISCARD, STORE_RETRY, STORE_UPDATE, STORE_PURGE };

/* The maximum of tasks that a change by a filter processes at a time, and of ids that it scans for them. */
enum { STORE_FILTER_MAX = 1000, STORE_FILTER_STRETCH = 200000 };

/* Why a task was not updated (tasks_update.sql). */
enum store_refusal {
	STORE_REFUSED_NOT,
	STORE_REFUSED_EXECUTING,
	STORE_REFUSED_ATTEMPTS,
	STORE_REFUSED_KEY,     /* another task has it */
	STORE_REFUSED_BATCH,   /* it stays in the queue of its batch, or is not ingested yet */
	STORE_REFUSED_STOPPED, /* the queue */
	STORE_REFUSED_STAGE,   /* its pipeline has no such stage */
};

struct store_edited {
	int64_t id;
	char status[12]; /* afterwards */
	bool changed;
	enum store_refusal refusal; /* of an update: why it was not possible */
	bool ended;                 /* by this call; its route is set */
	bool waits;                 /* waits because of this call; the next four fields are set: */
	int route;
	int32_t priority;
	int64_t version, due_us;
	bool stopping;                   /* it executes, and starts again after its stop */
	bool pulled;                     /* it executes at a pull client, which takes no commands */
	int64_t commanded_worker, token; /* this worker must get a command to stop this attempt; 0: none */
};

/* Cancels, discards, retries or updates tasks. */
struct store_edit {
	struct store_op op;
	enum store_edit_kind kind;
	uint8_t request_id[16];
	int count;
	const int64_t *ids;
	const ProtobufCMessage
	    *filter;    /* instead of ids: a TaskFilter, whose statuses are those that the change may touch */
	bool executing; /* a retry: start executing ones again, too */
	bool hanged;    /* only these, and their attempts count: they fail with the error `hanged` */
	const char *actor, *reason;
	bool details_only;  /* of a purge: erase the details, and keep the task */
	const char *change; /* of an update: the new values as JSON (tasks_update.sql) */
	/* results */
	struct store_edited *tasks; /* those that exist, in the order of the ids */
	int found;
	int64_t *missing;
	int missing_count;
	int64_t next_after_id; /* with a filter: there may be more above this id; 0: there are none */
	bool mismatch;         /* the request id was used for another call; nothing changed */
};
void store_edit(struct store *store, struct store_edit *op);

#endif
