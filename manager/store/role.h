/*
 * Roles: each has a connection and a list of waiting operations. Whatever has gathered while the last batch was in
 * flight goes out as the next one: no timers, no tuned delays. Heartbeats alone gather a little longer (gather_ms).
 *
 * An operation embeds struct store_op (store.h) and names its kind; a kind knows how a batch of its operations is turned
 * into statements. The role sees to the rest: a batch refused because of one operation's data is split until that one
 * stands alone; deadlocks and serialization failures are tried again; operations whose outcome became unknown with the
 * connection are asked again on the next one, marked `again`.
 */
#ifndef REEVE_MANAGER_STORE_ROLE_H
#define REEVE_MANAGER_STORE_ROLE_H

#include "manager/store/conn.h"
#include "manager/store/fair.h"
#include "manager/store/store.h"

struct role;

struct op_kind {
	const char *name;
	/* Sends the first statement of a batch: role->batch[0 … role->count). It goes on by role_run until it ends with
	 * role_done or role_refused. */
	void (*start)(struct role *role);
	/* False if `op` must not be in one batch with those already chosen (may be NULL: all may). */
	bool (*joins)(const struct role *role, const struct store_op *op);
	/* An unknown outcome is not asked for again but told with error code UNKNOWN: its owner knows better what to do. */
	bool tells_unknown;
	/* Its batches can leave out what somebody else has locked (role_careful). */
	bool careful;
	/* What becomes of an operation that stands alone and could not have a lock in time; NULL: it goes to the role's `patient`,
	 * or fails where there is none. It is not the role's any more. */
	void (*blocked)(struct store *store, struct store_op *op, const char *problem);
	/* What operations wait for whose turn has not come until their deadline; NULL: those before them. */
	const char *(*waits_for)(const struct store_op *op);
	/* How long the role rests after a batch, so that more operations join the next one, unless that is full, or part of one that was
	 * split. For those that nobody waits for. */
	int gather_ms;
};

enum { ROLE_BATCH_OPS = 2048, ROLE_LISTS = 2 };

struct role {
	struct store *store;
	struct conn *conn;
	const char *name;
	struct role *takes[ROLE_LISTS]; /* whose waiting operations it takes, those of the first before all others; or NULL */
	struct store_op *waiting;      /* utlist, in the order of `fair` */
	struct fair fair;
	size_t waiting_count, waiting_bytes;
	struct store_op *batch[ROLE_BATCH_OPS];
	int count;
	int weight_limit;              /* tasks a batch may hold */
	struct params params;          /* for the statement that is being sent */
	void *state;                   /* of the batch in flight, freed with free() when it ends */
	conn_done *next;               /* what follows the statement in flight */
	struct role *patient;          /* goes on with operations that could not have a lock; itself; or NULL */
	int64_t careful_until_ms;      /* monotonic */
	int64_t starved_ms;            /* when the log was last told that PostgreSQL lacks something; 0: never */
	struct event *rested;          /* pending: it rests, or lets operations gather */
	int64_t batches, operations;
};

/* Sets a role up. `settings` gives the connection's. */
void role_open(struct role *role, struct store *store, const struct conn_settings *settings, int weight_limit);
void role_close(struct role *role);

/* Lets a role take the operations that wait for these as well, in this order; before the first role_add. */
void role_take(struct role *role, struct role *first, struct role *second);

/* Takes an operation in; sends it if the connection of a role that takes from this one is free. */
void role_add(struct role *role, struct store_op *op);

/* Nobody wants the operation's result any more, which was added here and is not done. One that waits ends with CANCELLED;
 * one in flight ends as it comes out; if it is alone in its batch, it is cancelled at the server. */
void role_drop(struct role *role, struct store_op *op);

/* Runs the next statement of the batch with role->params; `next` gets (role, result) and, unless it is CONN_OK, must
 * call role_refused. */
void role_run(struct role *role, enum sql_id statement, conn_done *next);

/* The batch has succeeded: calls every operation's `done`. */
void role_done(struct role *role);

/* What follows a statement whose answer holds nothing to be read: role_done or role_refused. `role` is a struct role *. */
void role_on_done(void *role, const struct conn_result *result);

/* The batch's statement did not succeed: splits, tries again or fails it, as its result says. */
void role_refused(struct role *role, const struct conn_result *result);

/* Begins no batch for a moment, the shorter the more operations wait: after one that could not have a lock and waits on in this
 * role, so that an idle role does not ask for it all the time. */
void role_rest(struct role *role);

/* True for a moment after a batch could not have a lock in time. Kinds that say that they are careful then send statements
 * that wait for no lock: what somebody has locked is left out and tried again. These cost more, and win less where two
 * managers lock the same rows all the time; so the others are tried again soon. */
bool role_careful(const struct role *role);

/* Ends waiting operations whose deadline has passed. */
void role_expire(struct role *role, int64_t now_ms);

#endif
