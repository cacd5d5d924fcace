/* Ingests tasks that were submitted by SQL, in one transaction for tasks of the same queue, type and batch. */
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

/* The tasks that their batch does not accept. */
struct refused {
	int count;
	char code[32], reason[400];
	int64_t ids[];
};

static struct store_ingest *the_op(struct role *role)
{
	return BATCH_OP(role, struct store_ingest, 0);
}

static void on_ended(struct role *role, const PGresult *rows)
{
	struct store_ingest *op = the_op(role);
	struct refused *refused = role->state;
	op->ended_ids = refused->ids;
	op->reason = refused->reason;
	for (int row = 0; row < PQntuples(rows) && row < refused->count; row++)
		op->ended_ids[op->ended++] = row_int8(rows, row, 0);
	role_run(role, SQL_COMMIT, role_on_done);
}

static void add_ids(struct role *role)
{
	const struct refused *refused = role->state;
	params_int8s(&role->params, refused->ids, refused->count);
}

static void on_marked(struct role *role, const PGresult *rows)
{
	(void)rows;
	add_ids(role);
	params_int4(&role->params, role->store->options.history_days);
	params_text(&role->params, ((struct refused *)role->state)->reason);
	role_run(role, SQL_CANCEL_WAITING, on_ended);
}

static void on_ingested(struct role *role, const PGresult *rows)
{
	struct store_ingest *op = the_op(role);
	const char *elements = NULL;
	op->walked = row_int8(rows, 0, 0);
	op->admitted = row_int4(rows, 0, 1);
	int count = row_array(rows, 0, 2, &elements);
	if (!count) {
		role_run(role, SQL_COMMIT, role_on_done);
		return;
	}
	struct refused *refused = role->state = mem_calloc(1, sizeof *refused + sizeof *refused->ids * (size_t)count);
	for (refused->count = 0; refused->count < count; refused->count++)
		refused->ids[refused->count] = row_array_int8(&elements);
	snprintf(refused->code, sizeof refused->code, "%s", row_text(rows, 0, 3));
	snprintf(refused->reason, sizeof refused->reason, "%s", row_text(rows, 0, 4));
	add_ids(role);
	params_text(&role->params, "");
	params_text(&role->params, refused->reason);
	params_text(&role->params, refused->code);
	role_run(role, SQL_CANCEL_MARK, on_marked);
}

static void on_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	params_int8(&role->params, the_op(role)->beyond);
	params_int4(&role->params, the_op(role)->limit);
	role_run(role, SQL_INBOX_INGEST, on_ingested);
}

static void ingest_start(struct role *role)
{
	struct store_ingest *op = the_op(role);
	op->walked = op->admitted = op->ended = 0;
	op->ended_ids = NULL;
	op->reason = "";
	role_run(role, SQL_BEGIN, on_begun);
}

void store_ingest(struct store *store, struct store_ingest *op)
{
	static const struct op_kind kind = {.name = "admit", .start = ingest_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}
