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
