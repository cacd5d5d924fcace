/* Management of schedules: adding, editing, controlling, listing, manual runs. For firings see schedule_ops.c. */
#include "manager/store/internal.h"

#include <stdlib.h>

static const char *text_or_null(const PGresult *rows, int row, int column)
{
	return row_null(rows, row, column) ? NULL : row_text(rows, row, column);
}

/* --- definitions -------------------------------------------------------------------------------------------------- */

enum { SCHEDULED_COLUMN = 21 };

/* Reads the columns of schedule_list. */
static struct store_schedule schedule_row(const PGresult *r, int row)
{
	int c = 0;
	struct store_schedule s = {0};
	s.name = row_text(r, row, c++);
	s.cron = text_or_null(r, row, c++);
	s.zone = row_text(r, row, c++);
	s.every_ms = row_int8(r, row, c++);
	s.start_us = row_time(r, row, c++);
	s.spec = text_or_null(r, row, c++);
	s.queue_action = text_or_null(r, row, c++);
	s.action_queue = text_or_null(r, row, c++);
	s.catch_up = row_text(r, row, c++);
	s.max_catch_up = row_int4(r, row, c++);
	s.concurrency_policy = row_text(r, row, c++);
	s.paused = row_bool(r, row, c++);
	s.next_us = row_time(r, row, c++);
	s.last_scheduled_us = row_time(r, row, c++);
	s.last_us = row_time(r, row, c++);
	s.last_outcome = text_or_null(r, row, c++);
	s.last_task_id = row_int8(r, row, c++);
	s.waits_for = row_int8(r, row, c++);
	s.source = row_text(r, row, c++);
	s.created_us = row_time(r, row, c++);
	s.updated_us = row_time(r, row, c++);
	return s;
}

/* Returns the number of scheduled times in all rows. */
static size_t scheduled_in(const PGresult *rows)
{
	const char *data;
	size_t count = 0;
	for (int row = 0; row < PQntuples(rows); row++)
		count += (size_t)row_array(rows, row, SCHEDULED_COLUMN, &data);
	return count;
}

/* Puts the schedules into one block of memory, followed by their scheduled times. */
static void on_read(struct role *role, const PGresult *rows)
{
	struct store_schedules *op = BATCH_OP(role, struct store_schedules, 0);
	op->count = PQntuples(rows);
	free(role->state);
	role->state = mem_calloc(1, sizeof *op->schedules * (size_t)(op->count + 1) + sizeof(int64_t) * scheduled_in(rows));
	op->schedules = role->state;
	op->more = op->count && op->call == STORE_SCHEDULE_LIST && row_bool(rows, 0, SCHEDULED_COLUMN + 1);
	int64_t *scheduled = (int64_t *)(op->schedules + op->count + 1);
	for (int row = 0; row < op->count; row++) {
		const char *data = NULL;
		struct store_schedule *s = &op->schedules[row];
		*s = schedule_row(rows, row);
		s->scheduled_us = scheduled;
		s->scheduled_count = row_array(rows, row, SCHEDULED_COLUMN, &data);
		for (int i = 0; i < s->scheduled_count; i++)
			*scheduled++ = pgtime_to_us(row_array_int8(&data));
	}
	role_done(role);
}

static void on_changed(struct role *role, const PGresult *rows)
{
	(void)rows;
	params_text(&role->params, BATCH_OP(role, struct store_schedules, 0)->name);
	params_int4(&role->params, 0);
	role_run(role, SQL_SCHEDULE_GET, on_read);
}

static void change_start(struct role *role)
{
	static const enum sql_id statements[] = {
	    [STORE_SCHEDULE_ADD] = SQL_SCHEDULE_ADD,
	    [STORE_SCHEDULE_EDIT] = SQL_SCHEDULE_EDIT,
	    [STORE_SCHEDULE_CONTROL] = SQL_SCHEDULE_CONTROL,
	};
	const struct store_schedules *op = BATCH_OP(role, struct store_schedules, 0);
	params_uuid(&role->params, op->request_id);
	params_text(&role->params, op->name);
	params_text(&role->params, op->change);
	params_text(&role->params, op->actor);
	role_run(role, statements[op->call], on_changed);
}

static void read_start(struct role *role)
{
	const struct store_schedules *op = BATCH_OP(role, struct store_schedules, 0);
	params_text(&role->params, op->name);
	if (op->call == STORE_SCHEDULE_GET) {
		params_int4(&role->params, op->limit);
	} else {
		params_int8(&role->params, op->limit);
		params_int8(&role->params, op->max_bytes);
	}
	role_run(role, op->call == STORE_SCHEDULE_GET ? SQL_SCHEDULE_GET : SQL_SCHEDULE_LIST, on_read);
}

void store_schedules(struct store *store, struct store_schedules *op)
{
	static const struct op_kind change = {.name = "schedule change", .start = change_start};
	static const struct op_kind reading = {.name = "schedules", .start = read_start};
	if (op->request_id)
		store_give(store, ROLE_EDIT, &change, &op->op, 1, op->change ? strlen(op->change) : 0);
	else
		store_give(store, ROLE_POLL, &reading, &op->op, 1, 256);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Returns the maximum of runs to read. It is small because each run's task is searched in every partition of the
 * history. */
static int runs_limit(const struct store_schedule_runs *op)
{
	enum { RUNS_PAGE = 200 };
	return op->limit < RUNS_PAGE ? op->limit : RUNS_PAGE;
}

static void on_runs(struct role *role, const PGresult *rows)
{
	const PGresult *r = rows;
	struct store_schedule_runs *op = BATCH_OP(role, struct store_schedule_runs, 0);
	op->count = PQntuples(r);
	op->runs = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->runs);
	for (int row = 0; row < op->count; row++) {
		int c = 0;
		struct store_schedule_run *run = &op->runs[row];
		run->id = row_int8(r, row, c++);
		run->scheduled_us = row_time(r, row, c++);
		run->at_us = row_time(r, row, c++);
		run->outcome = row_text(r, row, c++);
		run->task_id = row_int8(r, row, c++);
		run->task_status = row_text(r, row, c++);
		run->actor = row_text(r, row, c++);
		run->note = row_text(r, row, c++);
	}
	if (op->count && op->count == runs_limit(op))
		op->next_before = op->runs[op->count - 1].id;
	role_done(role);
}

static void runs_start(struct role *role)
{
	const struct store_schedule_runs *op = BATCH_OP(role, struct store_schedule_runs, 0);
	struct params *p = &role->params;
	if (op->request_id) {
		params_uuid(p, op->request_id);
		params_text(p, op->name);
		params_text(p, op->actor);
	} else {
		params_text(p, op->name);
		params_int8(p, op->before);
		params_int8(p, runs_limit(op));
	}
	role_run(role, op->request_id ? SQL_SCHEDULE_RUN : SQL_SCHEDULE_RUNS, on_runs);
}

void store_schedule_runs(struct store *store, struct store_schedule_runs *op)
{
	static const struct op_kind run = {.name = "schedule run", .start = runs_start};
	static const struct op_kind list = {.name = "schedule runs", .start = runs_start};
	store_give(store, op->request_id ? ROLE_EDIT : ROLE_POLL, op->request_id ? &run : &list, &op->op, 1, 0);
}
