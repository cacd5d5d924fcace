/* Firings of schedules. SQL functions do the work. */
#include "manager/store/store_internal.h"

#include <stdlib.h>

static void on_fired(struct role *role, const PGresult *rows)
{
	struct store_schedules_fire *op = BATCH_OP(role, struct store_schedules_fire, 0);
	op->count = PQntuples(rows) - 1;
	op->firings = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->firings);
	for (int row = 0; row < op->count; row++)
		op->firings[row] = (struct store_fired_task){
		    .schedule = row_int8(rows, row, 0),
		    .name = row_text(rows, row, 1),
		    .scheduled_us = row_time(rows, row, 2),
		    .scheduled = row_text(rows, row, 7),
		    .outcome = row_text(rows, row, 3),
		    .task = row_int8(rows, row, 4),
		    .note = row_text(rows, row, 5),
		    .late_us = row_int8(rows, row, 6),
		};
	op->next_us = row_null(rows, op->count, 2) ? STORE_TIME_NEVER : -row_int8(rows, op->count, 6);
	role_done(role);
}

static void fire_start(struct role *role)
{
	params_int4(&role->params, BATCH_OP(role, struct store_schedules_fire, 0)->limit);
	role_run(role, SQL_SCHEDULES_FIRE, on_fired);
}

void store_schedules_fire(struct store *store, struct store_schedules_fire *op)
{
	static const struct op_kind kind = {.name = "schedules fire", .start = fire_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}
