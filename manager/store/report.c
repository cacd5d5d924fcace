/*
 * Ends attempts as reported. A batch of reports runs some of these statements, usually each in its own transaction:
 *
 *   reporters_note.sql  notes the callers of pull clients' results
 *   progress_keep.sql  the progress and log lines that results bring: then all is one transaction
 *   complete_one.sql  a completed attempt of a plain task, if the batch has no other attempt
 *   complete.sql      completed attempts of plain tasks, the usual case
 *   complete_all.sql  other completed attempts: only complete.sql finds out which tasks are plain, and leaves these
 *   end_attempts.sql  all other outcomes, and completed attempts whose task continues
 *   late_results.sql  attempts that no longer had their lock
 *
 * If one fails, the batch is tried again without the attempts that earlier ones ended. All can be repeated without
 * harm; complete_all.sql and end_attempts.sql are repeated once if both left a completed attempt.
 *
 * For some time after a batch met a lock that another transaction holds for long, batches are careful: all statements
 * but the last are one transaction, which first locks the rows that they will change, as far as these are free. The
 * attempts whose rows are not free must be reported again. Several managers lock the row of a batch all the time, each
 * for some milliseconds: it is waited for, unless such a wait has just been in vain.
 */
#include "manager/store/progress.h"
#include "manager/store/steps.h"
#include "manager/store/store_internal.h"

#include "common/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A statement with its commit costs as much as 30 results. Fewer, larger answers also save the manager and the workers
 * time. */
enum { REPORTS_BATCH_WAIT_MS = 1, REPORTS_BATCH = 100 };

/* How long reports are careful if they meet a lock again, and how long they do not wait for a batch that was locked: so
 * waits for one row (FAST_LOCK_MS) take less than a hundredth of the time. */
enum { CAREFUL_AGAIN_MS = 10000 };

/* One reported attempt. One batch may contain several reports of the same attempt: the copies are chained to the
 * first and share its outcome. Those of callers that do not hold it are separate. */
struct entry {
	struct store_result *result;
	const struct store_report *report;
	struct entry *copy;
	bool applied;
	bool gone; /* it has lost its lock: the task has another token, or has ended; or it is another identity's */
};

struct batch {
	int count;             /* distinct attempts */
	bool careful;          /* see above */
	bool again;            /* complete_all.sql is repeated */
	struct entry **sorted; /* the distinct attempts, by id and token; after the entries in the same block */
	struct entry **some;   /* those that a statement is for */
	const struct store_result **results; /* … and their results */
	struct entry entries[];
};

static int by_attempt(const void *a, const void *b)
{
	const struct store_result *x = (*(struct entry *const *)a)->result, *y = (*(struct entry *const *)b)->result;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->token != y->token)
		return x->token < y->token ? -1 : 1;
	return x->foreign - y->foreign;
}

/* True for attempts that complete_all.sql may end. A result that names the next stage is for end_attempts.sql. */
static bool is_completed(const struct entry *e)
{
	return e->result->outcome == STORE_COMPLETED && !e->applied && !e->gone && !e->result->stage;
}

/* True for attempts that complete.sql and complete_one.sql may end: they have no remarks. */
static bool may_be_plain(const struct entry *e)
{
	return is_completed(e) && !e->result->remark;
}

/* True for attempts that end_attempts.sql may end: those not completed; and completed ones whose task has not ended,
 * because a newer version or a pipeline's next stage must run, or because the lock is lost. */
static bool may_end(const struct entry *e)
{
	return !e->applied && !e->gone;
}

static bool is_open(const struct entry *e)
{
	return !e->applied;
}

/* Chooses the attempts for a statement. Returns their number. */
static int choose(struct batch *batch, bool (*wanted)(const struct entry *))
{
	int n = 0;
	for (int i = 0; i < batch->count; i++)
		if (wanted(batch->sorted[i])) {
			batch->results[n] = batch->sorted[i]->result;
			batch->some[n++] = batch->sorted[i];
		}
	return n;
}

static void add_outcomes(struct params *p, const struct batch *batch, int n)
{
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		params_add_text(p, store_outcome_name(batch->results[i]->outcome));
	params_array_end(p);
}

static struct entry *find(struct batch *batch, int64_t id, int64_t token)
{
	struct store_result wanted = {.id = id, .token = token};
	struct entry entry = {.result = &wanted}, *key = &entry;
	struct entry **at = bsearch(&key, batch->sorted, (size_t)batch->count, sizeof *batch->sorted, by_attempt);
	return at ? *at : NULL;
}

/* Marks an attempt as accepted. Unless a transaction is open, that is final, even if a later statement fails and the
 * batch is tried again. */
static void mark_accepted(struct role *role, struct entry *e)
{
	e->applied = true;
	e->result->committed = !conn_in_transaction(role->conn);
}

static void mark_later(struct entry *e)
{
	e->result->ack = STORE_LATER;
	e->result->ended = e->result->batched = false;
	e->applied = true;
}

/* --- careful batches: locks first ------------------------------------------------------------------------------- */

static const struct params_column attempt_columns[] = {
    COLUMN(struct store_result, id, INT8),
    COLUMN(struct store_result, token, TIME),
    COLUMN(struct store_result, result, TEXT),
};

enum { ID_AND_TOKEN = 2 };

static bool add_to_lock(struct role *role)
{
	struct batch *batch = role->state;
	int64_t locked[RECENT_LOCKS];
	if (!batch->careful)
		return false;
	int n = choose(batch, may_end);
	params_columns(&role->params, batch->results, n, attempt_columns, ID_AND_TOKEN);
	params_int8s(&role->params, locked, recent_locks_list(&role->store->batch_locks, clock_monotonic_ms(), locked));
	return n > 0;
}

/* Remembers for which batch a statement waited in vain, and forgets one that is free again. */
static void note_batch(struct recent_locks *locks, int64_t batch, bool waited, bool locked)
{
	if (waited)
		recent_locks_add(locks, (uint64_t)batch, clock_monotonic_ms() + CAREFUL_AGAIN_MS);
	else if (!locked)
		recent_locks_forget(locks, (uint64_t)batch);
}

/* Marks attempts that have lost their lock, and those to be reported again because a row that ending them changes is
 * locked. */
static enum step_result take_locked(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int i = 0; i < batch->count; i++)
		batch->sorted[i]->gone = is_open(batch->sorted[i]);
	for (int row = 0; row < PQntuples(rows); row++) {
		struct entry *e = batch->some[row_int8(rows, row, 0) - 1];
		e->gone = false;
		if (!row_null(rows, row, 2))
			note_batch(
			    &role->store->batch_locks, row_int8(rows, row, 2), row_bool(rows, row, 3), row_bool(rows, row, 4));
		if (row_bool(rows, row, 1))
			continue;
		mark_later(e);
	}
	return STEP_NEXT;
}

/* --- callers that are not workers --------------------------------------------------------------------------------- */

static bool has_reporter(const struct entry *e)
{
	return may_end(e) && e->report->for_another;
}

static void add_actors(struct params *p, const struct batch *batch, int n)
{
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < n; i++)
		params_add_text(p, batch->some[i]->report->actor);
	params_array_end(p);
}

static bool add_reporters(struct role *role)
{
	struct batch *batch = role->state;
	int n = choose(batch, has_reporter);
	params_columns(&role->params, batch->results, n, attempt_columns, ID_AND_TOKEN);
	add_actors(&role->params, batch, n);
	add_outcomes(&role->params, batch, n);
	return n > 0;
}

/* --- progress ----------------------------------------------------------------------------------------------------- */

static bool has_progress(const struct entry *e)
{
	return may_end(e) && e->result->progress;
}

static bool add_progress(struct role *role)
{
	struct batch *batch = role->state;
	int n = choose(batch, has_progress);
	const struct store_attempt_progress **all = n ? mem_malloc(sizeof *all * (size_t)n) : NULL;
	for (int i = 0; i < n; i++)
		all[i] = batch->results[i]->progress;
	if (n)
		progress_add(&role->params, all, n, 0);
	free(all);
	return n > 0;
}

/* An attempt whose task is locked must be reported again: its lines must not be lost. */
static enum step_result take_progress(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int row = 0; row < PQntuples(rows); row++)
		if (row_bool(rows, row, 1))
			mark_later(batch->some[row_int8(rows, row, 0) - 1]);
	return STEP_NEXT;
}

/* --- completed attempts ------------------------------------------------------------------------------------------- */

/* Adds the parameters of complete.sql and complete_one.sql. */
static bool add_plain(struct role *role)
{
	struct batch *batch = role->state;
	int n = choose(batch, may_be_plain);
	params_columns(&role->params, batch->results, n, COLUMNS(attempt_columns));
	params_int4(&role->params, role->store->options.history_days);
	return n > 0;
}

static bool add_one(struct role *role)
{
	return ((const struct batch *)role->state)->count == 1 && add_plain(role);
}

static bool add_many(struct role *role)
{
	return ((const struct batch *)role->state)->count > 1 && add_plain(role);
}

static bool add_completed(struct role *role)
{
	static const struct params_column columns[] = {COLUMN(struct store_result, remark, TEXT)};
	struct batch *batch = role->state;
	int n = choose(batch, is_completed);
	params_columns(&role->params, batch->results, n, COLUMNS(attempt_columns));
	params_int4(&role->params, role->store->options.history_days);
	params_columns(&role->params, batch->results, n, COLUMNS(columns));
	return n > 0;
}

/* Reads a row of complete.sql or complete_one.sql, or the same columns of complete_all.sql. */
static struct entry *completed_row_take(struct role *role, const PGresult *rows, int row)
{
	struct entry *e = find(role->state, row_int8(rows, row, 0), row_time(rows, row, 1));
	assert(e);
	e->result->ack = STORE_ACCEPTED;
	e->result->ended = true;
	e->result->becomes = "completed";
	e->result->route = row_int4(rows, row, 2);
	e->result->attempt = row_int2(rows, row, 3);
	mark_accepted(role, e);
	return e;
}

static enum step_result take_plain(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++)
		completed_row_take(role, rows, row);
	return STEP_NEXT;
}

static enum step_result take_completed(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++)
		completed_row_take(role, rows, row)->result->batched = row_bool(rows, row, 4);
	return STEP_NEXT;
}

/* --- all others --------------------------------------------------------------------------------------------------- */

static bool add_ending(struct role *role)
{
	static const struct params_column errors[] = {
	    COLUMN(struct store_result, error, TEXT),
	    COLUMN(struct store_result, error_code, TEXT),
	};
	static const struct params_column others[] = {
	    COLUMN(struct store_result, remark, TEXT),
	    COLUMN(struct store_result, stack_trace, TEXT),
	    COLUMN_OR_NULL(struct store_result, retry_in_ms, INT8, 0),
	    COLUMN(struct store_result, result, TEXT),
	    COLUMN(struct store_result, stage, TEXT),
	};
	struct batch *batch = role->state;
	struct params *p = &role->params;
	int n = choose(batch, may_end);
	params_columns(p, batch->results, n, attempt_columns, ID_AND_TOKEN);
	add_outcomes(p, batch, n);
	params_columns(p, batch->results, n, COLUMNS(errors));
	params_bool(p, true);
	params_int4(p, role->store->options.history_days);
	params_columns(p, batch->results, n, COLUMNS(others));
	return n > 0;
}

static enum step_result take_ended(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct entry *e = find(role->state, row_int8(rows, row, 0), row_time(rows, row, 1));
		assert(e);
		report_row_take(e->result, rows, row);
		mark_accepted(role, e);
	}
	return STEP_NEXT;
}

/* A newer version that prevented the completion may have been cancelled between the two statements. */
static bool add_completed_again(struct role *role)
{
	struct batch *batch = role->state;
	return batch->again = add_completed(role);
}

static bool add_ending_again(struct role *role)
{
	return ((struct batch *)role->state)->again && add_ending(role);
}

/* --- attempts without their lock ---------------------------------------------------------------------------------- */

static bool add_open(struct role *role)
{
	struct batch *batch = role->state;
	struct params *p = &role->params;
	int n = choose(batch, is_open);
	params_columns(p, batch->results, n, attempt_columns, ID_AND_TOKEN);
	add_outcomes(p, batch, n);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < n; i++)
		params_add_int8(p, batch->some[i]->report->incarnation);
	params_array_end(p);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < n; i++)
		if (batch->some[i]->report->identity)
			params_add_int8(p, batch->some[i]->report->identity);
		else
			params_add_null(p);
	params_array_end(p);
	add_actors(p, batch, n);
	return n > 0;
}

/* The rows are in the order of the attempts. */
static enum step_result take_late(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	int n = choose(batch, is_open);
	assert(n <= PQntuples(rows));
	for (int row = 0; row < n; row++) {
		struct entry *e = batch->some[row];
		e->result->ack = row_bool(rows, row, 1) ? STORE_REPEATED : STORE_LATE;
		e->result->ended = true; /* whatever its task's status, it does not wait because of this report */
		e->applied = true;
	}
	return STEP_NEXT;
}

/* --- the batch ---------------------------------------------------------------------------------------------------- */

/* Sends nothing: the copies of a report get its outcome. */
static bool share_with_copies(struct role *role)
{
	struct batch *batch = role->state;
	for (int i = 0; i < batch->count; i++) {
		struct entry *first = batch->sorted[i];
		for (struct entry *copy = first->copy; copy; copy = copy->copy) {
			copy->result->ack = first->result->ack == STORE_ACCEPTED ? STORE_REPEATED : first->result->ack;
			copy->result->ended = first->result->ended;
		}
	}
	return false;
}

static bool is_transaction(struct role *role)
{
	struct batch *batch = role->state;
	return batch->careful || choose(batch, has_progress) > 0;
}

static const struct step steps[] = {
    {is_transaction, SQL_BEGIN, NULL},
    {add_to_lock, SQL_ATTEMPTS_LOCK, take_locked},
    {add_reporters, SQL_REPORTERS_NOTE, NULL},
    {add_progress, SQL_PROGRESS_KEEP, take_progress},
    {add_one, SQL_COMPLETE_ONE, take_plain},
    {add_many, SQL_COMPLETE, take_plain},
    {add_completed, SQL_COMPLETE_ALL, take_completed},
    {add_ending, SQL_END_ATTEMPTS, take_ended},
    {add_completed_again, SQL_COMPLETE_ALL, take_completed},
    {add_ending_again, SQL_END_ATTEMPTS, take_ended},
    {steps_in_transaction, SQL_COMMIT, NULL},
    {add_open, SQL_LATE_RESULTS, take_late},
    {share_with_copies, SQL_COMMIT, NULL},
};

/* Keeps one entry of each attempt in `sorted`, and chains the copies to it. */
static void chain_copies(struct batch *batch, int n)
{
	for (int i = 0; i < n; i++) {
		struct entry *e = batch->sorted[i], *before = batch->count ? batch->sorted[batch->count - 1] : NULL;
		if (before && by_attempt(&before, &e) == 0 && e->applied && !before->applied) {
			e->copy = before;
			batch->sorted[batch->count - 1] = e;
		} else if (before && by_attempt(&before, &e) == 0) {
			e->copy = before->copy;
			before->copy = e;
		} else {
			batch->sorted[batch->count++] = e;
		}
	}
}

static void report_start(struct role *role)
{
	int total = 0, n = 0;
	for (int i = 0; i < role->count; i++)
		total += BATCH_OP(role, struct store_report, i)->count;
	struct batch *batch = mem_calloc(1,
	    sizeof *batch +
	        (sizeof *batch->entries + sizeof *batch->sorted + sizeof *batch->some + sizeof *batch->results) *
	            (size_t)total);
	batch->sorted = (struct entry **)(batch->entries + total);
	batch->some = batch->sorted + total;
	batch->results = (const struct store_result **)(batch->some + total);
	batch->careful = role_careful(role);
	role->state = batch;
	for (int i = 0; i < role->count; i++) {
		struct store_report *op = BATCH_OP(role, struct store_report, i);
		for (int k = 0; k < op->count; k++) {
			batch->entries[n] = (struct entry){.result = &op->results[k],
			    .report = op,
			    .applied = op->results[k].committed,
			    .gone = op->results[k].foreign};
			batch->sorted[n] = &batch->entries[n];
			n++;
		}
	}
	qsort(batch->sorted, (size_t)n, sizeof *batch->sorted, by_attempt);
	chain_copies(batch, n);
	steps_run(role, STEPS(steps));
}

void store_report(struct store *store, struct store_report *op)
{
	static const struct op_kind kind = {.name = "report",
	    .start = report_start,
	    .careful_again_ms = CAREFUL_AGAIN_MS,
	    .batch_wait_ms = REPORTS_BATCH_WAIT_MS,
	    .batch_weight = REPORTS_BATCH};
	size_t bytes = 0;
	for (int i = 0; i < op->count; i++) {
		const struct store_result *r = &op->results[i];
		bytes += 128 + (r->result ? strlen(r->result) : 0) + (r->error ? strlen(r->error) : 0) +
		    (r->progress ? store_progress_bytes(r->progress) : 0);
	}
	store_give(store, ROLE_REPORT, &kind, &op->op, op->count, bytes);
}
