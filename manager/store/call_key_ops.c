/* Idempotency keys of calls by HTTP. */
#include "manager/store/store_internal.h"

static void on_found(struct role *role, const PGresult *rows)
{
	for (int i = 0; i < role->count && i < PQntuples(rows); i++) {
		struct store_call_key *op = BATCH_OP(role, struct store_call_key, i);
		memcpy(op->request_id, PQgetvalue(rows, i, 0), sizeof op->request_id);
		op->same = row_bool(rows, i, 1);
	}
	role_done(role);
}

static void find_start(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_call_key, key, UUID),
	    COLUMN(struct store_call_key, request_id, UUID),
	    COLUMN(struct store_call_key, request, UUID),
	};
	BATCH_COLUMNS(role, columns);
	role_run(role, SQL_CALL_KEYS, on_found);
}

void store_call_key(struct store *store, struct store_call_key *op)
{
	static const struct op_kind kind = {.name = "idempotency key", .start = find_start};
	store_give(store, ROLE_SUBMIT, &kind, &op->op, 1, 0);
}
