/*
 * Ends tasks of a queue, some at a time, in one transaction: it locks the queue against others that end its tasks,
 * locks the tasks, marks them and sets commands for their workers, and ends the waiting ones. The tasks are locked
 * before they are marked, so that waiting tasks still wait and running ones still run at that time.
 */
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

#define STOP_CODE "queue_stopped"

struct end {
	int count, waiting; /* the waiting ones come first */
	struct store_edited tasks[];
};

static struct store_queue_end *the_op(struct role *role)
{
	return BATCH_OP(role, struct store_queue_end, 0);
}

static void add_ids(struct params *p, const struct store_edited *tasks, int count)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < count; i++)
		params_add_int8(p, tasks[i].id);
	params_array_end(p);
}

static struct store_edited *find(struct end *end, int64_t id)
{
	for (int side = 0; side < 2; side++) { /* each side is in the order of ids */
		int from = side ? end->waiting : 0, to = side ? end->count : end->waiting;
		while (from < to) {
			int middle = (from + to) / 2;
			if (end->tasks[middle].id == id)
				return &end->tasks[middle];
			if (end->tasks[middle].id < id)
				from = middle + 1;
			else
				to = middle;
		}
	}
	return NULL;
}

static void on_committed(struct role *role, const PGresult *rows)
{
	(void)rows;
	struct end *end = role->state;
	the_op(role)->tasks = end ? end->tasks : NULL;
	the_op(role)->found = end ? end->count : 0;
	role_done(role);
}

static void on_waiting_ended(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(role->state, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->ended = t->changed = true;
		t->route = row_int4(rows, row, 2);
		snprintf(t->status, sizeof t->status, "%s", row_text(rows, row, 3));
	}
	role_run(role, SQL_COMMIT, on_committed);
}

static void end_waiting(struct role *role)
{
	struct end *end = role->state;
	add_ids(&role->params, end->tasks, end->waiting);
	params_int4(&role->params, role->store->options.history_days);
	params_text(&role->params, the_op(role)->reason);
	role_run(role, SQL_CANCEL_WAITING, on_waiting_ended);
}

static void on_running_marked(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(role->state, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->changed = true;
		t->commanded_worker = row_int8(rows, row, 2);
		t->token = row_time(rows, row, 3);
	}
	end_waiting(role);
}

static void mark(struct role *role, const struct store_edited *tasks, int count, const char *stop_code, role_next *next)
{
	add_ids(&role->params, tasks, count);
	params_text(&role->params, the_op(role)->actor);
	params_text(&role->params, the_op(role)->reason);
	params_text(&role->params, stop_code);
	role_run(role, SQL_CANCEL_MARK, next);
}

static void on_waiting_marked(struct role *role, const PGresult *rows)
{
	(void)rows;
	struct end *end = role->state;
	if (end->waiting < end->count)
		mark(role, end->tasks + end->waiting, end->count - end->waiting, NULL, on_running_marked);
	else
		end_waiting(role);
}

static void on_locked(struct role *role, const PGresult *rows)
{
	struct store_queue_end *op = the_op(role);
	int row_count = row_null(rows, 0, 0) ? 0 : PQntuples(rows);
	struct end *end = mem_calloc(1, sizeof *end + sizeof *end->tasks * (size_t)row_count);
	role->state = end;
	op->more = row_int4(rows, 0, 2) == op->limit;
	if (!row_count) {
		role_run(role, SQL_COMMIT, on_committed);
		return;
	}
	for (int running = 0; running < 2; running++) {
		for (int row = 0; row < row_count; row++)
			if (row_bool(rows, row, 1) == running)
				end->tasks[end->count++].id = row_int8(rows, row, 0);
		if (!running)
			end->waiting = end->count;
	}
	mark(role, end->tasks, end->waiting, op->stopping ? STOP_CODE : NULL, on_waiting_marked);
}

static void on_turn(struct role *role, const PGresult *rows)
{
	struct store_queue_end *op = the_op(role);
	if (!row_bool(rows, 0, 0)) { /* another manager ends tasks of this queue */
		role_run(role, SQL_COMMIT, on_committed);
		return;
	}
	params_text(&role->params, op->queue);
	params_int8(&role->params, op->up_to);
	params_bool(&role->params, op->stopping);
	params_int4(&role->params, op->limit);
	role_run(role, SQL_QUEUE_TASKS_LOCK, on_locked);
}

static void on_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	params_text(&role->params, the_op(role)->queue);
	params_bool(&role->params, !the_op(role)->stopping);
	role_run(role, SQL_QUEUE_TURN, on_turn);
}

static void start(struct role *role)
{
	the_op(role)->more = false;
	role_run(role, SQL_BEGIN, on_begun);
}

void store_queue_end(struct store *store, struct store_queue_end *op)
{
	static const struct op_kind kind = {.name = "queue end", .start = start};
	store_give(store, ROLE_EDIT, &kind, &op->op, 1, (size_t)op->limit * 128);
}
