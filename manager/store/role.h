/*
 * Roles: each has a connection and a list of waiting operations. The operations that arrive while a batch is in flight
 * are the next batch. Where small batches would follow each other at once, the role waits a little longer
 * (batch_wait_ms).
 *
 * An operation embeds struct store_op (store.h) and has a kind, which turns a batch of its operations into statements.
 * The role does everything else: it splits a batch that is refused because of one operation's data until that operation
 * is alone; it retries after deadlocks and serialization failures; and when the connection breaks, it repeats the
 * operations in flight, whose outcome is unknown, on the next connection, marked `again`.
 */
#ifndef REEVE_MANAGER_STORE_ROLE_H
#define REEVE_MANAGER_STORE_ROLE_H

#include "manager/store/conn.h"
#include "manager/store/conn_set.h"
#include "manager/store/fair.h"
#include "manager/store/op.h"

struct role;

/* Continues a batch after one of its statements. The rows are valid during the call. */
typedef void role_next(struct role *role, const PGresult *rows);

struct op_kind {
	const char *name; /* for messages */
	/* Returns the name of an operation, valid until the next call; NULL: the kind's. */
	const char *(*name_of)(const struct store_op *op);
	/* Sends the first statement of a batch: role->batch[0 … role->count). The kind continues with role_run until it
	 * calls role_done. */
	void (*start)(struct role *role);
	/* Returns false if `op` must not be in one batch with those already chosen. NULL: all may. */
	bool (*joins)(const struct role *role, const struct store_op *op);
	/* Operations with an unknown outcome are not repeated but end with error code UNKNOWN: the caller decides what
	 * to do. */
	bool reports_unknown;
	/* Its batches can leave out rows that other transactions have locked (role_careful): for a second after the first
	 * lock, and for so long if the role meets one again within a second after that. 0: they cannot. */
	int careful_again_ms;
	/* Takes over an operation that, alone in its batch, could not get a lock in time; the role has released it.
	 * NULL: the operation goes to the role's `lock_wait`, or fails if there is none. */
	void (*blocked)(struct store *store, struct store_op *op, const char *problem);
	/* Returns what an operation still waits for at its deadline, as an error message; NULL: for those before it. */
	const char *(*waits_for)(const struct store_op *op);
	/* How long the role pauses after a batch of operations that can wait, so that more join the next one; 0: it does
	 * not pause. The loop's clock has ticks of up to 4 ms, so that 1 ms is 0 to 4. The pause ends early when operations
	 * of `batch_weight` wait (0: of a full batch), one that cannot wait, or a part of a split batch. */
	int batch_wait_ms, batch_weight;
};

static inline const char *op_name(const struct store_op *op)
{
	return op->kind->name_of ? op->kind->name_of(op) : op->kind->name;
}

enum { ROLE_BATCH_OPS = 2048, ROLE_LISTS = 2 };

/* What all roles of a store share. */
struct role_group {
	struct store *store;
	struct event_base *base;
	struct role *roles;
	int count;
	struct conn_set conns;                            /* for their connections */
	void (*notified)(void *arg, const char *payload); /* see struct store_listener */
	void (*listening)(void *arg);
	void *arg;
};

struct role {
	struct role_group *group;
	struct store *store; /* the group's */
	struct conn *conn;
	const char *name;
	bool listens;                   /* for notifications */
	bool heartbeats;                /* its answers say whether other managers are alive */
	struct role *takes[ROLE_LISTS]; /* whose waiting operations it takes, the first one's before all others; or NULL */
	struct store_op *waiting;       /* utlist, in the order of `fair` */
	struct fair fair;
	size_t waiting_count, waiting_bytes;
	int64_t waiting_weight;
	size_t waiting_urgent; /* operations that cannot wait for others (store_op) */
	struct store_op *batch[ROLE_BATCH_OPS];
	int count;
	int weight_limit;                    /* the maximum of tasks in a batch */
	struct params params;                /* of the next statement */
	void *state;                         /* of the batch in flight; freed with free() when it ends */
	role_next *next;                     /* of the statement in flight */
	const struct step *step, *steps_end; /* see steps.h */
	struct role *lock_wait;              /* continues operations that could not get a lock; may be this role; or NULL */
	int64_t careful_until_ms;            /* monotonic */
	int64_t starved_ms;                  /* when it last logged that PostgreSQL lacks a resource; 0: never */
	struct event *pause;                 /* pending: the role pauses */
	int pause_until_weight;              /* the pause ends early when operations of this weight wait; 0: it does not */
	int64_t batches, operations;
};

/* Sets up a role of a group, whose other members need not be set up yet. `settings` is for its connection. */
void role_open(struct role *role, struct role_group *group, const struct conn_settings *settings, int weight_limit);
void role_close(struct role *role);

/* Returns why a connection of the group is down, for messages; "" if none is. */
const char *role_group_problem(const struct role_group *group);

/* Lets a role take the operations that wait for these roles, in this order, instead of its own. Call it before the
 * first role_add. */
void role_take(struct role *role, struct role *first, struct role *second);

/* Adds an operation; sends it if the connection of a role that takes from this one is free. */
void role_add(struct role *role, struct store_op *op);

/* Drops an operation that was added to this role and is not done, because its result is not needed any more. A
 * waiting operation ends with CANCELLED. One in flight ends with its outcome; if it is alone in its batch, it is
 * cancelled at the server. */
void role_drop(struct role *role, struct store_op *op);

/* Runs the next statement of the batch with role->params, then `next`. If the statement does not succeed, the role
 * splits, retries or fails the batch instead. */
void role_run(struct role *role, enum sql_id statement, role_next *next);

/* Like role_run, for a statement that may fail: `next` receives (role, result), whatever the result is, and must pass
 * CONN_LOST to role_refused. */
void role_try(struct role *role, enum sql_id statement, conn_done *next);

/* Ends a batch that has succeeded: calls every operation's `done`. */
void role_done(struct role *role);

/* Follows a last statement without results to read: calls role_done. */
void role_on_done(struct role *role, const PGresult *rows);

/* Handles a statement that did not succeed: splits, retries or fails the batch, depending on the result. */
void role_refused(struct role *role, const struct conn_result *result);

/* Pauses the role's batches; the more operations wait, the shorter the pause. For an operation that could not get a
 * lock and continues to wait in this role: without the pause an idle role would retry it constantly. */
void role_pause(struct role *role);

/* True for some time after a batch could not get a lock in time. Kinds with `careful_again_ms` then send statements
 * that leave out locked rows, which are tried again. Such statements cost more, so the role returns to the normal
 * ones. */
bool role_careful(const struct role *role);

/* Ends waiting operations whose deadline has passed. */
void role_expire(struct role *role, int64_t now_ms);

#endif
