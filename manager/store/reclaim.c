/*
 * Ending attempts that their workers did not: expired, lost with their worker, or never arrived there. Each is two
 * statements, one that finds them and one that ends those whose token is still theirs: whatever happens to an attempt in
 * between leaves nothing for the second to match.
 */
#include "manager/store/internal.h"

#include "common/log.h"

#include <stdlib.h>
#include <string.h>

/* What was ended: role->state. */
struct reclaimed {
	int count;
	struct store_result results[];
};

static struct store_result *take_ended(struct role *role, const struct conn_result *result, enum store_outcome outcome,
    int *count)
{
	struct reclaimed *r = role->state;
	r->count = 0;
	for (int row = 0; row < PQntuples(result->rows); row++) {
		struct store_result *ended = &r->results[r->count++];
		*ended = (struct store_result){.id = row_int8(result->rows, row, 0),
		    .token = row_time(result->rows, row, 1),
		    .outcome = outcome};
		report_row_take(ended, result->rows, row);
	}
	*count = r->count;
	return r->results;
}

/* Sends end_attempts for the rows found, of which columns 0 and 1 are id and token; those whose id is null are left out.
 * `story` is the column with the error's text, −1: it is `error` for all. */
static void end_found(struct role *role, const PGresult *rows, enum store_outcome outcome, const char *error, int story,
    conn_done *next)
{
	struct params *p = &role->params;
	int n = PQntuples(rows);
	params_reset(p);
	params_array_begin(p, PARAMS_INT8);
	for (int row = 0; row < n; row++)
		if (!row_null(rows, row, 0))
			params_add_int8(p, row_int8(rows, row, 0));
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int row = 0; row < n; row++)
		if (!row_null(rows, row, 0))
			params_add_time(p, row_time(rows, row, 1));
	params_array_end(p);
	for (int column = 0; column < 3; column++) {
		params_array_begin(p, PARAMS_TEXT);
		for (int row = 0; row < n; row++)
			if (!row_null(rows, row, 0))
				params_add_text(p, column != 1 ? store_outcome_name(outcome)
				    : story >= 0               ? row_text(rows, row, story)
				                               : error);
		params_array_end(p);
	}
	params_bool(p, false);
	params_int4(p, role->store->options.history_days);
	role->state = calloc(1, sizeof(struct reclaimed) + sizeof(struct store_result) * (size_t)(n + 1));
	role_run(role, SQL_END_ATTEMPTS, next);
}

static int attempts_found(const PGresult *rows)
{
	int n = 0;
	for (int row = 0; row < PQntuples(rows); row++)
		n += !row_null(rows, row, 0);
	return n;
}

static void add_ints(struct params *p, int count, const int64_t *values)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < count; i++)
		params_add_int8(p, values[i]);
	params_array_end(p);
}

/* --- expiry ---------------------------------------------------------------------------------------------------- */

static void on_advanced(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	/* Those left alone for now stay at the head: without progress there is no hurry. */
	op->more = op->count > 0 && PQntuples(result->rows) >= op->limit;
	role_done(role);
}

static void advance(struct role *role)
{
	const struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	params_reset(&role->params);
	params_int8(&role->params, op->limit);
	params_time(&role->params, op->now_us);
	role_run(role, SQL_EXPIRED_ADVANCE, on_advanced);
}

static void on_expired_ended(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	op->results = take_ended(role, result, STORE_EXPIRED, &op->count);
	advance(role);
}

static void on_expired_found(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	if (!attempts_found(result->rows))
		advance(role);
	else
		end_found(role, result->rows, STORE_EXPIRED, "the attempt ran past its expiry and was taken back", -1,
		    on_expired_ended);
}

static void expire_start(struct role *role)
{
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	op->results = NULL;
	op->count = 0;
	params_int8(&role->params, op->limit);
	params_time(&role->params, op->now_us);
	params_int8(&role->params, op->before_assignment);
	params_int8(&role->params, op->watched_ms);
	role_run(role, SQL_EXPIRED_FIND, on_expired_found);
}

void store_expire(struct store *store, struct store_expire *op)
{
	static const struct op_kind kind = {"expire", expire_start, NULL, false};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 0);
}

/* --- lost workers' ------------------------------------------------------------------------------------------------ */

static void on_lost_ended(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	op->results = take_ended(role, result, STORE_LOST, &op->count);
	op->more = op->count > 0;
	role_done(role);
}

static void on_lost_found(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	const PGresult *rows = result->rows;
	if (attempts_found(rows)) {
		end_found(role, rows, STORE_LOST, NULL, 2, on_lost_ended);
		return;
	}
	for (int row = 0; row < PQntuples(rows); row++) /* it has been closed meanwhile, or there is a fault */
		log_debug("lease", "journal row %lld of a lost worker has nothing that runs",
		    (long long)row_int8(rows, row, 3));
	role_done(role);
}

static void sweep_start(struct role *role)
{
	struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	op->results = NULL;
	op->count = 0;
	op->more = false;
	params_int8(&role->params, op->limit);
	if (op->all)
		params_null(&role->params);
	else
		add_ints(&role->params, op->count_of, op->of);
	role_run(role, SQL_LOST_FIND, on_lost_found);
}

void store_sweep(struct store *store, struct store_sweep *op)
{
	static const struct op_kind kind = {"sweep", sweep_start, NULL, false};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 0);
}

/* --- never arrived ------------------------------------------------------------------------------------------------ */

static void on_taken_back(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	struct store_take_back *op = BATCH_OP(role, struct store_take_back, 0);
	op->results = take_ended(role, result, STORE_TAKEN_BACK, &op->count);
	role_done(role);
}

static void on_unarrived_found(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	struct store_take_back *op = BATCH_OP(role, struct store_take_back, 0);
	op->lowest_open = row_int8(result->rows, PQntuples(result->rows) - 1, 2);
	if (!attempts_found(result->rows))
		role_done(role);
	else
		end_found(role, result->rows, STORE_TAKEN_BACK, "it never arrived at its worker and was taken back", -1,
		    on_taken_back);
}

static void take_back_start(struct role *role)
{
	struct store_take_back *op = BATCH_OP(role, struct store_take_back, 0);
	const struct store_holding *h = &op->holding;
	struct params *p = &role->params;
	op->results = NULL;
	op->count = 0;
	params_int8(p, h->incarnation);
	params_int8(p, h->highest_fetch);
	add_ints(p, h->waiting_count, h->waiting);
	add_ints(p, h->held_count, h->held_ids);
	params_array_begin(p, PARAMS_TIME);
	for (int i = 0; i < h->held_count; i++)
		params_add_time(p, h->held_tokens[i]);
	params_array_end(p);
	params_int8(p, op->lowest_fetch);
	role_run(role, SQL_TAKE_BACK_FIND, on_unarrived_found);
}

void store_take_back(struct store *store, struct store_take_back *op)
{
	static const struct op_kind kind = {"take back", take_back_start, NULL, false};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 64 + 16 * (size_t)op->holding.held_count);
}
