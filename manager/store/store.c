/* Opens the roles and tells each connection how it is to be set up. */
#include "manager/store/store.h"

#include "common/clock.h"
#include "manager/store/internal.h"

#include <stdlib.h>

enum { HOT_TIMEOUT_MS = 30000, WINDOW_TIMEOUT_MS = 5000, READ_TIMEOUT_MS = 10000, UPKEEP_TIMEOUT_MS = 60000 };

/* Upkeep locks whole tables for a moment: while it waits for that, everybody else waits behind it. */
enum { UPKEEP_LOCK_MS = 300 };

/* What ends attempts goes by what is free; what it still has to wait for must not hold up the rest. */
enum { LEASE_LOCK_MS = 1000 };

/* Submits wait for the locks of short transactions only. A key may be taken by an application's own, which has not committed
 * yet: who wants the same key has to wait for that, in a role of its own. */
enum { SUBMIT_LOCK_MS = 300 };

/* The roles. Heartbeats have their own connection, so that no long statement starves a lease, and what ends attempts
 * whose worker did not (lease) has its own, so that no edit that waits for a lock keeps tasks from being given to others, and
 * so has what looks after batches (keeper); what may take long (look) does not hold up what is quick (read). Callbacks are
 * behind neither reads nor upkeep, or they would be taken to be lost while they are settled. What asks about workers and their
 * Fetches (lookup) keeps neither claims nor heartbeats waiting, however many strangers there are. */
static const struct role_spec {
	const char *name;
	bool hot, hash_joins, listens;
	int statement_timeout_ms;
	int weight_limit; /* tasks a batch */
} specs[ROLE_COUNT] = {
    [ROLE_SUBMIT] = {"submit", true, true, false, HOT_TIMEOUT_MS, 2000},
    [ROLE_KEYS] = {"keys", true, true, false, HOT_TIMEOUT_MS, 1},
    [ROLE_WINDOW] = {"window", true, false, false, WINDOW_TIMEOUT_MS, WINDOW_WEIGHT},
    [ROLE_CLAIM] = {"claim", true, false, false, HOT_TIMEOUT_MS, 1},
    [ROLE_LOOKUP] = {"lookup", true, false, false, HOT_TIMEOUT_MS, LOOKUP_WEIGHT},
    [ROLE_REPORT] = {"report", true, false, false, HOT_TIMEOUT_MS, 1000},
    [ROLE_HEARTBEAT] = {"heartbeat", true, false, false, HOT_TIMEOUT_MS, 1000},
    [ROLE_LEASE] = {"lease", true, true, false, HOT_TIMEOUT_MS, 1},
    [ROLE_EDIT] = {"edit", true, true, false, HOT_TIMEOUT_MS, 1},
    [ROLE_READ] = {"read", false, false, false, READ_TIMEOUT_MS, 1},
    [ROLE_LOOK] = {"look", false, false, false, READ_TIMEOUT_MS, 1},
    [ROLE_CALLBACKS] = {"callbacks", true, false, false, READ_TIMEOUT_MS, CALLBACKS_AT_ONCE},
    [ROLE_KEEPER] = {"keeper", true, false, false, HOT_TIMEOUT_MS, 1},
    [ROLE_UPKEEP] = {"upkeep", false, false, false, UPKEEP_TIMEOUT_MS, 1},
    [ROLE_LISTEN] = {"listen", false, false, true, READ_TIMEOUT_MS, 1},
};

struct store *store_open(
    struct event_base *base, const struct store_options *options, const struct store_listener *listener)
{
	struct store *store = calloc(1, sizeof *store);
	store->base = base;
	store->options = *options;
	store->listener = *listener;
	for (int i = 0; i < ROLE_COUNT; i++) {
		struct conn_settings settings = {
		    .conninfo = options->conninfo,
		    .name = specs[i].name,
		    .hot = specs[i].hot,
		    .hash_joins = specs[i].hash_joins,
		    .listens = specs[i].listens,
		    .statement_timeout_ms = specs[i].statement_timeout_ms,
		    .lock_timeout_ms = i == ROLE_UPKEEP                  ? UPKEEP_LOCK_MS
		        : i == ROLE_LEASE || i == ROLE_KEEPER ? LEASE_LOCK_MS
		        : i == ROLE_SUBMIT || i == ROLE_KEYS  ? SUBMIT_LOCK_MS
		                                              : 0,
		};
		role_open(&store->roles[i], store, &settings, specs[i].weight_limit);
	}
	return store;
}

void store_close(struct store *store)
{
	store->closing = true;
	for (int i = 0; i < ROLE_COUNT; i++)
		role_close(&store->roles[i]);
	free(store);
}

void store_give(struct store *store, enum role_name name, const struct op_kind *kind, struct store_op *op, int weight,
    size_t bytes)
{
	struct role *role = &store->roles[name];
	op->kind = kind;
	op->given_ms = clock_monotonic_ms();
	op->weight = weight;
	op->bytes = bytes;
	struct reeve_error error;
	if (store->closing) {
		error_set(&error, STATUS(UNAVAILABLE), "the manager stops");
		op->done(op, &error);
	} else if (op->deadline_ms && role->waiting_bytes + bytes > store->options.waiting_bytes) {
		error_set(&error, STATUS(RESOURCE_EXHAUSTED), "too much is waiting for the database; try again later");
		op->done(op, &error);
	} else {
		role_add(role, op);
	}
}

void store_expire_waiting(struct store *store)
{
	int64_t now = clock_monotonic_ms();
	for (int i = 0; i < ROLE_COUNT; i++)
		role_expire(&store->roles[i], now);
}

bool store_up(const struct store *store)
{
	for (int i = 0; i < ROLE_COUNT; i++)
		if (!conn_up(store->roles[i].conn))
			return false;
	return true;
}

int64_t store_manager_id(const struct store *store)
{
	return store->manager_id;
}

bool store_counters(const struct store *store, int role, const char **name, int64_t *batches, int64_t *operations)
{
	if (role >= ROLE_COUNT)
		return false;
	*name = store->roles[role].name;
	*batches = store->roles[role].batches;
	*operations = store->roles[role].operations;
	return true;
}
