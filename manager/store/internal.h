/* What the files of the store share: the struct itself, its roles, and small helpers. */
#ifndef REEVE_MANAGER_STORE_INTERNAL_H
#define REEVE_MANAGER_STORE_INTERNAL_H

#include "manager/store/role.h"
#include "manager/store/row.h"
#include "manager/store/store.h"

enum role_name {
	ROLE_SUBMIT,
	ROLE_KEYS,
	ROLE_WINDOW,
	ROLE_CLAIM,
	ROLE_LOOKUP,
	ROLE_REPORT,
	ROLE_HEARTBEAT,
	ROLE_LEASE,
	ROLE_EDIT,
	ROLE_ROUTES,
	ROLE_PATIENT,
	ROLE_READ,
	ROLE_LOOK,
	ROLE_LOOK_MORE,
	ROLE_CALLBACKS,
	ROLE_KEEPER,
	ROLE_UPKEEP,
	ROLE_LISTEN,
	ROLE_COUNT
};

/* What one lookup asks: the life of a worker weighs 1, what a Fetch was given 10, as its answer may be long. */
enum { LOOKUP_WEIGHT = 1000, REDELIVER_WEIGHT = 10 };

/* So many callbacks are settled by one statement. */
enum { CALLBACKS_AT_ONCE = 64 };

/* One statement reads pages of many streams that hold at most so many candidates together. What has this weight is read alone. */
enum { WINDOW_WEIGHT = 20000 };

/* So many pairs of queue and type are made together. What has this weight is done alone. */
enum { ROUTES_WEIGHT = 2000 };

/* Keys and batches that a submit could not have lately, another transaction having them: submits with one of them go to a role of
 * their own at once. Few: with more at a time, the oldest are found out anew. */
enum { KEYS_IN_USE = 64 };

struct key_in_use {
	uint64_t hash;
	int64_t until_ms;
};

enum { UPKEEP_STEPS_MOST = 32 };

struct store {
	struct event_base *base;
	struct store_options options;
	struct store_listener listener;
	struct role roles[ROLE_COUNT];
	struct key_in_use keys_in_use[KEYS_IN_USE];
	struct store_place places[UPKEEP_STEPS_MOST]; /* to where each statement of upkeep has come */
	int64_t manager_id;
	bool closing;
};

/* Gives an operation to a role: sets its weight and bytes, refuses it over the bound. */
void store_give(struct store *store, enum role_name role, const struct op_kind *kind, struct store_op *op, int weight,
    size_t bytes);

/* Reads a row of end_attempts.sql: what became of an attempt that it ended. */
void report_row_take(struct store_result *result, const PGresult *rows, int row);

/* Adds a filter as twelve parameters: statuses (null: all), queue, type, error, part of the error, error code, older, newer,
 * running longer (ms), batch, key, source; null where any will do. */
void filter_params(struct params *p, const struct store_filter *filter);

/* Adds all parameters of match_tasks and look_for_tasks. */
void matching_params(struct params *p, const struct store_filter *filter, enum store_edit_kind change);

/* For kinds: the i-th operation of the batch as its own type. */
#define BATCH_OP(role, type, i) ((type *)(role)->batch[i])

/* Used in a statement's callback: unless the result is good, hands it to role_refused and returns. */
#define UNLESS_OK(role, result)                                                                                        \
	if ((result)->kind != CONN_OK) {                                                                               \
		role_refused(role, result);                                                                            \
		return;                                                                                                \
	}

#endif
