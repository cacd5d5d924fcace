/* Claims, and redeliveries of claimed tasks. */
#include "manager/store/store_internal.h"

#include <stdlib.h>

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const struct store_try *)a)->id, y = ((const struct store_try *)b)->id;
	return (x > y) - (x < y);
}

/* Reads the columns that claim.sql and redeliver.sql have in common: the first and the last. */
static struct store_claimed claimed_row(const PGresult *rows, int row)
{
	struct store_claimed claimed = {
	    .id = row_int8(rows, row, 0),
	    .token = row_time(rows, row, 1),
	    .details = row_text(rows, row, 2),
	    .attempt = row_int2(rows, row, 3),
	    .max_attempts = row_int2(rows, row, 4),
	    .timeout_ms = row_int8(rows, row, 5),
	    .route = row_int4(rows, row, 6),
	    .assignment_id = row_int8(rows, row, 7),
	    .batch_id = row_null(rows, row, 8) ? 0 : row_int8(rows, row, 8),
	    .order = row,
	};
	for (int i = 0; i < SQL_ASSIGNED; i++)
		claimed.texts[i] = row_text(rows, row, PQnfields(rows) - SQL_ASSIGNED + i);
	return claimed;
}

static void on_claimed(struct role *role, const PGresult *rows)
{
	struct store_claim *op = BATCH_OP(role, struct store_claim, 0);
	op->won_count = PQntuples(rows);
	role->state = mem_malloc(sizeof *op->won * (size_t)(op->won_count + 1));
	op->won = role->state;
	for (int row = 0; row < op->won_count; row++) {
		op->won[row] = claimed_row(rows, row);
		op->won[row].slot = row_int4(rows, row, 9) - 1;
		op->won[row].expires_in_ms = op->won[row].timeout_ms + op->expiry_grace_ms;
	}
	role_done(role);
}

static struct store_try *find_try(const struct store_claim *op, int64_t id)
{
	const struct store_try wanted = {.id = id};
	return bsearch(&wanted, op->tries, (size_t)op->count, sizeof *op->tries, by_id);
}

/* Like on_claimed, for claim_limited.sql, whose answer also has what it left. */
static void on_claimed_limited(struct role *role, const PGresult *rows)
{
	enum { WON, BLOCKED, LOCKED };
	struct store_claim *op = BATCH_OP(role, struct store_claim, 0);
	op->won = role->state = mem_malloc(sizeof *op->won * (size_t)(PQntuples(rows) + 1));
	for (int row = 0; row < PQntuples(rows); row++) {
		int kind = row_int4(rows, row, 10);
		if (kind != WON) {
			struct store_try *try = find_try(op, row_int8(rows, row, 0));
			try->blocked = kind == BLOCKED;
			try->locked = kind == LOCKED;
			continue;
		}
		struct store_claimed *won = &op->won[op->won_count++];
		*won = claimed_row(rows, row);
		won->slot = row_int4(rows, row, 9) - 1;
		won->expires_in_ms = won->timeout_ms + op->expiry_grace_ms;
	}
	role_done(role);
}

static void add_candidates(struct params *p, const struct store_claim *op)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_try, id, INT8),
	    COLUMN(struct store_try, version, TIME),
	};
	const struct store_try **tries = mem_malloc(sizeof *tries * (size_t)(op->count + 1));
	int n = 0;
	for (int i = 0; i < op->count; i++)
		if (!op->tries[i].locked)
			tries[n++] = &op->tries[i];
	params_columns(p, tries, n, COLUMNS(columns));
	free(tries);
}

static void claim(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_fetch, incarnation, INT8),
	    COLUMN(struct store_fetch, fetch_id, INT8),
	};
	struct store_claim *op = BATCH_OP(role, struct store_claim, 0);
	struct params *p = &role->params;
	add_candidates(p, op);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < op->count; i++)
		if (!op->tries[i].locked)
			params_add_int4(p, op->tries[i].slot + 1);
	params_array_end(p);
	params_struct_columns(p, op->fetches, sizeof *op->fetches, op->fetch_count, COLUMNS(columns));
	params_int8(p, op->expiry_grace_ms);
	if (op->limited)
		params_bool(p, role_careful(role));
	role_run(role, op->limited ? SQL_CLAIM_LIMITED : SQL_CLAIM, op->limited ? on_claimed_limited : on_claimed);
}

/* Marks the locked candidates, which come in the order of ids, and claims the others. */
static void on_locked(struct role *role, const PGresult *rows)
{
	struct store_claim *op = BATCH_OP(role, struct store_claim, 0);
	int row_count = PQntuples(rows), row = 0;
	for (int i = 0; i < op->count && row < row_count; i++)
		if (op->tries[i].id == row_int8(rows, row, 0)) {
			op->tries[i].locked = true;
			row++;
		}
	if (row_count < op->count)
		claim(role);
	else
		role_done(role);
}

static void claim_start(struct role *role)
{
	struct store_claim *op = BATCH_OP(role, struct store_claim, 0);
	qsort(op->tries, (size_t)op->count, sizeof *op->tries, by_id);
	for (int i = 0; i < op->count; i++)
		op->tries[i].locked = op->tries[i].blocked = false;
	op->won_count = 0;
	if (op->limited || (!op->careful && !role_careful(role))) {
		claim(role);
		return;
	}
	add_candidates(&role->params, op);
	role_run(role, SQL_CLAIM_LOCKED, on_locked);
}

void store_claim(struct store *store, struct store_claim *op)
{
	static const struct op_kind kind = {
	    .name = "claim", .start = claim_start, .careful_again_ms = 1000, .reports_unknown = true};
	store_give(store, ROLE_CLAIM, &kind, &op->op, 1, 0);
}

static struct store_redeliver *redeliver(struct role *role, int i)
{
	return BATCH_OP(role, struct store_redeliver, i);
}

/* The rows are in the order of the batch, at least one for each operation. A task without details does not fit. */
static void on_redelivered(struct role *role, const PGresult *rows)
{
	int row_count = PQntuples(rows), row = 0;
	struct store_claimed *won = role->state =
	    mem_malloc((sizeof *won + sizeof(struct store_candidate)) * ((size_t)row_count + 1));
	struct store_candidate *left_out = (struct store_candidate *)(won + row_count + 1);
	for (int i = 0; i < role->count; i++) {
		struct store_redeliver *op = redeliver(role, i);
		op->won = won;
		op->won_count = 0;
		op->left_out = left_out;
		op->left_out_count = 0;
		op->later = row_bool(rows, row, 16);
		op->life = row_null(rows, row, 13) ? STORE_LIFE_NEVER
		    : row_bool(rows, row, 13)      ? STORE_LIFE_OVER
		                                   : STORE_LIFE_LIVES;
		for (; row < row_count && row_int4(rows, row, 12) == i + 1; row++) {
			if (row_null(rows, row, 0) || op->later)
				continue;
			if (row_null(rows, row, 2)) {
				*left_out++ = (struct store_candidate){
				    .id = row_int8(rows, row, 0), .version = row_time(rows, row, 1), .bytes = row_int4(rows, row, 15)};
				op->left_out_count++;
				continue;
			}
			*won = claimed_row(rows, row);
			won->slot = 0;
			won->expires_in_ms = (int64_t)row_float8(rows, row, 9);
			won->queue = row_text(rows, row, 10);
			won->type = row_text(rows, row, 11);
			won++;
			op->won_count++;
		}
	}
	role_done(role);
}

static void redeliver_start(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_redeliver, fetch.incarnation, INT8),
	    COLUMN(struct store_redeliver, fetch.fetch_id, INT8),
	};
	struct params *p = &role->params;
	BATCH_COLUMNS(role, columns);
	params_int8(p, redeliver(role, 0)->max_details_bytes);
	params_int8(p, redeliver(role, 0)->max_answer_bytes);
	params_int8(p, redeliver(role, 0)->assignment_bytes);
	params_int8(p, redeliver(role, 0)->max_batch_bytes);
	role_run(role, SQL_REDELIVER, on_redelivered);
}

void store_redeliver(struct store *store, struct store_redeliver *op)
{
	static const struct op_kind kind = {.name = "redeliver", .start = redeliver_start};
	store_give(store, ROLE_LOOKUP, &kind, &op->op, REDELIVER_WEIGHT, sizeof *op);
}
