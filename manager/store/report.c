/*
 * Ends attempts as reported. A batch of reports runs up to four different statements, each in its own transaction:
 *
 *   complete.sql      completed attempts of plain tasks, the usual case
 *   complete_all.sql  other completed attempts: only complete.sql finds out which tasks are plain, and leaves these
 *   end_attempts.sql  all other outcomes, and completed attempts whose task continues
 *   late_results.sql  attempts that no longer had their lock
 *
 * If one fails, the batch is tried again without the attempts that earlier ones ended. All can be repeated without
 * harm; the second and third are repeated once if both left a completed attempt.
 *
 * For a short time after a batch met a lock that another transaction holds for long, batches are careful: the first
 * three statements are one transaction, which first locks the rows that they will change, as far as these are free. The
 * attempts whose rows are not free must be reported again.
 */
#include "manager/store/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A statement with its commit costs as much as 30 results. Fewer, larger answers also save the manager and the workers
 * time. */
enum { REPORTS_GATHER_MS = 1, REPORTS_GATHER = 100 };

static const char *const outcome_names[STORE_OUTCOMES] = {
    [STORE_COMPLETED] = "completed",
    [STORE_FAILED] = "failed",
    [STORE_FATAL] = "fatal",
    [STORE_RETURNED] = "returned",
    [STORE_CANCELLED] = "cancelled",
    [STORE_LEASE_ENDED] = "lease_ended",
    [STORE_EXPIRED] = "expired",
    [STORE_LOST] = "lost",
    [STORE_REQUEUED] = "requeued",
};

const char *store_outcome_name(enum store_outcome outcome)
{
	assert(outcome < STORE_OUTCOMES);
	return outcome_names[outcome];
}

/* One reported attempt. One batch may contain several reports of the same attempt: the copies are chained to the
 * first and share its outcome. */
struct entry {
	struct store_result *result;
	int64_t incarnation;
	struct entry *copy;
	bool settled;
	bool gone;             /* it has lost its lock: the task has another token, or has ended */
};

struct batch {
	int count;             /* distinct attempts */
	bool again;            /* complete_all.sql was repeated */
	struct entry **sorted; /* the distinct attempts, by id and token; after the entries in the same block */
	struct entry entries[];
};

static int by_attempt(const void *a, const void *b)
{
	const struct store_result *x = (*(struct entry *const *)a)->result, *y = (*(struct entry *const *)b)->result;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->token > y->token) - (x->token < y->token);
}

static void report_done(struct role *role)
{
	struct batch *batch = role->state;
	for (int i = 0; i < batch->count; i++) {
		struct entry *first = batch->sorted[i];
		for (struct entry *copy = first->copy; copy; copy = copy->copy) {
			copy->result->ack =
			    first->result->ack == STORE_ACCEPTED ? STORE_REPEATED : first->result->ack;
			copy->result->ended = first->result->ended;
		}
	}
	role_done(role);
}

static void on_rescanned(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	int row = 0;
	for (int i = 0; i < batch->count; i++) {
		struct entry *e = batch->sorted[i];
		if (e->settled)
			continue;
		assert(row < PQntuples(rows));
		e->result->ack = row_bool(rows, row, 1) ? STORE_REPEATED : STORE_LATE;
		e->result->ended = true; /* whatever its task's status, it does not wait because of this report */
		e->settled = true;
		row++;
	}
	report_done(role);
}

/* Adds the ids and tokens of the attempts for which `wanted` is true; returns their number. */
static int add_attempts(struct params *p, const struct batch *batch, bool (*wanted)(const struct entry *))
{
	int n = 0;
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < batch->count; i++)
		if (wanted(batch->sorted[i])) {
			params_add_int8(p, batch->sorted[i]->result->id);
			n++;
		}
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int i = 0; i < batch->count; i++)
		if (wanted(batch->sorted[i]))
			params_add_time(p, batch->sorted[i]->result->token);
	params_array_end(p);
	return n;
}

static void add_texts(struct params *p, const struct batch *batch, bool (*wanted)(const struct entry *),
    const char *(*text)(const struct store_result *))
{
	params_array_begin(p, PARAMS_TEXT);
	for (int i = 0; i < batch->count; i++)
		if (wanted(batch->sorted[i]))
			params_add_text(p, text(batch->sorted[i]->result));
	params_array_end(p);
}

static const char *text_outcome(const struct store_result *r)
{
	return outcome_names[r->outcome];
}

static const char *text_result(const struct store_result *r)
{
	return r->result;
}

static const char *text_stage(const struct store_result *r)
{
	return r->stage;
}

static const char *text_error(const struct store_result *r)
{
	return r->error;
}

static const char *text_code(const struct store_result *r)
{
	return r->error_code;
}

static const char *text_remark(const struct store_result *r)
{
	return r->remark;
}

static const char *text_stack(const struct store_result *r)
{
	return r->stack;
}

/* True for attempts that complete_all.sql may end. A result that names the next stage is for end_attempts.sql. */
static bool is_completed(const struct entry *e)
{
	return e->result->outcome == STORE_COMPLETED && !e->settled && !e->gone && !e->result->stage;
}

/* True for attempts that complete.sql may end: it has no remarks. */
static bool may_be_plain(const struct entry *e)
{
	return is_completed(e) && !e->result->remark;
}

/* Adds the remarks of completed attempts; null if none has one. */
static void add_remarks(struct params *p, const struct batch *batch)
{
	bool any = false;
	for (int i = 0; i < batch->count; i++)
		any |= is_completed(batch->sorted[i]) && batch->sorted[i]->result->remark;
	if (any)
		add_texts(p, batch, is_completed, text_remark);
	else
		params_null(p);
}

/* True for attempts that end_attempts.sql may end: those not completed; and completed ones whose task has not ended,
 * because a newer version or a pipeline's next stage must run, or because the lock is lost. */
static bool may_end(const struct entry *e)
{
	return !e->settled && !e->gone;
}

static bool is_open(const struct entry *e)
{
	return !e->settled;
}

static void on_committed(struct role *role, const PGresult *rows);

static void ask_about_open(struct role *role)
{
	struct batch *batch = role->state;
	struct params *p = &role->params;
	params_reset(p);
	if (conn_in_transaction(role->conn)) {
		role_run(role, SQL_COMMIT, on_committed);
		return;
	}
	if (!add_attempts(p, batch, is_open)) {
		report_done(role);
		return;
	}
	add_texts(p, batch, is_open, text_outcome);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < batch->count; i++)
		if (is_open(batch->sorted[i]))
			params_add_int8(p, batch->sorted[i]->incarnation);
	params_array_end(p);
	role_run(role, SQL_LATE_RESULTS, on_rescanned);
}

static void on_committed(struct role *role, const PGresult *rows)
{
	(void)rows;
	ask_about_open(role);
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
static void settle(struct role *role, struct entry *e)
{
	e->settled = true;
	e->result->committed = !conn_in_transaction(role->conn);
}

void report_row_take(struct store_result *r, const PGresult *rows, int row)
{
	static const char *const all[] = {"failed", "queued", "dead", "cancelled", "completed"};
	const char *becomes = row_text(rows, row, 2);
	int i = 0;
	while (i < 4 && strcmp(all[i], becomes))
		i++;
	r->ack = STORE_ACCEPTED;
	r->becomes = all[i];
	r->ended = i >= 2;
	r->due_us = row_time(rows, row, 3);
	r->version = row_time(rows, row, 4);
	r->route = row_int4(rows, row, 5);
	r->priority = row_int4(rows, row, 6);
	r->batched = row_bool(rows, row, 7);
	r->attempt = row_int2(rows, row, 8);
}

static bool has_attempts(const struct batch *batch, bool (*wanted)(const struct entry *))
{
	for (int i = 0; i < batch->count; i++)
		if (wanted(batch->sorted[i]))
			return true;
	return false;
}

static void complete_all(struct role *role);

static void on_ended(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct entry *e = find(batch, row_int8(rows, row, 0), row_time(rows, row, 1));
		assert(e);
		report_row_take(e->result, rows, row);
		settle(role, e);
	}
	/* A newer version that prevented the completion may have been cancelled between the two statements. */
	if (!batch->again && has_attempts(batch, is_completed)) {
		batch->again = true;
		complete_all(role);
		return;
	}
	ask_about_open(role);
}

static void end_others(struct role *role)
{
	struct batch *batch = role->state;
	struct params *p = &role->params;
	params_reset(p);
	if (!add_attempts(p, batch, may_end)) {
		ask_about_open(role);
		return;
	}
	add_texts(p, batch, may_end, text_outcome);
	add_texts(p, batch, may_end, text_error);
	add_texts(p, batch, may_end, text_code);
	params_bool(p, true);
	params_int4(p, role->store->options.history_days);
	add_texts(p, batch, may_end, text_remark);
	add_texts(p, batch, may_end, text_stack);
	params_array_begin(p, PARAMS_INT8);
	for (int i = 0; i < batch->count; i++) {
		if (!may_end(batch->sorted[i]))
			continue;
		if (batch->sorted[i]->result->retry_in_ms)
			params_add_int8(p, batch->sorted[i]->result->retry_in_ms);
		else
			params_add_null(p);
	}
	params_array_end(p);
	add_texts(p, batch, may_end, text_result);
	add_texts(p, batch, may_end, text_stage);
	role_run(role, SQL_END_ATTEMPTS, on_ended);
}

/* Reads a row of complete.sql, or the same columns of complete_all.sql. */
static struct entry *completed_row_take(struct role *role, const PGresult *rows, int row)
{
	struct entry *e = find(role->state, row_int8(rows, row, 0), row_time(rows, row, 1));
	assert(e);
	e->result->ack = STORE_ACCEPTED;
	e->result->ended = true;
	e->result->becomes = "completed";
	e->result->route = row_int4(rows, row, 2);
	e->result->attempt = row_int2(rows, row, 3);
	settle(role, e);
	return e;
}

static void on_all_completed(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct entry *e = completed_row_take(role, rows, row);
		e->result->batched = row_bool(rows, row, 4);
	}
	end_others(role);
}

static void complete_all(struct role *role)
{
	struct batch *batch = role->state;
	struct params *p = &role->params;
	params_reset(p);
	if (!add_attempts(p, batch, is_completed)) {
		end_others(role);
		return;
	}
	add_texts(p, batch, is_completed, text_result);
	params_int4(p, role->store->options.history_days);
	add_remarks(p, batch);
	role_run(role, SQL_COMPLETE_ALL, on_all_completed);
}

static void on_completed(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++)
		completed_row_take(role, rows, row);
	complete_all(role);
}

static void complete(struct role *role)
{
	struct batch *batch = role->state;
	struct params *p = &role->params;
	params_reset(p);
	if (!add_attempts(p, batch, may_be_plain)) {
		complete_all(role);
		return;
	}
	add_texts(p, batch, may_be_plain, text_result);
	params_int4(p, role->store->options.history_days);
	role_run(role, SQL_COMPLETE, on_completed);
}

/* Keeps one entry of each attempt in `sorted`, and chains the copies to it. */
static void chain_copies(struct batch *batch, int n)
{
	for (int i = 0; i < n; i++) {
		struct entry *e = batch->sorted[i], *before = batch->count ? batch->sorted[batch->count - 1] : NULL;
		if (before && by_attempt(&before, &e) == 0 && e->settled && !before->settled) {
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

static bool is_any(const struct entry *e)
{
	(void)e;
	return true;
}

/* Marks attempts that have lost their lock, and those to be reported again because a row that ending them changes is
 * locked. */
static void on_locked(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int i = 0; i < batch->count; i++)
		batch->sorted[i]->gone = true;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct entry *e = batch->sorted[row_int8(rows, row, 0) - 1];
		e->gone = false;
		if (row_bool(rows, row, 1))
			continue;
		e->result->ack = STORE_LATER;
		e->result->ended = e->result->batched = false;
		e->settled = true;
	}
	complete(role);
}

static void on_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	add_attempts(&role->params, role->state, is_any);
	role_run(role, SQL_ATTEMPTS_LOCK, on_locked);
}

static void report_start(struct role *role)
{
	int total = 0, n = 0;
	for (int i = 0; i < role->count; i++)
		total += BATCH_OP(role, struct store_report, i)->count;
	struct batch *batch =
	    mem_calloc(1, sizeof *batch + (sizeof *batch->entries + sizeof *batch->sorted) * (size_t)total);
	batch->sorted = (struct entry **)(batch->entries + total);
	role->state = batch;
	for (int i = 0; i < role->count; i++) {
		struct store_report *op = BATCH_OP(role, struct store_report, i);
		for (int k = 0; k < op->count; k++) {
			batch->entries[n] = (struct entry){
			    .result = &op->results[k], .incarnation = op->incarnation, .settled = op->results[k].committed};
			batch->sorted[n] = &batch->entries[n];
			n++;
		}
	}
	qsort(batch->sorted, (size_t)n, sizeof *batch->sorted, by_attempt);
	chain_copies(batch, n);
	if (role_careful(role))
		role_run(role, SQL_BEGIN, on_begun);
	else
		complete(role);
}

void store_report(struct store *store, struct store_report *op)
{
	static const struct op_kind kind = {.name = "report",
	    .start = report_start,
	    .careful = true,
	    .gather_ms = REPORTS_GATHER_MS,
	    .gather_weight = REPORTS_GATHER};
	size_t bytes = 0;
	for (int i = 0; i < op->count; i++) {
		const struct store_result *r = &op->results[i];
		bytes += 128 + (r->result ? strlen(r->result) : 0) + (r->error ? strlen(r->error) : 0);
	}
	store_give(store, ROLE_REPORT, &kind, &op->op, op->count, bytes);
}
