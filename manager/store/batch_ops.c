/* Batch operations: the steps through the phases. SQL functions do the work. */
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

enum { REASON_BYTES = 200 };

/* The blocked tasks that must end, and why. */
struct failing {
	int count;
	char reason[REASON_BYTES];
	int64_t ids[];
};

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
	op->succeeded = row_int8(rows, 0, 4);
	op->failed = row_int8(rows, 0, 5);
	role_done(role);
}

static void on_released(struct role *role, const PGresult *rows)
{
	the_move(role)->tasks = (int)row_int8(rows, 0, 0);
	role_done(role);
}

static void on_failed(struct role *role, const PGresult *rows)
{
	struct store_batch_move *op = the_move(role);
	struct failing *failing = role->state;
	op->tasks = 0;
	op->ended = failing->ids; /* the results overwrite the ids: there are not more */
	for (int row = 0; row < PQntuples(rows); row++)
		op->ended[op->tasks++] = row_int8(rows, row, 0);
	role_run(role, SQL_COMMIT, role_on_done);
}

static void add_ids(struct role *role)
{
	const struct failing *failing = role->state;
	params_int8s(&role->params, failing->ids, failing->count);
}

static void on_marked(struct role *role, const PGresult *rows)
{
	(void)rows;
	add_ids(role);
	params_int4(&role->params, role->store->options.history_days);
	params_text(&role->params, ((struct failing *)role->state)->reason);
	role_run(role, SQL_CANCEL_WAITING, on_failed);
}

static void on_blocked(struct role *role, const PGresult *rows)
{
	int count = PQntuples(rows);
	struct failing *failing = role->state = mem_calloc(1, sizeof *failing + sizeof *failing->ids * (size_t)count);
	failing->count = count;
	for (int row = 0; row < count; row++)
		failing->ids[row] = row_int8(rows, row, 0);
	if (!count) {
		role_run(role, SQL_COMMIT, role_on_done);
		return;
	}
	snprintf(failing->reason, sizeof failing->reason, "%s", row_text(rows, 0, 1));
	add_ids(role);
	params_text(&role->params, "");
	params_text(&role->params, failing->reason);
	params_text(&role->params, "entry_failed");
	role_run(role, SQL_CANCEL_MARK, on_marked);
}

static void on_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	params_int8(&role->params, the_move(role)->due.id);
	params_int8(&role->params, the_move(role)->limit);
	role_run(role, SQL_BATCH_BLOCKED, on_blocked);
}

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
		params_int8(&role->params, op->due.id);
		params_int8(&role->params, op->limit);
		role_run(role, SQL_BATCH_RELEASE, on_released);
		break;
	case STORE_BATCH_FAIL: role_run(role, SQL_BEGIN, on_begun); break;
	}
}

void store_batch_move(struct store *store, struct store_batch_move *op)
{
	static const struct op_kind kind = {.name = "batch move", .start = move_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}
