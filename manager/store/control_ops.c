/* Worker commands that concern a worker itself, not one of its attempts. */
#include "manager/store/internal.h"

#include <stdlib.h>
#include <string.h>

static void on_controlled(struct role *role, const PGresult *rows)
{
	struct store_control *op = BATCH_OP(role, struct store_control, 0);
	op->count = PQntuples(rows);
	op->workers = role->state = mem_calloc((size_t)op->count + 1, sizeof *op->workers);
	for (int row = 0; row < op->count; row++) {
		op->workers[row].incarnation = row_int8(rows, row, 0);
		snprintf(op->workers[row].name, sizeof op->workers[row].name, "%s", row_text(rows, row, 1));
	}
	role_done(role);
}

static void control_start(struct role *role)
{
	const struct store_control *op = BATCH_OP(role, struct store_control, 0);
	struct params *p = &role->params;
	params_text(p, op->name);
	params_text(p, op->kind);
	if (op->value)
		params_int4(p, op->value);
	else
		params_null(p);
	params_text(p, op->actor);
	params_int8(p, role->store->manager_id);
	role_run(role, SQL_WORKER_CONTROL, on_controlled);
}

/* The statement can process only one operation. */
static bool alone(const struct role *role, const struct store_op *op)
{
	(void)op;
	return role->count == 0;
}

void store_control(struct store *store, struct store_control *op)
{
	static const struct op_kind kind = {.name = "control", .start = control_start, .joins = alone};
	store_give(store, ROLE_EDIT, &kind, &op->op, 1, 256);
}
