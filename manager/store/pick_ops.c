/* Finds the tasks that match the filter of a Fetch. */
#include "manager/store/bind.h"
#include "manager/store/store_internal.h"

#include <stdlib.h>

static void on_picked(struct role *role, const PGresult *rows)
{
	struct store_pick *op = BATCH_OP(role, struct store_pick, 0);
	op->count = PQntuples(rows);
	op->picked = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->picked);
	for (int row = 0; row < op->count; row++)
		op->picked[row] = (struct store_picked){
		    .id = row_int8(rows, row, 0),
		    .version = row_time(rows, row, 1),
		    .bytes = row_int4(rows, row, 2),
		    .route = row_int4(rows, row, 3),
		};
	role_done(role);
}

static void pick_start(struct role *role)
{
	const struct store_pick *op = BATCH_OP(role, struct store_pick, 0);
	bind_params(&role->params, SQL_FETCH_WHERE, op->request,
	    &(struct bind_values){.max_details = op->max_details, .estimate_us = op->estimate_us});
	role_run(role, SQL_FETCH_WHERE, on_picked);
}

void store_pick(struct store *store, struct store_pick *op)
{
	static const struct op_kind kind = {.name = "fetch by a filter", .start = pick_start};
	store_give(store, ROLE_POLL, &kind, &op->op, 1, 0);
}
