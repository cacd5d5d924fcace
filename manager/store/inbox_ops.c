/* Ingests tasks that were submitted by SQL, in one transaction for tasks of the same queue, type and batch. */
#include "manager/store/cancel.h"
#include "manager/store/store_internal.h"

static struct store_ingest *the_op(struct role *role)
{
	return BATCH_OP(role, struct store_ingest, 0);
}

static bool add_place(struct role *role)
{
	params_int8(&role->params, the_op(role)->beyond);
	params_int4(&role->params, the_op(role)->limit);
	return true;
}

/* Reads which tasks their batch does not accept. */
static enum step_result take_ingested(struct role *role, const PGresult *rows)
{
	struct store_ingest *op = the_op(role);
	const char *elements = NULL;
	op->walked = row_int8(rows, 0, 0);
	op->ingested = row_int4(rows, 0, 1);
	int count = row_array(rows, 0, 2, &elements);
	struct cancel *refused = cancel_begin(role, count);
	for (int i = 0; i < count; i++)
		refused->ids[i] = row_array_int8(&elements);
	refused->count = count;
	if (!count)
		return STEP_COMMIT;
	snprintf(refused->code, sizeof refused->code, "%s", row_text(rows, 0, 3));
	snprintf(refused->reason, sizeof refused->reason, "%s", row_text(rows, 0, 4));
	return STEP_NEXT;
}

static enum step_result take_ended(struct role *role, const PGresult *rows)
{
	struct store_ingest *op = the_op(role);
	struct cancel *refused = role->state;
	enum step_result next = cancel_take_ended(role, rows);
	op->ended = refused->ended;
	op->ended_ids = refused->ids;
	op->reason = refused->reason;
	return next;
}

static void ingest_start(struct role *role)
{
	static const struct step steps[] = {
	    {NULL, SQL_BEGIN, NULL},
	    {add_place, SQL_INBOX_INGEST, take_ingested},
	    CANCEL_STEPS(take_ended),
	};
	struct store_ingest *op = the_op(role);
	op->walked = op->ingested = op->ended = 0;
	op->ended_ids = NULL;
	op->reason = "";
	steps_run(role, STEPS(steps));
}

void store_ingest(struct store *store, struct store_ingest *op)
{
	static const struct op_kind kind = {.name = "ingest", .start = ingest_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}
