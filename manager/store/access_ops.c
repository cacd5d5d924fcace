/* Identities: what managers know of them, and when they were used. */
#include "manager/store/store_internal.h"

#include <string.h>

/* A statement that looks up no more is quick. */
enum { FEW = 100 };

static const uint8_t *hash_at(const PGresult *rows, int row, int column)
{
	bool whole =
	    PQgetlength(rows, row, column) == STORE_HASH_BYTES; /* else it is null, or not from a program of ours */
	return whole ? (const uint8_t *)PQgetvalue(rows, row, column) : NULL;
}

static void on_loaded(struct role *role, const PGresult *rows)
{
	struct store_identities *op = BATCH_OP(role, struct store_identities, 0);
	op->fingerprint = row_text(rows, 0, 7);
	op->changed = strcmp(op->fingerprint, op->known) != 0;
	op->key = (const uint8_t *)PQgetvalue(rows, 0, 8);
	op->key_bytes = PQgetlength(rows, 0, 8);
	op->identities = role->state = mem_calloc((size_t)PQntuples(rows) + 1, sizeof *op->identities);
	op->count = 0;
	for (int row = 0; row < PQntuples(rows); row++) {
		if (row_null(rows, row, 0))
			continue;
		op->identities[op->count++] = (struct store_identity){
		    .id = row_int8(rows, row, 0),
		    .name = row_text(rows, row, 1),
		    .rights = row_text(rows, row, 2),
		    .hash = hash_at(rows, row, 3),
		    .until_us = row_time(rows, row, 4),
		    .uid = row_null(rows, row, 5) ? -1 : row_int8(rows, row, 5),
		    .certificate = row_bool(rows, row, 6),
		};
	}
	role_done(role);
}

static void load_start(struct role *role)
{
	params_text(&role->params, BATCH_OP(role, struct store_identities, 0)->known);
	role_run(role, SQL_IDENTITIES_LOAD, on_loaded);
}

void store_identities(struct store *store, struct store_identities *op)
{
	static const struct op_kind kind = {.name = "identities", .start = load_start};
	store_give(store, ROLE_ROUTES, &kind, &op->op, ROUTES_WEIGHT, 0);
}

static void on_foreign(struct role *role, const PGresult *rows)
{
	struct store_foreign *op = BATCH_OP(role, struct store_foreign, 0);
	op->task = row_null(rows, 0, 0) ? 0 : row_int8(rows, 0, 0);
	op->batch = row_null(rows, 0, 1) ? 0 : row_int8(rows, 0, 1);
	role_done(role);
}

static void foreign_start(struct role *role)
{
	const struct store_foreign *op = BATCH_OP(role, struct store_foreign, 0);
	params_int8s(&role->params, op->tasks, op->task_count);
	params_int8s(&role->params, op->batches, op->batch_count);
	params_text(&role->params, op->owner);
	role_run(role, SQL_FOREIGN_FIND, on_foreign);
}

void store_foreign(struct store *store, struct store_foreign *op)
{
	static const struct op_kind kind = {.name = "owners", .start = foreign_start};
	bool few = op->task_count + op->batch_count <= FEW;
	store_give(
	    store, few ? ROLE_READ : ROLE_POLL, &kind, &op->op, 1, 8 * ((size_t)op->task_count + (size_t)op->batch_count));
}

static void used_start(struct role *role)
{
	const struct store_identity_uses *op = BATCH_OP(role, struct store_identity_uses, 0);
	params_int8s(&role->params, op->ids, op->count);
	params_time(&role->params, op->time_us);
	role_run(role, SQL_IDENTITIES_USED, role_on_done);
}

void store_identity_uses(struct store *store, struct store_identity_uses *op)
{
	static const struct op_kind kind = {.name = "uses of identities", .start = used_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}
