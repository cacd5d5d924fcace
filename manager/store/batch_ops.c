/* Batch operations: the steps through the phases. SQL functions do the work. */
#include "manager/store/cancel.h"
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- due batches ----------------------------------------------------------------------------------------------- */

static enum store_batch_work work_of(const char *name)
{
	return !strcmp(name, "release") ? STORE_BATCH_RELEASE : !strcmp(name, "fail") ? STORE_BATCH_FAIL : STORE_BATCH_STEP;
}

static void on_due(struct role *role, const PGresult *rows)
{
	struct store_batches_due *op = BATCH_OP(role, struct store_batches_due, 0);
	op->count = PQntuples(rows);
	op->due = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->due);
	for (int row = 0; row < op->count; row++)
		op->due[row] = (struct store_batch_due){row_int8(rows, row, 0), work_of(row_text(rows, row, 1))};
	role_done(role);
}

static void due_start(struct role *role)
{
	const struct store_batches_due *op = BATCH_OP(role, struct store_batches_due, 0);
	params_int8(&role->params, op->limit);
	params_int8(&role->params, op->after);
	params_bool(&role->params, op->free_only);
	role_run(role, SQL_BATCHES_DUE, on_due);
}

void store_batches_due(struct store *store, struct store_batches_due *op)
{
	static const struct op_kind kind = {.name = "batches due", .start = due_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}

/* --- moves ----------------------------------------------------------------------------------------------------- */

static struct store_batch_move *the_move(struct role *role)
{
	return BATCH_OP(role, struct store_batch_move, 0);
}

static void on_stepped(struct role *role, const PGresult *rows)
{
	struct store_batch_move *op = the_move(role);
	op->steps = row_text(rows, 0, 0);
	op->name = row_text(rows, 0, 1);
	op->queue = row_text(rows, 0, 2);
	op->submitted = row_int8(rows, 0, 3);
	op->completed = row_int8(rows, 0, 4);
	op->failed = row_int8(rows, 0, 5);
	role_done(role);
}

static void on_released(struct role *role, const PGresult *rows)
{
	the_move(role)->tasks = (int)row_int8(rows, 0, 0);
	role_done(role);
}

static bool add_batch(struct role *role)
{
	params_int8(&role->params, the_move(role)->due.id);
	params_int8(&role->params, the_move(role)->limit);
	return true;
}

/* Reads the blocked tasks that must end, and why. */
static enum step_result take_blocked(struct role *role, const PGresult *rows)
{
	int count = PQntuples(rows);
	struct cancel *failing = cancel_begin(role, count);
	for (; failing->count < count; failing->count++)
		failing->ids[failing->count] = row_int8(rows, failing->count, 0);
	if (!count)
		return STEP_COMMIT;
	snprintf(failing->reason, sizeof failing->reason, "%s", row_text(rows, 0, 1));
	snprintf(failing->code, sizeof failing->code, "entry_failed");
	return STEP_NEXT;
}

static enum step_result take_failed(struct role *role, const PGresult *rows)
{
	struct store_batch_move *op = the_move(role);
	struct cancel *failing = role->state;
	enum step_result next = cancel_take_ended(role, rows);
	op->tasks = failing->ended;
	op->ended = failing->ids;
	return next;
}

static const struct step fail_steps[] = {
    {NULL, SQL_BEGIN, NULL},
    {add_batch, SQL_BATCH_BLOCKED, take_blocked},
    CANCEL_STEPS(take_failed),
};

static void move_start(struct role *role)
{
	struct store_batch_move *op = the_move(role);
	op->steps = op->name = op->queue = "";
	op->tasks = 0;
	op->ended = NULL;
	switch (op->due.work) {
	case STORE_BATCH_STEP:
		params_int8(&role->params, op->due.id);
		role_run(role, SQL_BATCH_STEP, on_stepped);
		break;
	case STORE_BATCH_RELEASE:
		add_batch(role);
		role_run(role, SQL_BATCH_RELEASE, on_released);
		break;
	case STORE_BATCH_FAIL: steps_run(role, STEPS(fail_steps)); break;
	}
}

void store_batch_move(struct store *store, struct store_batch_move *op)
{
	static const struct op_kind kind = {.name = "batch move", .start = move_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}
