/* Maintenance: the manager's heartbeat, notifications to the others, partitions, deletion of old rows. */
#include "common/log.h"
#include "manager/store/store_internal.h"

#include <assert.h>
#include <sql/sql.h>
#include <stdlib.h>
#include <string.h>

static void heartbeat_start(struct role *role);

static bool lists(const PGresult *rows, int64_t manager)
{
	for (int row = 0; row < PQntuples(rows); row++)
		if (row_int8(rows, row, 3) == manager)
			return true;
	return false;
}

static void on_heartbeat(struct role *role, const PGresult *rows)
{
	struct store_manager_heartbeat *op = BATCH_OP(role, struct store_manager_heartbeat, 0);
	if (!lists(rows, role->store->manager_id)) {
		log_warn(NULL,
		    "the database has no manager %lld, which is this one: it was restored, or the manager was away for long; registering again",
		    (long long)role->store->manager_id);
		role->store->manager_id = 0;
		heartbeat_start(role);
		return;
	}
	op->now_us = row_time(rows, 0, 0);
	op->routes = row_int8(rows, 0, 1);
	op->newest_assignment = row_int8(rows, 0, 2);
	op->queues = row_text(rows, 0, 5);
	int schema = row_int4(rows, 0, 6);
	op->ahead_us = row_time(rows, 0, 7);
	op->set_back_us = row_time(rows, 0, 8);
	op->schema = schema > SQL_VERSION ? schema : 0;
	op->peer_count = PQntuples(rows);
	op->peers = role->state = mem_calloc((size_t)op->peer_count + 1, sizeof *op->peers);
	for (int row = 0; row < op->peer_count; row++)
		op->peers[row] = (struct store_peer){row_int8(rows, row, 3), row_int8(rows, row, 4)};
	role_done(role);
}

static void heartbeat(struct role *role)
{
	const struct store_manager_heartbeat *op = BATCH_OP(role, struct store_manager_heartbeat, 0);
	params_int8(&role->params, role->store->manager_id);
	params_time_or_null(&role->params, op->estimate_us);
	role_run(role, SQL_MANAGER_HEARTBEAT, on_heartbeat);
}

static void on_started(struct role *role, const PGresult *rows)
{
	role->store->manager_id = row_int8(rows, 0, 0);
	heartbeat(role);
}

static void heartbeat_start(struct role *role)
{
	if (role->store->manager_id) {
		heartbeat(role);
		return;
	}
	params_text(&role->params, role->store->options.manager_name);
	params_bool(&role->params, role->store->options.archives);
	params_int8(&role->params, role->store->options.max_details);
	params_int4(&role->params, role->store->options.history_days);
	params_text(&role->params, REEVE_VERSION);
	role_run(role, SQL_MANAGER_START, on_started);
}

void store_manager_heartbeat(struct store *store, struct store_manager_heartbeat *op)
{
	static const struct op_kind kind = {.name = "manager heartbeat", .start = heartbeat_start};
	store_give(store, ROLE_HEARTBEAT, &kind, &op->op, 1, 0);
}

static void stop_start(struct role *role)
{
	params_int8(&role->params, role->store->manager_id);
	role_run(role, SQL_MANAGER_STOP, role_on_done);
}

void store_stop(struct store *store, struct store_stop *op)
{
	static const struct op_kind kind = {.name = "stop", .start = stop_start};
	store_give(store, ROLE_HEARTBEAT, &kind, &op->op, 1, 0);
}

static void notify_start(struct role *role)
{
	params_text(&role->params, BATCH_OP(role, struct store_notify, 0)->payload);
	role_run(role, SQL_NOTIFICATIONS_SEND, role_on_done);
}

void store_notify(struct store *store, struct store_notify *op)
{
	static const struct op_kind kind = {.name = "notify", .start = notify_start};
	store_give(store, ROLE_LISTEN, &kind, &op->op, 1, 0);
}

/* --- maintenance ----------------------------------------------------------------------------------------------- */

static void add_days(struct role *role)
{
	params_int4(&role->params, role->store->options.history_days);
}

static void add_nothing(struct role *role)
{
	(void)role;
}

static void add_archives(struct role *role)
{
	params_bool(&role->params, role->store->options.archives);
}

static void add_partition(struct role *role)
{
	params_text(&role->params, BATCH_OP(role, struct store_maintenance, 0)->partition);
}

static void add_partition_and_place(struct role *role)
{
	add_partition(role);
	params_int8(&role->params, BATCH_OP(role, struct store_maintenance, 0)->after);
}

/* Adds the days and the position of a statement that scans a table in pages and continues there next time. */
static void add_days_and_place(struct role *role)
{
	const struct store_place *place = &role->store->places[BATCH_OP(role, struct store_maintenance, 0)->step];
	add_days(role);
	params_time(&role->params, place->id ? place->key : STORE_TIME_BEGIN);
	params_int8(&role->params, place->id);
}

static const struct step {
	enum sql_id statement;
	void (*add)(struct role *role);
	int full; /* with this many rows there may be more; 0: there are not, or the answer has the page's end */
} steps[] = {
    {SQL_HISTORY_MAKE_PARTITIONS, add_days, 0},
    {SQL_HISTORY_TAKE_OVER, add_nothing, 0},
    {SQL_HISTORY_OVER, add_archives, 0},
    {SQL_HISTORY_FORGET, add_partition_and_place, 0},
    {SQL_HISTORY_DROP_PARTITION, add_partition, 0},
    {SQL_PURGE_HOURS, add_nothing, 5000},
    {SQL_PURGE_REQUESTS, add_nothing, 20000},
    {SQL_PURGE_KEYS, add_nothing, 5000},
    {SQL_PURGE_ATTEMPTS, add_days_and_place, 0},
    {SQL_PURGE_EVENTS, add_days_and_place, 0},
    {SQL_PURGE_WORKER_EVENTS, add_days, 5000},
    {SQL_PURGE_QUEUE_EVENTS, add_days, 5000},
    {SQL_PURGE_SCHEDULE_RUNS, add_days, 5000},
    {SQL_PURGE_SCHEDULE_EVENTS, add_days, 5000},
    {SQL_PURGE_ASSIGNMENTS, add_days_and_place, 0},
    {SQL_PURGE_PULL_CLIENTS, add_nothing, 0},
    {SQL_PURGE_CALLBACKS, add_days, 5000},
    {SQL_PURGE_BATCHES, add_days_and_place, 0},
    {SQL_PURGE_WORKERS, add_days, 5000},
    {SQL_PURGE_UNUSED_WORKERS, add_days_and_place, 0},
    {SQL_PURGE_WORKER_COMMANDS, add_nothing, 0},
    {SQL_CLOCK_FORGET, add_nothing, 0},
    {SQL_PURGE_MANAGERS, add_days, 0},
    {SQL_PURGE_METRICS, add_nothing, 0},
    {SQL_PURGE_IDENTITIES, add_nothing, 0},
    {SQL_PURGE_EXECUTIONS, add_nothing, 0},
    {SQL_PURGE_ACTIVITY, add_nothing, 5000},
    {SQL_PURGE_DEPTHS, add_nothing, 5000},
    {SQL_PURGE_ROUTES, add_days_and_place, 0},
    {SQL_PURGE_PIPELINES, add_days_and_place, 0},
};

enum { STEPS = sizeof steps / sizeof *steps };

static_assert((int)STEPS <= (int)MAINTENANCE_STEPS_MAX, "each has a place");

/* Reads how many rows of a page were deleted, and the page's end; if its id is null, the scan restarts next time.
 * Returns true if there may be more to do now. */
static bool page_done(struct store_place *place, const PGresult *rows)
{
	*place = row_null(rows, 0, 2) ? (struct store_place){0}
	                              : (struct store_place){row_time(rows, 0, 1), row_int8(rows, 0, 2)};
	return place->id && row_int8(rows, 0, 0) > 0;
}

static void maintenance_step(struct role *role);

/* Reads the answers of the steps that drop a partition whose day has ended: find it, delete its tasks' attempts and
 * events in pages, drop it; and of the step before, which moves rows of such days out of the default partition. Returns
 * true if there is another page to delete. */
static bool drops_history(struct store_maintenance *op, enum sql_id statement, const PGresult *rows)
{
	switch (statement) {
	case SQL_HISTORY_TAKE_OVER: op->more |= row_bool(rows, 0, 0); return false;
	case SQL_HISTORY_OVER:
		op->after = 0;
		snprintf(op->partition, sizeof op->partition, "%s", PQntuples(rows) ? row_text(rows, 0, 0) : "");
		return false;
	case SQL_HISTORY_FORGET: op->after = row_null(rows, 0, 0) ? 0 : row_int8(rows, 0, 0); return op->after > 0;
	case SQL_HISTORY_DROP_PARTITION:
		log_info("maintenance", "dropped the history's partition %s", op->partition);
		op->more = true;
		return false;
	default: return false;
	}
}

static bool needs_partition(enum sql_id statement)
{
	return statement == SQL_HISTORY_FORGET || statement == SQL_HISTORY_DROP_PARTITION;
}

static void on_step(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	struct store_maintenance *op = BATCH_OP(role, struct store_maintenance, 0);
	if (result->kind == CONN_LOST) {
		role_refused(role, result);
		return;
	}
	const struct step *step = &steps[op->step];
	if (result->kind == CONN_REFUSED) { /* a failed step does not stop the others; it is tried again next time */
		log_warn("maintenance", "%s: %s", sql_statements[step->statement].name, result->message);
		*op->partition = 0;
	} else if (step->add == add_days_and_place) {
		op->more |= page_done(&role->store->places[op->step], result->rows);
	} else if (step->full && atoi(PQcmdTuples((PGresult *)result->rows)) >= step->full) {
		op->more = true;
	} else if (drops_history(op, step->statement, result->rows)) {
		maintenance_step(role);
		return;
	}
	op->step++;
	maintenance_step(role);
}

static void maintenance_step(struct role *role)
{
	struct store_maintenance *op = BATCH_OP(role, struct store_maintenance, 0);
	if (!*op->partition)
		while (op->step < STEPS && needs_partition(steps[op->step].statement))
			op->step++;
	if (op->step == STEPS) {
		role_done(role);
		return;
	}
	steps[op->step].add(role);
	role_try(role, steps[op->step].statement, on_step);
}

static void maintenance_start(struct role *role)
{
	struct store_maintenance *op = BATCH_OP(role, struct store_maintenance, 0);
	op->step = 0;
	op->more = false;
	*op->partition = 0;
	maintenance_step(role);
}

void store_maintenance(struct store *store, struct store_maintenance *op)
{
	static const struct op_kind kind = {.name = "maintenance", .start = maintenance_start};
	store_give(store, ROLE_MAINTENANCE, &kind, &op->op, 1, 0);
}
