/* Identities: what managers know of them, and when they were used. */
#include "manager/store/store_internal.h"

#include <string.h>

static const uint8_t *hash_at(const PGresult *rows, int row, int column)
{
	bool whole =
	    PQgetlength(rows, row, column) == STORE_HASH_BYTES; /* else it is null, or not from a program of ours */
	return whole ? (const uint8_t *)PQgetvalue(rows, row, column) : NULL;
}

static void on_loaded(struct role *role, const PGresult *rows)
{
	struct store_identities *op = BATCH_OP(role, struct store_identities, 0);
	op->fingerprint = row_text(rows, 0, 8);
	op->changed = strcmp(op->fingerprint, op->known) != 0;
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
		    .old_hash = hash_at(rows, row, 4),
		    .old_until_us = row_time(rows, row, 5),
		    .uid = row_null(rows, row, 6) ? -1 : row_int8(rows, row, 6),
		    .expires_us = row_time(rows, row, 7),
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

static void used_start(struct role *role)
{
	const struct store_identity_uses *op = BATCH_OP(role, struct store_identity_uses, 0);
	params_int8s(&role->params, op->ids, op->count);
	params_array_begin(&role->params, PARAMS_TIME);
	for (int i = 0; i < op->count; i++)
		params_add_time(&role->params, op->times_us[i]);
	params_array_end(&role->params);
	role_run(role, SQL_IDENTITIES_USED, role_on_done);
}

void store_identity_uses(struct store *store, struct store_identity_uses *op)
{
	static const struct op_kind kind = {.name = "uses of identities", .start = used_start};
	store_give(store, ROLE_JOBS, &kind, &op->op, 1, 0);
}
