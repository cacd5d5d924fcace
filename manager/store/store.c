/* Opens the roles with the settings of their connections. */
#include "manager/store/store.h"

#include "common/clock.h"
#include "manager/store/idle_limit.h"
#include "manager/store/store_internal.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

enum { HOT_TIMEOUT_MS = 30000, READY_TIMEOUT_MS = 5000, READ_TIMEOUT_MS = 10000, MAINTENANCE_TIMEOUT_MS = 60000 };

/* Lock timeouts. All operations of a role share one connection, so none may wait long for a lock. FAST: longer than
 * most transactions, but short compared with the way of a task; an operation for which it is too short is left out,
 * or continues in a role of its own. MAINTENANCE: it locks tables for a moment, and while it waits for such a
 * lock, all other transactions on the table wait, too. READ: reads wait only for changes of tables' definitions. */
enum { FAST_LOCK_MS = 40, LOCK_WAIT_MS = 100, JOBS_LOCK_MS = 200, MAINTENANCE_LOCK_MS = 300, READ_LOCK_MS = 1000 };

enum { FIRST_MAX = 2 };

/*
 * The roles. Separate connections keep one kind of operation from delaying another:
 *
 *   heartbeat   no long statement delays the renewal of leases
 *   lease       reclaims: no edit that waits for a lock delays the reassignment of tasks
 *   requeue     of tasks that never arrived: however much workers claim to hold, it delays no reclaim
 *   jobs        batches, schedules, inbox and counts: delayed by neither edits nor leases
 *   read, poll  quick reads have a connection to themselves (read). Poll begins with reads that may take long, and
 *               poll-more with quick ones
 *   callbacks   delayed by neither reads nor maintenance; else callbacks would be due again before their outcomes are
 *               recorded
 *   lookup      of workers and their Fetches: however many unknown workers call, they delay neither claims nor
 *               heartbeats
 */
static const struct role_spec {
	const char *name;
	bool hot, hash_joins, listens;
	int statement_timeout_ms, lock_timeout_ms;
	int weight_limit;             /* the maximum of tasks in a batch */
	enum sql_id first[FIRST_MAX]; /* prepared at once, so that the first task of a new type does not wait for that */
	int first_count;
} specs[ROLE_COUNT] = {
    [ROLE_SUBMIT] = {"submit", true, true, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, 2000,
        {SQL_SUBMIT_ONE, SQL_SUBMIT_PLAIN}, 2},
    [ROLE_KEYS] = {"keys", true, true, false, HOT_TIMEOUT_MS, LOCK_WAIT_MS, 1},
    [ROLE_READY] = {"ready", true, false, false, READY_TIMEOUT_MS, READ_LOCK_MS, READY_WEIGHT,
        {SQL_READY_STREAMS, SQL_READY_PAGE}, 2},
    [ROLE_CLAIM] = {"claim", true, false, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, 1, {SQL_CLAIM}, 1},
    [ROLE_LOOKUP] = {"lookup", true, false, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, LOOKUP_WEIGHT},
    [ROLE_REPORT] = {"report", true, false, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, 1000},
    [ROLE_HEARTBEAT] = {"heartbeat", true, false, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, 1000},
    [ROLE_LEASE] = {"lease", true, true, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, 1},
    [ROLE_REQUEUE] = {"requeue", true, true, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, REQUEUE_WEIGHT},
    [ROLE_EDIT] = {"edit", true, true, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, 1},
    [ROLE_ROUTES] = {"routes", true, true, false, HOT_TIMEOUT_MS, FAST_LOCK_MS, ROUTES_WEIGHT,
        {SQL_ROUTES_FIND, SQL_ROUTES_ADD}, 2},
    [ROLE_LOCK_WAIT] = {"lock-wait", true, true, false, HOT_TIMEOUT_MS, LOCK_WAIT_MS, 1},
    [ROLE_READ] = {"read", false, false, false, READ_TIMEOUT_MS, READ_LOCK_MS, 1},
    [ROLE_POLL] = {"poll", false, false, false, READ_TIMEOUT_MS, READ_LOCK_MS, 1},
    [ROLE_POLL_MORE] = {"poll-more", false, false, false, READ_TIMEOUT_MS, READ_LOCK_MS, 1},
    [ROLE_CALLBACKS] = {"callbacks", true, false, false, READ_TIMEOUT_MS, LOCK_WAIT_MS, CALLBACKS_AT_ONCE},
    [ROLE_JOBS] = {"jobs", true, false, false, HOT_TIMEOUT_MS, JOBS_LOCK_MS, 1},
    [ROLE_MAINTENANCE] = {"maintenance", false, false, false, MAINTENANCE_TIMEOUT_MS, MAINTENANCE_LOCK_MS, 1},
    [ROLE_LISTEN] = {"listen", false, false, true, READ_TIMEOUT_MS, READ_LOCK_MS, 1},
};

bool store_check_conninfo(const char *conninfo, struct reeve_error *error)
{
	char *problem = NULL;
	PQconninfoOption *parsed = PQconninfoParse(conninfo, &problem);
	if (!parsed)
		error_set(error, STATUS(INVALID_ARGUMENT), "--database: %.*s", problem ? (int)strcspn(problem, "\n") : 0,
		    problem ? problem : "");
	PQconninfoFree(parsed);
	PQfreemem(problem);
	return parsed != NULL;
}

bool store_has_password(const char *conninfo)
{
	PQconninfoOption *parsed = PQconninfoParse(conninfo, NULL);
	bool found = false;
	for (const PQconninfoOption *option = parsed; option && option->keyword; option++)
		found |= *option->dispchar == '*' && option->val && *option->val; /* libpq marks secrets this way */
	PQconninfoFree(parsed);
	return found;
}

struct store *store_open(
    struct event_base *base, const struct store_options *options, const struct store_listener *listener)
{
	struct store *store = mem_calloc(1, sizeof *store);
	store->options = *options;
	store->group = (struct role_group){
	    .store = store,
	    .base = base,
	    .roles = store->roles,
	    .count = ROLE_COUNT,
	    .notified = listener->notified,
	    .listening = listener->listening,
	    .arg = listener->arg,
	};
	conn_set_open(&store->group.conns, base);
	for (int i = 0; i < ROLE_COUNT; i++) {
		struct conn_settings settings = {
		    .conninfo = options->conninfo,
		    .name = specs[i].name,
		    .generic_plans = i == ROLE_READ,
		    .hot = specs[i].hot,
		    .hash_joins = specs[i].hash_joins,
		    .listens = specs[i].listens,
		    .first = specs[i].first,
		    .first_count = specs[i].first_count,
		    .statement_timeout_ms = specs[i].statement_timeout_ms,
		    .times = store->times,
		    .lock_timeout_ms = specs[i].lock_timeout_ms,
		    .idle_timeout_ms = idle_limit(options->lease_ms),
		};
		role_open(&store->roles[i], &store->group, &settings, specs[i].weight_limit);
	}
	store->roles[ROLE_HEARTBEAT].heartbeats = true;
	store->roles[ROLE_EDIT].lock_wait = store->roles[ROLE_ROUTES].lock_wait = store->roles[ROLE_LOCK_WAIT].lock_wait =
	    &store->roles[ROLE_LOCK_WAIT];
	struct role *roles = store->roles;
	role_take(&roles[ROLE_POLL], &roles[ROLE_POLL], &roles[ROLE_READ]);
	role_take(&roles[ROLE_POLL_MORE], &roles[ROLE_READ], &roles[ROLE_POLL]);
	return store;
}

void store_close(struct store *store)
{
	store->closing = true;
	for (int i = 0; i < ROLE_COUNT; i++)
		role_close(&store->roles[i]);
	conn_set_close(&store->group.conns);
	free(store);
}

/* True if an origin's waiting operations exceed its share of what the others leave. The new one is not counted, so that
 * one may always wait. */
static bool over_share(const struct store *store, const struct role *role, const struct store_op *op)
{
	size_t own = fair_bytes(&role->fair, op->origin), others = role->waiting_bytes - own;
	size_t left = others < store->options.waiting_bytes ? store->options.waiting_bytes - others : 0;
	return store->options.origin_percent && own > left / 100 * (size_t)store->options.origin_percent;
}

void store_give(
    struct store *store, enum role_name name, const struct op_kind *kind, struct store_op *op, int weight, size_t bytes)
{
	struct role *role = &store->roles[name];
	op->kind = kind;
	op->added_ms = clock_monotonic_ms();
	op->weight = weight;
	op->bytes = bytes;
	struct reeve_error error;
	if (store->closing) {
		error_set(&error, STATUS(UNAVAILABLE), "the manager stops");
		op->done(op, &error);
	} else if (op->deadline_ms && role->waiting_bytes + bytes > store->options.waiting_bytes) {
		error_set(&error, STATUS(RESOURCE_EXHAUSTED),
		    "too much is waiting for the database (--max-pending); try again later");
		op->done(op, &error);
	} else if (op->deadline_ms && over_share(store, role, op)) {
		error_set(&error, STATUS(RESOURCE_EXHAUSTED),
		    "too much of one connection is waiting for the database (--connection-share of --max-pending); try again later");
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

void store_others(struct store *store, bool alive)
{
	store->group.conns.others = alive;
}

const char *store_problem(const struct store *store)
{
	return role_group_problem(&store->group);
}

int64_t store_manager_id(const struct store *store)
{
	return store->manager_id;
}

bool store_statement(const struct store *store, int statement, const char **name, int64_t *count, int64_t *us)
{
	if (statement >= SQL_COUNT)
		return false;
	*name = sql_statements[statement].name;
	*count = store->times[statement].count;
	*us = store->times[statement].us;
	return true;
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
