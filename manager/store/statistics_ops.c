/* Statistics of executions, and metrics. SQL functions do the work. */
#include "manager/store/store_internal.h"

#include <stdio.h>

/* --- executions -------------------------------------------------------------------------------------------------- */

static void on_rolled(struct role *role, const PGresult *rows)
{
	BATCH_OP(role, struct store_roll, 0)->more = row_bool(rows, 0, 0);
	role_done(role);
}

static void on_folded(struct role *role, const PGresult *rows)
{
	struct store_fold *op = BATCH_OP(role, struct store_fold, 0);
	op->more = row_bool(rows, 0, 0);
	op->callbacks = row_bool(rows, 0, 1);
	op->inbox = row_bool(rows, 0, 2);
	role_done(role);
}

static void fold_start(struct role *role)
{
	role_run(role, SQL_COUNTS_FOLD, on_folded);
}

static void roll_start(struct role *role)
{
	role_run(role, SQL_EXECUTIONS_ROLL, on_rolled);
}

void store_roll(struct store *store, struct store_roll *op)
{
	static const struct op_kind kind = {.name = "executions", .start = roll_start};
	store_give(store, ROLE_MAINTENANCE, &kind, &op->op, 1, 0);
}

void store_fold(struct store *store, struct store_fold *op)
{
	static const struct op_kind kind = {.name = "counts", .start = fold_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}

/* --- metrics ----------------------------------------------------------------------------------------------------- */

static void own_start(struct role *role)
{
	const struct store_metrics_own *op = BATCH_OP(role, struct store_metrics_own, 0);
	struct params *p = &role->params;
	params_int8(p, role->store->manager_id);
	params_text(p, role->store->options.manager_name);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < op->count; i++)
		params_add_text(p, op->counters[i].name);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < op->count; i++)
		params_add_int8(p, op->counters[i].value);
	params_array_end(p);
	role_run(role, SQL_METRICS_OWN, role_on_done);
}

void store_metrics_own(struct store *store, struct store_metrics_own *op)
{
	static const struct op_kind kind = {.name = "own counters", .start = own_start};
	store_give(store, ROLE_MAINTENANCE, &kind, &op->op, 1, 0);
}

/* --- activity ---------------------------------------------------------------------------------------------------- */

static void add_numbers(struct params *p, const struct store_activity *op, size_t offset)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < op->count; i++)
		params_add_int8(p, *(const int64_t *)((const char *)&op->rows[i] + offset));
	params_array_end(p);
}

static void add_buckets(struct params *p, const struct store_activity *op, size_t offset)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < op->count; i++)
		for (int k = 0; k < op->buckets; k++)
			params_add_int8(p, (*(const int64_t *const *)((const char *)&op->rows[i] + offset))[k]);
	params_array_end(p);
}

static void activity_start(struct role *role)
{
	static const size_t numbers[] = {
	    offsetof(struct store_activity_row, submitted),
	    offsetof(struct store_activity_row, begun),
	    offsetof(struct store_activity_row, completed),
	    offsetof(struct store_activity_row, failed),
	    offsetof(struct store_activity_row, retried),
	    offsetof(struct store_activity_row, dead),
	    offsetof(struct store_activity_row, ended),
	    offsetof(struct store_activity_row, waited_us),
	    offsetof(struct store_activity_row, took_us),
	};
	const struct store_activity *op = BATCH_OP(role, struct store_activity, 0);
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < op->count; i++)
		params_add_int8(p, op->rows[i].route);
	params_array_end(p);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		add_numbers(p, op, numbers[i]);
	params_int4(p, op->buckets);
	add_buckets(p, op, offsetof(struct store_activity_row, waited));
	add_buckets(p, op, offsetof(struct store_activity_row, took));
	role_run(role, SQL_ACTIVITY_ADD, role_on_done);
}

void store_activity(struct store *store, struct store_activity *op)
{
	static const struct op_kind kind = {.name = "activity", .start = activity_start, .reports_unknown = true};
	store_give(store, ROLE_MAINTENANCE, &kind, &op->op, 1, 0);
}

static void depths_start(struct role *role)
{
	params_int4(&role->params, BATCH_OP(role, struct store_depths, 0)->queues);
	role_run(role, SQL_DEPTHS_SAMPLE, role_on_done);
}

void store_depths(struct store *store, struct store_depths *op)
{
	static const struct op_kind kind = {.name = "depths", .start = depths_start};
	store_give(store, ROLE_MAINTENANCE, &kind, &op->op, 1, 0);
}

/* --- the numbers of all managers ------------------------------------------------------------------------------------
 */

static void on_fleet(struct role *role, const PGresult *rows)
{
	struct store_fleet *op = BATCH_OP(role, struct store_fleet, 0);
	int count = PQntuples(rows);
	struct store_fleet_row *found = role->state = mem_calloc((size_t)count + 1, sizeof *found);
	for (int i = 0; i < count; i++)
		found[i] = (struct store_fleet_row){row_text(rows, i, 0), row_text(rows, i, 1), row_text(rows, i, 2),
		    row_text(rows, i, 3), row_float8(rows, i, 4)};
	op->rows = found;
	op->count = count;
	role_done(role);
}

static void fleet_start(struct role *role)
{
	const struct store_fleet *op = BATCH_OP(role, struct store_fleet, 0);
	params_int8(&role->params, op->routes);
	params_int8(&role->params, role->store->options.lease_ms);
	role_run(role, SQL_FLEET, on_fleet);
}

void store_fleet(struct store *store, struct store_fleet *op)
{
	static const struct op_kind kind = {.name = "numbers for /metrics", .start = fleet_start};
	store_give(store, ROLE_POLL, &kind, &op->op, 1, 0);
}
