/* Callback operations: taking due callbacks, reading their bodies, recording the outcomes of tries. */
#include "manager/store/store_internal.h"

#include <stdlib.h>

/* A weight that fills a batch: takes and reports run alone, while many outcomes are recorded together. */
enum { ALONE = CALLBACKS_AT_ONCE };

static const char *text_or_null(const PGresult *rows, int row, int column)
{
	return row_null(rows, row, column) ? NULL : row_text(rows, row, column);
}

static void on_taken(struct role *role, const PGresult *rows)
{
	struct store_callbacks_take *op = BATCH_OP(role, struct store_callbacks_take, 0);
	op->count = PQntuples(rows);
	op->callbacks = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->callbacks);
	for (int row = 0; row < op->count; row++)
		op->callbacks[row] = (struct store_callback){
		    .id = row_int8(rows, row, 0),
		    .batch_id = row_int8(rows, row, 1),
		    .task_id = row_int8(rows, row, 2),
		    .event = row_text(rows, row, 3),
		    .url = row_text(rows, row, 4),
		    .site = row_text(rows, row, 5),
		    .secret = text_or_null(rows, row, 6),
		    .payload = text_or_null(rows, row, 7),
		    .attempt = row_int4(rows, row, 8),
		    .take = row_int4(rows, row, 9),
		};
	role_done(role);
}

static void take_start(struct role *role)
{
	const struct store_callbacks_take *op = BATCH_OP(role, struct store_callbacks_take, 0);
	struct params *p = &role->params;
	params_int4(p, op->limit);
	params_int4(p, op->site_limit);
	params_int8(p, op->lease_ms);
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < op->site_count; i++)
		params_add_text(p, op->sites[i].site);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < op->site_count; i++)
		params_add_int4(p, op->sites[i].count);
	params_array_end(p);
	params_time_or_null(p, op->now_us);
	role_run(role, SQL_CALLBACKS_TAKE, on_taken);
}

void store_callbacks_take(struct store *store, struct store_callbacks_take *op)
{
	static const struct op_kind kind = {.name = "take callbacks", .start = take_start, .reports_unknown = true};
	store_give(store, ROLE_CALLBACKS, &kind, &op->op, ALONE, 0);
}

static void on_reported(struct role *role, const PGresult *rows)
{
	struct store_callback_report *op = BATCH_OP(role, struct store_callback_report, 0);
	op->body = PQntuples(rows) ? row_text(rows, 0, 0) : NULL;
	role_done(role);
}

static void report_start(struct role *role)
{
	const struct store_callback_report *op = BATCH_OP(role, struct store_callback_report, 0);
	params_int8(&role->params, op->batch_id);
	params_text(&role->params, op->event);
	role_run(role, SQL_CALLBACKS_REPORT, on_reported);
}

void store_callback_report(struct store *store, struct store_callback_report *op)
{
	static const struct op_kind kind = {.name = "report callback", .start = report_start};
	store_give(store, ROLE_CALLBACKS, &kind, &op->op, ALONE, 0);
}

/* --- outcomes -------------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	int64_t x = (*(struct store_callback_finish *const *)a)->id, y = (*(struct store_callback_finish *const *)b)->id;
	return (x > y) - (x < y);
}

static void on_finished(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++)
		for (int i = 0; i < role->count; i++)
			if (BATCH_OP(role, struct store_callback_finish, i)->id == row_int8(rows, row, 0))
				BATCH_OP(role, struct store_callback_finish, i)->changed = true;
	role_done(role);
}

#define ADD_ALL(type, add, value)                                                                                      \
	params_array_begin(p, type);                                                                                       \
	for (int i = 0; i < role->count; i++) {                                                                            \
		const struct store_callback_finish *op = BATCH_OP(role, struct store_callback_finish, i);                      \
		add(p, value);                                                                                                 \
	}                                                                                                                  \
	params_array_end(p)

static void add_text_or_null(struct params *p, const char *text)
{
	if (text)
		params_add_text(p, text);
	else
		params_add_null(p);
}

static void add_status(struct params *p, int32_t status)
{
	if (status)
		params_add_int4(p, status);
	else
		params_add_null(p);
}

static void finish_start(struct role *role)
{
	struct params *p = &role->params;
	qsort(role->batch, (size_t)role->count, sizeof *role->batch, by_id);
	for (int i = 0; i < role->count; i++)
		BATCH_OP(role, struct store_callback_finish, i)->changed = false;
	ADD_ALL(PARAMS_INT8, params_add_int8, op->id);
	ADD_ALL(PARAMS_INT4, params_add_int4, op->take);
	ADD_ALL(PARAMS_BOOL, params_add_bool, op->delivered);
	ADD_ALL(PARAMS_BOOL, params_add_bool, op->over);
	ADD_ALL(PARAMS_INT8, params_add_int8, op->pause_ms);
	ADD_ALL(PARAMS_INT4, add_status, op->status);
	ADD_ALL(PARAMS_TEXT, add_text_or_null, op->error);
	ADD_ALL(PARAMS_INT4, params_add_int4, op->attempts);
	role_run(role, SQL_CALLBACKS_FINISH, on_finished);
}

void store_callback_finish(struct store *store, struct store_callback_finish *op)
{
	static const struct op_kind kind = {.name = "finish callback", .start = finish_start};
	store_give(store, ROLE_CALLBACKS, &kind, &op->op, 1, 64);
}
