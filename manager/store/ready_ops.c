/* Reads of the ready cache: pages of candidates, late tasks, streams; and routes. */
#include "manager/store/store_internal.h"

#include <stdlib.h>

/* Gives each page of the batch its rows, which come page by page. A negative id is the task of another shard; id 0
 * has the time of the first task that is not due yet. */
static void on_page(struct role *role, const PGresult *rows)
{
	int row_count = PQntuples(rows), at = 0, row = 0;
	struct store_candidate *candidates = role->state = mem_malloc(sizeof *candidates * (size_t)(row_count + 1));
	for (int i = 0; i < role->count; i++) {
		struct store_page *op = BATCH_OP(role, struct store_page, i);
		op->candidates = &candidates[at];
		op->count = 0;
		op->other = (struct store_candidate){0};
		op->next_due_us = STORE_TIME_NEVER;
		for (; row < row_count && row_int4(rows, row, 4) == i + 1; row++) {
			struct store_candidate c = {
			    .id = row_int8(rows, row, 0),
			    .version = row_time(rows, row, 1),
			    .run_at_us = row_time(rows, row, 2),
			    .bytes = row_int4(rows, row, 3),
			};
			if (c.id > 0) {
				op->candidates[op->count++] = c;
				at++;
			} else if (c.id < 0) {
				op->other = c;
				op->other.id = -c.id;
			} else {
				op->next_due_us = c.run_at_us;
			}
		}
	}
	role_done(role);
}

static void page_start(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_page, route, INT4),
	    COLUMN(struct store_page, priority, INT4),
	    COLUMN(struct store_page, after_run_at_us, TIME),
	    COLUMN(struct store_page, after_id, INT8),
	    COLUMN(struct store_page, due_us, TIME),
	    COLUMN(struct store_page, limit, INT4),
	    COLUMN(struct store_page, shards, INT4),
	    COLUMN(struct store_page, shard, INT4),
	    COLUMN(struct store_page, other_bytes, INT8),
	};
	for (int i = 0; i < role->count; i++)
		BATCH_OP(role, struct store_page, i)->more_follow = i + 1 < role->count;
	BATCH_COLUMNS(role, columns);
	role_run(role, SQL_READY_PAGE, on_page);
}

static bool page_joins(const struct role *role, const struct store_op *op)
{
	return !((const struct store_page *)op)->alone && !BATCH_OP(role, struct store_page, 0)->alone;
}

void store_page(struct store *store, struct store_page *op)
{
	static const struct op_kind kind = {.name = "ready page", .start = page_start, .joins = page_joins};
	store_give(store, ROLE_READY, &kind, &op->op, op->limit ? op->limit : 1, 0);
}

static void on_rescanned(struct role *role, const PGresult *rows)
{
	struct store_rescan *op = BATCH_OP(role, struct store_rescan, 0);
	op->count = PQntuples(rows);
	op->candidates = role->state = mem_malloc(sizeof *op->candidates * (size_t)(op->count + 1));
	for (int row = 0; row < op->count; row++)
		op->candidates[row] = (struct store_candidate){
		    .id = row_int8(rows, row, 0),
		    .version = row_time(rows, row, 1),
		    .run_at_us = row_time(rows, row, 2),
		    .bytes = row_int4(rows, row, 3),
		};
	role_done(role);
}

static void rescan_start(struct role *role)
{
	struct store_rescan *op = BATCH_OP(role, struct store_rescan, 0);
	struct params *p = &role->params;
	params_int4(p, op->route);
	params_int4(p, op->priority);
	params_time(p, op->after_run_at_us);
	params_int8(p, op->after_id);
	params_time(p, op->until_us);
	params_int8(p, op->limit);
	role_run(role, SQL_READY_LATE, on_rescanned);
}

void store_rescan(struct store *store, struct store_rescan *op)
{
	static const struct op_kind kind = {.name = "late tasks", .start = rescan_start};
	store_give(store, ROLE_READY, &kind, &op->op, READY_WEIGHT, 0);
}

static void on_streams(struct role *role, const PGresult *rows)
{
	struct store_streams *op = BATCH_OP(role, struct store_streams, 0);
	op->found = PQntuples(rows);
	role->state = mem_malloc(sizeof *op->streams * (size_t)(op->found + 1));
	op->streams = role->state;
	for (int row = 0; row < op->found; row++)
		op->streams[row] =
		    (struct store_stream){row_int4(rows, row, 0), row_int4(rows, row, 1), row_time(rows, row, 2)};
	role_done(role);
}

static void streams_start(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN_LIST(struct store_streams, routes, count, INT4),
	    COLUMN_LIST(struct store_streams, below, count, INT4),
	};
	struct store_streams *op = BATCH_OP(role, struct store_streams, 0);
	struct params *p = &role->params;
	BATCH_COLUMNS(role, columns);
	params_int4(p, op->max);
	role_run(role, SQL_READY_STREAMS, on_streams);
}

void store_streams(struct store *store, struct store_streams *op)
{
	static const struct op_kind kind = {.name = "ready streams", .start = streams_start};
	store_give(store, ROLE_READY, &kind, &op->op, READY_WEIGHT, 0);
}

/* Gives each operation all routes of the batch: known routes do no harm. */
static void on_routes(struct role *role, const PGresult *rows)
{
	int found = PQntuples(rows);
	struct store_route *routes = role->state = mem_malloc(sizeof *routes * (size_t)(found + 1));
	for (int row = 0; row < found; row++)
		routes[row] = (struct store_route){row_int4(rows, row, 0), row_text(rows, row, 1), row_text(rows, row, 2)};
	for (int i = 0; i < role->count; i++) {
		BATCH_OP(role, struct store_routes, i)->routes = routes;
		BATCH_OP(role, struct store_routes, i)->found = found;
	}
	role_done(role);
}

static void routes_names(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN_LIST(struct store_routes, queues, count, TEXT),
	    COLUMN_LIST(struct store_routes, types, count, TEXT),
	};
	BATCH_COLUMNS(role, columns);
}

/* An id is null if another transaction was just creating the route: it exists now, and is read. */
static void on_routes_added(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++)
		if (row_null(rows, row, 0)) {
			routes_names(role);
			role_run(role, SQL_ROUTES_FIND, on_routes);
			return;
		}
	on_routes(role, rows);
}

static void routes_start(struct role *role)
{
	if (BATCH_OP(role, struct store_routes, 0)->count) {
		routes_names(role);
		role_run(role, SQL_ROUTES_ADD, on_routes_added);
	} else {
		role_run(role, SQL_ROUTES_LOAD, on_routes);
	}
}

/* Operations that create routes do not join those that read all. */
static bool routes_join(const struct role *role, const struct store_op *op)
{
	return !((const struct store_routes *)op)->count == !BATCH_OP(role, struct store_routes, 0)->count;
}

void store_routes(struct store *store, struct store_routes *op)
{
	static const struct op_kind kind = {.name = "routes", .start = routes_start, .joins = routes_join};
	store_give(store, ROLE_ROUTES, &kind, &op->op, op->count ? op->count : 1, 0);
}
