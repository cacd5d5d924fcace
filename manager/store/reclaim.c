/*
 * Ends attempts that their workers did not end: expired ones, those of lost workers, and those that never arrived. A
 * first statement finds them; then a transaction ends those whose rows no other transaction has locked. So a row that
 * stays locked for long does not delay the others, and is found again. An attempt whose token is not its task's any
 * more has ended in between and is left out.
 */
#include "manager/store/steps.h"
#include "manager/store/store_internal.h"

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

/* Copies the rows that have an id: columns 0 and 1 are id and token. `column` has the error's text;
 * −1: all have `error`, which must be static. */
static struct reclaimed *found_take(const PGresult *rows, const char *error, int column)
{
	size_t n = (size_t)attempts_found(rows), texts = 0;
	for (int row = 0; row < PQntuples(rows); row++)
		texts += column >= 0 ? strlen(row_text(rows, row, column)) + 1 : 0;
	struct reclaimed *r = mem_calloc(1, sizeof *r + (sizeof *r->results + sizeof *r->found) * n + texts);
	r->found = (struct found *)(r->results + n);
	char *text = (char *)(r->found + n);
	for (int row = 0; row < PQntuples(rows); row++) {
		if (row_null(rows, row, 0))
			continue;
		struct found *f = &r->found[r->found_count++];
		*f = (struct found){.id = row_int8(rows, row, 0), .token = row_time(rows, row, 1), .error = error};
		if (column < 0)
			continue;
		f->error = strcpy(text, row_text(rows, row, column));
		text += strlen(text) + 1;
	}
	return r;
}

static void add_attempts(struct params *p, const struct reclaimed *r, bool all)
{
	static const struct params_column columns[] = {
	    COLUMN(struct found, id, INT8),
	    COLUMN(struct found, token, TIME),
	};
	const struct found **some = mem_malloc(sizeof *some * (size_t)(r->found_count + 1));
	int n = 0;
	for (int i = 0; i < r->found_count; i++)
		if (all || r->found[i].locked)
			some[n++] = &r->found[i];
	params_columns(p, some, n, COLUMNS(columns));
	free(some);
}

/* Prepares to end the attempts found: the steps after this one do it. Without any, they are not needed. */
static enum step_result found(
    struct role *role, const PGresult *rows, enum store_outcome outcome, const char *error, int column)
{
	struct reclaimed *r = role->state = found_take(rows, error, column);
	r->outcome = outcome;
	return STEP_NEXT;
}

static bool any_found(struct role *role)
{
	return role->state && ((struct reclaimed *)role->state)->found_count > 0;
}

static bool add_found(struct role *role)
{
	if (!any_found(role))
		return false;
	add_attempts(&role->params, role->state, true);
	params_null(&role->params); /* it waits for no batch */
	return true;
}

static enum step_result take_locked(struct role *role, const PGresult *rows)
{
	struct reclaimed *r = role->state;
	for (int row = 0; row < PQntuples(rows); row++)
		r->found[row_int8(rows, row, 0) - 1].locked = row_bool(rows, row, 1);
	return STEP_NEXT;
}

static bool add_ending(struct role *role)
{
	struct params *p = &role->params;
	const struct reclaimed *r = role->state;
	if (!any_found(role))
		return false;
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
	return true;
}

static enum step_result take_ended(struct role *role, const PGresult *rows)
{
	struct reclaimed *r = role->state;
	for (int row = 0; row < PQntuples(rows) && row < r->found_count; row++) {
		struct store_result *ended = &r->results[r->count++];
		*ended =
		    (struct store_result){.id = row_int8(rows, row, 0), .token = row_time(rows, row, 1), .outcome = r->outcome};
		report_row_take(ended, rows, row);
	}
	return STEP_NEXT;
}

/* The steps that end the attempts found, in every list. */
#define END_FOUND                                                                                                      \
	{any_found, SQL_BEGIN, NULL}, {add_found, SQL_ATTEMPTS_LOCK, take_locked},                                         \
	    {add_ending, SQL_END_ATTEMPTS, take_ended},                                                                    \
	{                                                                                                                  \
		steps_in_transaction, SQL_COMMIT, NULL                                                                         \
	}

static struct store_result *results_of(struct role *role, int *count)
{
	struct reclaimed *r = role->state;
	*count = r ? r->count : 0;
	return r ? r->results : NULL;
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

static bool add_expire(struct role *role)
{
	const struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	params_int8(&role->params, op->limit);
	params_time(&role->params, op->now_us);
	add_watched(&role->params, op);
	add_expiry(&role->params, &op->after);
	return true;
}

static enum step_result take_expired(struct role *role, const PGresult *rows)
{
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	int end = PQntuples(rows) - 1;
	if (end < 0)
		return STEP_NEXT;
	op->last = (struct store_place){row_time(rows, end, 1), row_int8(rows, end, 2)};
	op->more = row_int8(rows, end, 3) >= op->limit;
	return found(role, rows, STORE_EXPIRED, "the attempt ran past its expiry and was reclaimed", -1);
}

/* Without rows, the position stays. */
static bool add_advance(struct role *role)
{
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	if (!role->state)
		return false;
	op->results = results_of(role, &op->count);
	add_watched(&role->params, op);
	add_expiry(&role->params, &op->after);
	add_expiry(&role->params, &op->last);
	return true;
}

static void expire_start(struct role *role)
{
	static const struct step steps[] = {
	    {add_expire, SQL_EXPIRED_FIND, take_expired},
	    END_FOUND,
	    {add_advance, SQL_EXPIRED_ADVANCE, NULL},
	};
	struct store_expire *op = BATCH_OP(role, struct store_expire, 0);
	op->results = NULL;
	op->count = 0;
	op->more = false;
	steps_run(role, STEPS(steps));
}

void store_expire(struct store *store, struct store_expire *op)
{
	static const struct op_kind kind = {.name = "expire", .start = expire_start};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 0);
}

/* --- lost workers ------------------------------------------------------------------------------------------------- */

static bool add_sweep(struct role *role)
{
	const struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	params_int8(&role->params, op->limit);
	if (op->all)
		params_null(&role->params);
	else
		params_int8s(&role->params, op->of, op->count_of);
	params_int8(&role->params, op->after.key);
	params_int8(&role->params, op->after.id);
	return true;
}

static enum step_result take_lost(struct role *role, const PGresult *rows)
{
	struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	int end = PQntuples(rows) - 1;
	if (end >= 0) {
		op->last = (struct store_place){row_int8(rows, end, 4), row_int8(rows, end, 3)};
		op->more = row_int8(rows, end, 5) >= op->limit;
	}
	if (attempts_found(rows))
		return found(role, rows, STORE_LOST, NULL, 2);
	for (int row = 0; row < end; row++) /* it was just closed; if not, that is a bug */
		log_debug(
		    "lease", "journal row %lld of a lost worker has nothing that runs", (long long)row_int8(rows, row, 3));
	return STEP_NEXT;
}

/* Sends nothing. */
static bool set_swept(struct role *role)
{
	struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	op->results = results_of(role, &op->count);
	return false;
}

static void sweep_start(struct role *role)
{
	static const struct step steps[] = {
	    {add_sweep, SQL_LOST_FIND, take_lost},
	    END_FOUND,
	    {set_swept, SQL_COMMIT, NULL},
	};
	struct store_sweep *op = BATCH_OP(role, struct store_sweep, 0);
	op->more = false;
	steps_run(role, STEPS(steps));
}

void store_sweep(struct store *store, struct store_sweep *op)
{
	static const struct op_kind kind = {.name = "sweep", .start = sweep_start};
	store_give(store, ROLE_LEASE, &kind, &op->op, 1, 0);
}

/* --- undelivered tasks -------------------------------------------------------------------------------------------- */

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

/* Returns the operations for which it found something, if there are several, to the list. */
static enum step_result take_unarrived(struct role *role, const PGresult *rows)
{
	struct store_op *again[ROLE_BATCH_OPS];
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_requeue *op = requeuing(role, row_int4(rows, row, 3) - 1);
		if (row_null(rows, row, 0))
			op->lowest_open = row_int8(rows, row, 2);
		else
			op->found = true;
	}
	if (role->count == 1 && requeuing(role, 0)->found)
		return found(role, rows, STORE_REQUEUED, "it never arrived at its worker and was requeued", -1);
	int n = found_leave(role, again);
	role_done(role);
	for (int i = 0; i < n; i++)
		role_add(role, again[i]);
	return STEP_ENDED;
}

/* Sends nothing. */
static bool set_requeued(struct role *role)
{
	struct store_requeue *op = requeuing(role, 0);
	op->results = results_of(role, &op->count);
	return false;
}

/* Adds each worker's place in $1, once for each element of its list. */
static void add_places(struct role *role, bool of_held)
{
	params_array_begin(&role->params, PARAMS_INT4);
	for (int i = 0; i < role->count; i++) {
		const struct store_holding *h = &requeuing(role, i)->holding;
		for (int k = 0; k < (of_held ? h->held_count : h->waiting_count); k++)
			params_add_int4(&role->params, i + 1);
	}
	params_array_end(&role->params);
}

static bool add_holdings(struct role *role)
{
	static const struct params_column workers[] = {
	    COLUMN(struct store_requeue, holding.incarnation, INT8),
	    COLUMN(struct store_requeue, holding.highest_fetch, INT8),
	    COLUMN(struct store_requeue, lowest_fetch, INT8),
	};
	static const struct params_column waiting[] = {
	    COLUMN_LIST(struct store_requeue, holding.waiting, holding.waiting_count, INT8),
	};
	static const struct params_column held[] = {
	    COLUMN_LIST(struct store_requeue, holding.held_ids, holding.held_count, INT8),
	    COLUMN_LIST(struct store_requeue, holding.held_tokens, holding.held_count, TIME),
	};
	BATCH_COLUMNS(role, workers);
	add_places(role, false);
	BATCH_COLUMNS(role, waiting);
	add_places(role, true);
	BATCH_COLUMNS(role, held);
	return true;
}

static void requeue_start(struct role *role)
{
	static const struct step steps[] = {
	    {add_holdings, SQL_REQUEUE_FIND, take_unarrived},
	    END_FOUND,
	    {set_requeued, SQL_COMMIT, NULL},
	};
	for (int i = 0; i < role->count; i++) {
		struct store_requeue *op = requeuing(role, i);
		op->results = NULL;
		op->count = 0;
		op->found = false;
		op->lowest_open = op->holding.highest_fetch;
	}
	steps_run(role, STEPS(steps));
}

void store_requeue(struct store *store, struct store_requeue *op)
{
	static const struct op_kind kind = {.name = "requeue", .start = requeue_start, .joins = requeue_joins};
	const struct store_holding *h = &op->holding;
	int64_t claimed = (int64_t)h->held_count + h->waiting_count;
	store_give(
	    store, ROLE_REQUEUE, &kind, &op->op, 1 + (int)(claimed / REQUEUE_HELD), sizeof *op + 16 * (size_t)claimed);
}
