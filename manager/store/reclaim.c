/*
 * Ends attempts that their workers did not end: expired ones, those of lost workers, and those that never arrived. A
 * first statement finds them; then a transaction ends those whose rows no other transaction has locked. So a row that
 * stays locked for long does not delay the others, and is found again. An attempt whose token is not its task's any
 * more has ended in between and is left out.
 */
#include "manager/store/internal.h"

#include "common/log.h"

#include <stdlib.h>
#include <string.h>

struct found {
	int64_t id, token;
	const char *error;
	bool locked;
};

/* The attempts found, and those ended: role->state, in one block. */
struct reclaimed {
	enum store_outcome outcome;
	role_next *next; /* called with the commit's result */
	int found_count, count;
	struct found *found;
	struct store_result results[];
};

static int attempts_found(const PGresult *rows)
{
	int n = 0;
	for (int row = 0; row < PQntuples(rows); row++)
		n += !row_null(rows, row, 0);
	return n;
}

/* Copies the rows that have an id: columns 0 and 1 are id and token. `story` is the column with the error's text;
 * −1: all have `error`, which must be static. */
static struct reclaimed *found_take(const PGresult *rows, const char *error, int story)
{
	size_t n = (size_t)attempts_found(rows), texts = 0;
	for (int row = 0; row < PQntuples(rows); row++)
		texts += story >= 0 ? strlen(row_text(rows, row, story)) + 1 : 0;
	struct reclaimed *r = mem_calloc(1, sizeof *r + (sizeof *r->results + sizeof *r->found) * n + texts);
	r->found = (struct found *)(r->results + n);
	char *text = (char *)(r->found + n);
	for (int row = 0; row < PQntuples(rows); row++) {
		if (row_null(rows, row, 0))
			continue;
		struct found *f = &r->found[r->found_count++];
		*f = (struct found){.id = row_int8(rows, row, 0), .token = row_time(rows, row, 1), .error = error};
		if (story < 0)
			continue;
		f->error = strcpy(text, row_text(rows, row, story));
		text += strlen(text) + 1;
	}
	return r;
}

static void add_attempts(struct params *p, const struct reclaimed *r, bool all)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < r->found_count; i++)
		if (all || r->found[i].locked)
			params_add_int8(p, r->found[i].id);
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int i = 0; i < r->found_count; i++)
		if (all || r->found[i].locked)
			params_add_time(p, r->found[i].token);
	params_array_end(p);
}

static void on_ended(struct role *role, const PGresult *rows)
{
	struct reclaimed *r = role->state;
	for (int row = 0; row < PQntuples(rows) && row < r->found_count; row++) {
		struct store_result *ended = &r->results[r->count++];
		*ended = (struct store_result){.id = row_int8(rows, row, 0),
		    .token = row_time(rows, row, 1),
		    .outcome = r->outcome};
		report_row_take(ended, rows, row);
	}
	role_run(role, SQL_COMMIT, r->next);
}

static void on_locked(struct role *role, const PGresult *rows)
{
	struct reclaimed *r = role->state;
	struct params *p = &role->params;
	for (int row = 0; row < PQntuples(rows); row++)
		r->found[row_int8(rows, row, 0) - 1].locked = row_bool(rows, row, 1);
	params_reset(p);
	add_attempts(p, r, false);
	for (int column = 0; column < 3; column++) {
		params_array_begin(p, PARAMS_TEXT);
		for (int i = 0; i < r->found_count; i++)
			if (r->found[i].locked)
				params_add_text(p, column == 1 ? r->found[i].error : store_outcome_name(r->outcome));
		params_array_end(p);
	}
	params_bool(p, false);
	params_int4(p, role->store->options.history_days);
	for (int column = 0; column < 5; column++) /* no remarks, stacks, retry delays, results, stages */
		params_null(p);
	role_run(role, SQL_END_ATTEMPTS, on_ended);
}

static void on_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	params_reset(&role->params);
	add_attempts(&role->params, role->state, true);
	role_run(role, SQL_ATTEMPTS_LOCK, on_locked);
}

/* Ends the attempts found; `next` is called with the commit's result. */
static void end_found(struct role *role, const PGresult *rows, enum store_outcome outcome, const char *error, int story,
    role_next *next)
{
	struct reclaimed *r = role->state = found_take(rows, error, story);
	r->outcome = outcome;
	r->next = next;
	params_reset(&role->params);
	role_run(role, SQL_BEGIN, on_begun);
}

static struct store_result *take_ended(struct role *role, int *count)
{
	struct reclaimed *r = role->state;
	*count = r->count;
	return r->results;
}

static void add_ints(struct params *p, int count, const int64_t *values)
{
	params_int8s(p, values, count);
}

/* --- expiry ---------------------------------------------------------------------------------------------------- */

static void add_watched(struct params *p, const struct store_expire *op)
{
	params_int8(p, op->before_assignment);
	params_int8(p, op->watched_ms);
}

static void add_expiry(struct params *p, const struct store_place *place)
{
	params_time(p, place->key);
	params_int8(p, place->id);
}

static void advance(struct role *role)
{
	const struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	params_reset(&role->params);
	add_watched(&role->params, op);
	add_expiry(&role->params, &op->after);
	add_expiry(&role->params, &op->last);
	role_run(role, SQL_EXPIRED_ADVANCE, role_on_done);
}

static void on_expired_ended(struct role *role, const PGresult *rows)
{
	(void)rows;
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	op->results = take_ended(role, &op->count);
	advance(role);
}

static void on_expired_found(struct role *role, const PGresult *rows)
{
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	int end = PQntuples(rows) - 1;
	if (end < 0) {
		role_done(role);
		return;
	}
	op->last = (struct store_place){row_time(rows, end, 1), row_int8(rows, end, 2)};
	op->more = row_int8(rows, end, 3) >= op->limit;
	if (!attempts_found(rows))
		advance(role);
	else
		end_found(role, rows, STORE_EXPIRED, "the attempt ran past its expiry and was reclaimed", -1,
		    on_expired_ended);
}

static void expire_start(struct role *role)
{
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	op->results = NULL;
	op->count = 0;
	op->more = false;
	params_int8(&role->params, op->limit);
	params_time(&role->params, op->now_us);
	add_watched(&role->params, op);
	add_expiry(&role->params, &op->after);
	role_run(role, SQL_EXPIRED_FIND, on_expired_found);
}

void store_expire(struct store *store, struct store_expire *op)
{
	static const struct op_kind kind = {.name = "expire", .start = expire_start};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 0);
}

/* --- lost workers ------------------------------------------------------------------------------------------------- */

static void on_lost_ended(struct role *role, const PGresult *rows)
{
	(void)rows;
	struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	op->results = take_ended(role, &op->count);
	role_done(role);
}

static void on_lost_found(struct role *role, const PGresult *rows)
{
	struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	int end = PQntuples(rows) - 1;
	if (end >= 0) {
		op->last = (struct store_place){row_int8(rows, end, 4), row_int8(rows, end, 3)};
		op->more = row_int8(rows, end, 5) >= op->limit;
	}
	if (attempts_found(rows)) {
		end_found(role, rows, STORE_LOST, NULL, 2, on_lost_ended);
		return;
	}
	for (int row = 0; row < end; row++) /* it was just closed; if not, that is a bug */
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
	params_int8(&role->params, op->after.key);
	params_int8(&role->params, op->after.id);
	role_run(role, SQL_LOST_FIND, on_lost_found);
}

void store_sweep(struct store *store, struct store_sweep *op)
{
	static const struct op_kind kind = {.name = "sweep", .start = sweep_start};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 0);
}

/* --- undelivered tasks -------------------------------------------------------------------------------------------- */

static void on_requeued(struct role *role, const PGresult *rows)
{
	(void)rows;
	struct store_requeue *op = BATCH_OP(role, struct store_requeue, 0);
	op->results = take_ended(role, &op->count);
	role_done(role);
}

static struct store_requeue *requeuing(const struct role *role, int i)
{
	return BATCH_OP(role, struct store_requeue, i);
}

/* One statement checks many workers, and nearly always finds nothing. An operation for which it found something is
 * repeated alone. */
static bool requeue_joins(const struct role *role, const struct store_op *op)
{
	return !requeuing(role, 0)->found && !((const struct store_requeue *)op)->found;
}

/* Moves the operations with `found` from the batch to the array `found`, and returns their number. */
static int found_leave(struct role *role, struct store_op **found)
{
	int all = role->count, n = 0;
	role->count = 0;
	for (int i = 0; i < all; i++)
		if (requeuing(role, i)->found)
			found[n++] = role->batch[i];
		else
			role->batch[role->count++] = role->batch[i];
	return n;
}

static void on_unarrived_found(struct role *role, const PGresult *rows)
{
	struct store_op *found[ROLE_BATCH_OPS];
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_requeue *op = requeuing(role, row_int4(rows, row, 3) - 1);
		if (row_null(rows, row, 0))
			op->lowest_open = row_int8(rows, row, 2);
		else
			op->found = true;
	}
	if (role->count == 1 && requeuing(role, 0)->found) {
		end_found(role, rows, STORE_REQUEUED, "it never arrived at its worker and was requeued", -1,
		    on_requeued);
		return;
	}
	int n = found_leave(role, found);
	role_done(role);
	for (int i = 0; i < n; i++)
		role_add(role, found[i]);
}

/* Adds the worker's place in $1, once for each element of its list. */
static void add_places(struct params *p, int place, int count)
{
	for (int i = 0; i < count; i++)
		params_add_int4(p, place + 1);
}

static void add_workers(struct params *p, const struct role *role)
{
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, requeuing(role, i)->holding.incarnation);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, requeuing(role, i)->holding.highest_fetch);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(p, requeuing(role, i)->lowest_fetch);
	params_array_end(p);
}

static void add_waiting(struct params *p, const struct role *role)
{
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < role->count; i++)
		add_places(p, i, requeuing(role, i)->holding.waiting_count);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < requeuing(role, i)->holding.waiting_count; k++)
			params_add_int8(p, requeuing(role, i)->holding.waiting[k]);
	params_array_end(p);
}

static void add_held(struct params *p, const struct role *role)
{
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < role->count; i++)
		add_places(p, i, requeuing(role, i)->holding.held_count);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < requeuing(role, i)->holding.held_count; k++)
			params_add_int8(p, requeuing(role, i)->holding.held_ids[k]);
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < requeuing(role, i)->holding.held_count; k++)
			params_add_time(p, requeuing(role, i)->holding.held_tokens[k]);
	params_array_end(p);
}

static void requeue_start(struct role *role)
{
	for (int i = 0; i < role->count; i++) {
		struct store_requeue *op = requeuing(role, i);
		op->results = NULL;
		op->count = 0;
		op->found = false;
		op->lowest_open = op->holding.highest_fetch;
	}
	add_workers(&role->params, role);
	add_waiting(&role->params, role);
	add_held(&role->params, role);
	role_run(role, SQL_REQUEUE_FIND, on_unarrived_found);
}

void store_requeue(struct store *store, struct store_requeue *op)
{
	static const struct op_kind kind = {.name = "requeue", .start = requeue_start, .joins = requeue_joins};
	const struct store_holding *h = &op->holding;
	store_give(store, ROLE_LEASE, &kind, &op->op, 0, 64 + 16 * ((size_t)h->held_count + (size_t)h->waiting_count));
}
