/*
 * Ends tasks of a queue, some at a time, in one transaction: it locks the queue against others that end its tasks,
 * locks the tasks, marks them and sets commands for their workers, and ends the waiting ones. The tasks are locked
 * before they are marked, so that waiting tasks still wait and running ones still run at that time.
 */
#include "manager/store/cancel.h"
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

#define STOP_CODE "queue_stopped"

struct end {
	int count, waiting; /* the waiting ones come first */
	int64_t *ids;       /* of `tasks`, after them in the same block */
	struct store_edited tasks[];
};

static struct store_queue_end *the_op(struct role *role)
{
	return BATCH_OP(role, struct store_queue_end, 0);
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

static bool add_queue(struct role *role)
{
	params_text(&role->params, the_op(role)->queue);
	params_bool(&role->params, !the_op(role)->stopping);
	return true;
}

/* Another manager may be ending tasks of this queue. */
static enum step_result take_turn(struct role *role, const PGresult *rows)
{
	(void)role;
	return row_bool(rows, 0, 0) ? STEP_NEXT : STEP_COMMIT;
}

static bool add_limits(struct role *role)
{
	const struct store_queue_end *op = the_op(role);
	params_text(&role->params, op->queue);
	params_int8(&role->params, op->up_to);
	params_bool(&role->params, op->stopping);
	params_int4(&role->params, op->limit);
	return true;
}

static enum step_result take_locked(struct role *role, const PGresult *rows)
{
	struct store_queue_end *op = the_op(role);
	int row_count = row_null(rows, 0, 0) ? 0 : PQntuples(rows);
	struct end *end = mem_calloc(1, sizeof *end + (sizeof *end->tasks + sizeof *end->ids) * (size_t)row_count);
	role->state = end;
	end->ids = (int64_t *)(end->tasks + row_count);
	op->more = row_int4(rows, 0, 2) == op->limit;
	for (int running = 0; running < 2; running++) {
		for (int row = 0; row < row_count; row++)
			if (row_bool(rows, row, 1) == running)
				end->ids[end->count++] = row_int8(rows, row, 0);
		if (!running)
			end->waiting = end->count;
	}
	for (int i = 0; i < end->count; i++)
		end->tasks[i].id = end->ids[i];
	op->tasks = end->tasks;
	op->found = end->count;
	return row_count ? STEP_NEXT : STEP_COMMIT;
}

static bool add_waiting_mark(struct role *role)
{
	const struct store_queue_end *op = the_op(role);
	const struct end *end = role->state;
	cancel_mark_params(role, end->ids, end->waiting, op->actor, op->reason, op->stopping ? STOP_CODE : NULL);
	return end->waiting > 0;
}

static bool add_running_mark(struct role *role)
{
	const struct store_queue_end *op = the_op(role);
	const struct end *end = role->state;
	cancel_mark_params(role, end->ids + end->waiting, end->count - end->waiting, op->actor, op->reason, NULL);
	return end->waiting < end->count;
}

static enum step_result take_running_marked(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(role->state, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->changed = true;
		t->commanded_worker = row_int8(rows, row, 2);
		t->token = row_time(rows, row, 3);
	}
	return STEP_NEXT;
}

static bool add_waiting(struct role *role)
{
	const struct end *end = role->state;
	cancel_waiting_params(role, end->ids, end->waiting, the_op(role)->reason);
	return end->waiting > 0;
}

static enum step_result take_waiting_ended(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(role->state, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->ended = t->changed = true;
		t->route = row_int4(rows, row, 2);
		snprintf(t->status, sizeof t->status, "%s", row_text(rows, row, 3));
	}
	return STEP_NEXT;
}

static void start(struct role *role)
{
	static const struct step steps[] = {
	    {NULL, SQL_BEGIN, NULL},
	    {add_queue, SQL_QUEUE_TURN, take_turn},
	    {add_limits, SQL_QUEUE_TASKS_LOCK, take_locked},
	    {add_waiting_mark, SQL_CANCEL_MARK, NULL},
	    {add_running_mark, SQL_CANCEL_MARK, take_running_marked},
	    {add_waiting, SQL_CANCEL_WAITING, take_waiting_ended},
	    {NULL, SQL_COMMIT, NULL},
	};
	struct store_queue_end *op = the_op(role);
	op->more = false;
	op->tasks = NULL;
	op->found = 0;
	steps_run(role, STEPS(steps));
}

void store_queue_end(struct store *store, struct store_queue_end *op)
{
	static const struct op_kind kind = {.name = "queue end", .start = start};
	store_give(store, ROLE_EDIT, &kind, &op->op, 1, (size_t)op->limit * 128);
}
