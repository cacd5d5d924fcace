/* Queue operations of the core: the settings that it uses, and stops. */
#include "common/limits.h"
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const states[] = {
    [STORE_QUEUE_RUNNING] = "running",
    [STORE_QUEUE_NOT_STARTED] = "not_started",
    [STORE_QUEUE_PAUSED] = "paused",
    [STORE_QUEUE_STOPPING] = "stopping",
    [STORE_QUEUE_STOPPED] = "stopped",
};

static enum store_queue_state state_of(const char *name)
{
	for (size_t i = 0; i < sizeof states / sizeof *states; i++)
		if (!strcmp(states[i], name))
			return (enum store_queue_state)i;
	return STORE_QUEUE_RUNNING;
}

static int64_t or_else(const PGresult *rows, int row, int column, int64_t otherwise)
{
	return row_null(rows, row, column) ? otherwise : row_int8(rows, row, column);
}

static void on_loaded(struct role *role, const PGresult *rows)
{
	struct store_queues *op = BATCH_OP(role, struct store_queues, 0);
	op->queues = role->state = mem_calloc((size_t)PQntuples(rows) + 1, sizeof *op->queues);
	op->count = 0;
	for (int row = 0; row < PQntuples(rows); row++) {
		snprintf(op->fingerprint, sizeof op->fingerprint, "%s", row_text(rows, row, 11));
		if (row_null(rows, row, 0))
			continue;
		op->queues[op->count++] = (struct store_queue){
		    .name = row_text(rows, row, 0),
		    .state = state_of(row_text(rows, row, 1)),
		    .batches = row_bool(rows, row, 2),
		    .autostart = row_bool(rows, row, 3),
		    .verbose = row_bool(rows, row, 4),
		    .max_attempts = row_null(rows, row, 5) ? DEFAULT_ATTEMPTS : row_int4(rows, row, 5),
		    .retry_base_ms = or_else(rows, row, 6, DEFAULT_RETRY_BASE_MS),
		    .retry_max_ms = or_else(rows, row, 7, DEFAULT_RETRY_MAX_MS),
		    .retry_policy = row_null(rows, row, 8) ? NULL : row_text(rows, row, 8),
		    .resting_ms = row_int8(rows, row, 9),
		    .waiting_ms = row_int8(rows, row, 10),
		    .limited = !row_null(rows, row, 12),
		    .max_running = row_null(rows, row, 12) ? 0 : row_int4(rows, row, 12),
		    .waiting_left_ms = or_else(rows, row, 13, 0),
		    .priority = row_null(rows, row, 14) ? 0 : row_int4(rows, row, 14),
		    .timeout_ms = or_else(rows, row, 15, DEFAULT_TIMEOUT_MS),
		};
	}
	role_done(role);
}

static void load_start(struct role *role)
{
	role_run(role, SQL_QUEUES_LOAD, on_loaded);
}

void store_queues(struct store *store, struct store_queues *op)
{
	static const struct op_kind kind = {.name = "queues", .start = load_start};
	store_give(store, ROLE_ROUTES, &kind, &op->op, ROUTES_WEIGHT, 0);
}

static void on_rooms(struct role *role, const PGresult *rows)
{
	struct store_rooms *op = BATCH_OP(role, struct store_rooms, 0);
	op->count = PQntuples(rows);
	op->rooms = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->rooms);
	for (int row = 0; row < op->count; row++)
		op->rooms[row] = (struct store_queue_room){row_text(rows, row, 0), row_int4(rows, row, 1)};
	role_done(role);
}

static void rooms_start(struct role *role)
{
	role_run(role, SQL_LIMITS_ROOM, on_rooms);
}

void store_rooms(struct store *store, struct store_rooms *op)
{
	static const struct op_kind kind = {.name = "limits", .start = rooms_start};
	store_give(store, ROLE_ROUTES, &kind, &op->op, ROUTES_WEIGHT, 0);
}

/* --- stops -------------------------------------------------------------------------------------------------------- */

static void on_stops(struct role *role, const PGresult *rows)
{
	struct store_queue_stops *op = BATCH_OP(role, struct store_queue_stops, 0);
	op->count = PQntuples(rows);
	op->work = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->work);
	for (int row = 0; row < op->count; row++)
		op->work[row] = (struct store_stop_work){
		    .queue = row_text(rows, row, 0),
		    .up_to = row_int8(rows, row, 1),
		    .actor = row_text(rows, row, 2),
		};
	role_done(role);
}

static void stops_start(struct role *role)
{
	role_run(role, SQL_QUEUE_STOPS, on_stops);
}

void store_queue_stops(struct store *store, struct store_queue_stops *op)
{
	static const struct op_kind kind = {.name = "queue stops", .start = stops_start};
	store_give(store, ROLE_EDIT, &kind, &op->op, 1, 0);
}
