/* Shared by the files of operations: the struct itself, its roles, and small helpers. */
#ifndef REEVE_MANAGER_STORE_STORE_INTERNAL_H
#define REEVE_MANAGER_STORE_STORE_INTERNAL_H

#include "manager/store/recent_locks.h"
#include "manager/store/role.h"
#include "manager/store/row.h"
#include "manager/store/store.h"

enum role_name {
	ROLE_SUBMIT,
	ROLE_KEYS,
	ROLE_READY,
	ROLE_CLAIM,
	ROLE_LOOKUP,
	ROLE_REPORT,
	ROLE_HEARTBEAT,
	ROLE_LEASE,
	ROLE_REQUEUE,
	ROLE_EDIT,
	ROLE_ROUTES,
	ROLE_LOCK_WAIT,
	ROLE_READ,
	ROLE_POLL,
	ROLE_POLL_MORE,
	ROLE_CALLBACKS,
	ROLE_JOBS,
	ROLE_MAINTENANCE,
	ROLE_LISTEN,
	ROLE_COUNT
};

/* The weight limit of one lookup: the check of a worker weighs 1, a redelivery 10, because its answer can be long. */
enum { LOOKUP_WEIGHT = 1000, REDELIVER_WEIGHT = 10 };

/* The weight limit of one check of what workers hold: a worker weighs 1, as do so many attempts that it claims. */
enum { REQUEUE_WEIGHT = 1000, REQUEUE_HELD = 50 };

/* The maximum of callbacks whose outcomes one statement records. */
enum { CALLBACKS_AT_ONCE = 64 };

/* The maximum of candidates that one statement reads, in pages of many streams. An operation of this weight runs
 * alone. */
enum { READY_WEIGHT = 20000 };

/* The maximum of routes that one statement creates. An operation of this weight runs alone. */
enum { ROUTES_WEIGHT = 2000 };

enum { MAINTENANCE_STEPS_MAX = 32 };

struct store {
	struct store_options options;
	struct role roles[ROLE_COUNT];
	struct role_group group;                          /* of the roles */
	struct recent_locks submit_locks;                 /* see submit_locks.h */
	struct recent_locks batch_locks;                  /* the ids of batches that reports found locked */
	struct store_place places[MAINTENANCE_STEPS_MAX]; /* the position of each maintenance statement */
	struct statement_times times[SQL_COUNT];
	int64_t manager_id;
	bool closing;
};

/* Passes an operation to a role: sets its weight and bytes, and refuses it if too much waits. */
void store_give(struct store *store, enum role_name role, const struct op_kind *kind, struct store_op *op, int weight,
    size_t bytes);

/* Reads a row of end_attempts.sql: the outcome of an attempt that it ended. */
void report_row_take(struct store_result *result, const PGresult *rows, int row);

/* Adds the parameters of match_tasks or find_tasks. `filter`: a TaskFilter. */
void matching_params(struct params *p, const ProtobufCMessage *filter, enum store_edit_kind change);

/* For the code of a kind: the i-th operation of the batch, as its own type. */
#define BATCH_OP(role, type, i) ((type *)(role)->batch[i])

/* Adds an array for each column, with one element for each operation of the batch. */
#define BATCH_COLUMNS(role, table) params_columns(&(role)->params, (role)->batch, (role)->count, COLUMNS(table))

#endif
