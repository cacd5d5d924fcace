/* Looks up the first stages of pipelines for new tasks. */
#include "manager/store/store_internal.h"

#include <stdlib.h>

static void on_started(struct role *role, const PGresult *rows)
{
	struct store_pipelines_start *op = BATCH_OP(role, struct store_pipelines_start, 0);
	op->repeated = op->count && !PQntuples(rows);
	op->starts = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->starts);
	for (int row = 0; row < PQntuples(rows) && row < op->count; row++)
		op->starts[row] = (struct store_pipeline_start){
		    .pipeline_id = row_int8(rows, row, 0),
		    .stage = row_text(rows, row, 1),
		    .type = row_text(rows, row, 2),
		    .has_priority = !row_null(rows, row, 3),
		    .priority = row_int4(rows, row, 3),
		    .max_attempts = row_int4(rows, row, 4),
		    .timeout_ms = row_int8(rows, row, 5),
		    .retry_base_ms = row_int8(rows, row, 6),
		    .retry_max_ms = row_int8(rows, row, 7),
		    .retry_policy = row_null(rows, row, 8) ? NULL : row_text(rows, row, 8),
		    .queue = row_null(rows, row, 9) ? NULL : row_text(rows, row, 9),
		};
	role_done(role);
}

static void start_start(struct role *role)
{
	const struct store_pipelines_start *op = BATCH_OP(role, struct store_pipelines_start, 0);
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int i = 0; i < op->count; i++)
		params_add_text(&role->params, op->names[i]);
	params_array_end(&role->params);
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int i = 0; i < op->count; i++)
		params_add_text(&role->params, op->queues[i]);
	params_array_end(&role->params);
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int i = 0; i < op->count; i++)
		params_add_text(&role->params, op->stages[i]);
	params_array_end(&role->params);
	params_uuid(&role->params, op->request_id);
	role_run(role, SQL_PIPELINE_START, on_started);
}

void store_pipelines_start(struct store *store, struct store_pipelines_start *op)
{
	static const struct op_kind kind = {.name = "pipelines start", .start = start_start};
	store_give(store, ROLE_ROUTES, &kind, &op->op, ROUTES_WEIGHT, 0);
}
