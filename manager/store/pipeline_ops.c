/* Pipeline operations: defining, reading, and looking up the first stages for new tasks. */
#include "manager/store/internal.h"

#include <stdlib.h>

/* Reads the columns that pipeline_define and pipeline_list have in common. */
static struct store_pipeline pipeline_row(const PGresult *rows, int row)
{
	return (struct store_pipeline){
	    .id = row_int8(rows, row, 0),
	    .name = row_text(rows, row, 1),
	    .stages = row_text(rows, row, 2),
	    .max_steps = row_int4(rows, row, 3),
	    .source = row_text(rows, row, 4),
	    .created_us = row_time(rows, row, 5),
	};
}

static void on_defined(struct role *role, const PGresult *rows)
{
	struct store_pipeline_define *op = BATCH_OP(role, struct store_pipeline_define, 0);
	op->pipeline = pipeline_row(rows, 0);
	op->changed = row_bool(rows, 0, 6);
	role_done(role);
}

static void define_start(struct role *role)
{
	const struct store_pipeline_define *op = BATCH_OP(role, struct store_pipeline_define, 0);
	params_uuid(&role->params, op->request_id);
	params_text(&role->params, op->name);
	params_text(&role->params, op->stages);
	params_int4(&role->params, op->max_steps);
	params_text(&role->params, op->actor);
	role_run(role, SQL_PIPELINE_DEFINE, on_defined);
}

void store_pipeline_define(struct store *store, struct store_pipeline_define *op)
{
	static const struct op_kind kind = {.name = "pipeline define", .start = define_start};
	store_give(store, ROLE_EDIT, &kind, &op->op, 1, 0);
}

static void on_listed(struct role *role, const PGresult *rows)
{
	struct store_pipelines *op = BATCH_OP(role, struct store_pipelines, 0);
	op->count = PQntuples(rows);
	op->pipelines = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->pipelines);
	for (int row = 0; row < op->count; row++)
		op->pipelines[row] = pipeline_row(rows, row);
	op->more = op->count && row_bool(rows, 0, 6);
	role_done(role);
}

static void list_start(struct role *role)
{
	const struct store_pipelines *op = BATCH_OP(role, struct store_pipelines, 0);
	params_text(&role->params, op->name);
	params_text(&role->params, op->after_name);
	params_int8(&role->params, op->limit);
	params_int8(&role->params, op->max_bytes);
	role_run(role, SQL_PIPELINE_LIST, on_listed);
}

void store_pipelines(struct store *store, struct store_pipelines *op)
{
	static const struct op_kind kind = {.name = "pipelines", .start = list_start};
	store_give(store, ROLE_POLL, &kind, &op->op, 1, 0);
}

static void on_started(struct role *role, const PGresult *rows)
{
	struct store_pipelines_start *op = BATCH_OP(role, struct store_pipelines_start, 0);
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
	role_run(role, SQL_PIPELINE_START, on_started);
}

void store_pipelines_start(struct store *store, struct store_pipelines_start *op)
{
	static const struct op_kind kind = {.name = "pipelines start", .start = start_start};
	store_give(store, ROLE_ROUTES, &kind, &op->op, ROUTES_WEIGHT, 0);
}
