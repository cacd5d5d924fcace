/*
 * Submits tasks: those of many calls in one statement, which is a simpler one if none of them has special fields. With
 * keys it is a transaction of up to seven statements between BEGIN and COMMIT; a call with tasks of batches runs alone,
 * in one of up to ten.
 */
#include "common/clock.h"
#include "manager/store/steps.h"
#include "manager/store/store_internal.h"
#include "manager/store/submit_json.h"
#include "manager/store/submit_locks.h"

#include <stdlib.h>
#include <string.h>

/* The state of a batch: role->state. */
struct batch {
	int total;                      /* tasks */
	struct store_task **tasks;      /* all the batch's tasks, in order; after `created` in the same block */
	const void **some;              /* those that a statement is for */
	struct store_created created[]; /* of each task */
};

static const struct op_kind lock_wait_kind;

static struct store_submit *submit_at(const struct role *role, int i)
{
	return BATCH_OP(role, struct store_submit, i);
}

/* Returns the number of tasks chosen for a statement. */
static int choose(struct role *role, bool (*wanted)(const struct store_task *, const struct store_created *))
{
	struct batch *batch = role->state;
	int n = 0;
	for (int i = 0; i < batch->total; i++)
		if (wanted(batch->tasks[i], &batch->created[i]))
			batch->some[n++] = batch->tasks[i];
	return n;
}

/* --- before the tasks: batches and keys --------------------------------------------------------------------------- */

/* True if a shorter lock timeout is needed: for part of a batch that could not get a lock in time, to find the
 * locked operation soon while others wait; and for an operation whose key is in use, if others wait for the role. */
static bool has_lock_timeout(const struct role *role)
{
	return role->batch[0]->kind == &lock_wait_kind ? role->waiting != NULL : role->batch[0]->batch_limit != 0;
}

static bool add_begin(struct role *role)
{
	const struct store_submit *op = submit_at(role, 0);
	return op->keyed || op->batched || has_lock_timeout(role);
}

static bool add_lock_timeout(struct role *role)
{
	return has_lock_timeout(role);
}

static void add_request_ids(struct role *role, bool (*wanted)(const struct store_submit *))
{
	params_array_begin(&role->params, PARAMS_UUID);
	for (int i = 0; i < role->count; i++)
		if (!wanted || wanted(submit_at(role, i)))
			params_add_uuid(&role->params, submit_at(role, i)->request_id);
		else
			params_add_null(&role->params);
	params_array_end(&role->params);
}

/* A repeated call with batches gets the answer of the first time, whatever the state of its batch is now. */
static bool add_recall_first(struct role *role)
{
	if (!submit_at(role, 0)->batched)
		return false;
	add_request_ids(role, NULL);
	return true;
}

static enum step_result take_recalled(struct role *role, const PGresult *rows);

static enum step_result take_recalled_first(struct role *role, const PGresult *rows)
{
	return PQntuples(rows) ? take_recalled(role, rows) : STEP_NEXT;
}

static const struct params_column key_columns[] = {
    COLUMN(struct store_task, queue, TEXT),
    COLUMN(struct store_task, key, TEXT),
};

static bool has_key(const struct store_task *task, const struct store_created *created)
{
	(void)created;
	return task->key != NULL;
}

static bool add_keys(struct role *role)
{
	const struct batch *batch = role->state;
	params_columns(&role->params, batch->some, choose(role, has_key), COLUMNS(key_columns));
	return true;
}

/* All operations of a batch are keyed, or none is: see joins. */
static bool add_expired_keys(struct role *role)
{
	return submit_at(role, 0)->keyed && add_keys(role);
}

/* A call whose key is in use waits for it before it locks its batch. */
static bool add_keys_to_wait_for(struct role *role)
{
	const struct store_submit *op = submit_at(role, 0);
	return op->batched && op->op.kind == &lock_wait_kind && add_keys(role);
}

static bool add_batches(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_task, queue, TEXT),
	    COLUMN_OR_NULL(struct store_task, batch, INT8, 0),
	};
	const struct batch *batch = role->state;
	const struct store_submit *op = submit_at(role, 0);
	if (!op->batched)
		return false;
	params_uuid(&role->params, op->request_id);
	params_columns(&role->params, batch->tasks, batch->total, COLUMNS(columns));
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int k = 0; k < op->count; k++)
		params_add_text(&role->params, op->tasks[k].task_version ? op->tasks[k].key : NULL);
	params_array_end(&role->params);
	return true;
}

static enum step_result take_batches(struct role *role, const PGresult *rows)
{
	const struct batch *batch = role->state;
	for (int row = 0; row < PQntuples(rows) && row < batch->total; row++) {
		batch->tasks[row]->batch_id = row_int8(rows, row, 1);
		batch->tasks[row]->blocked = row_bool(rows, row, 2);
		batch->tasks[row]->begins = row_bool(rows, row, 3);
	}
	return STEP_NEXT;
}

/* --- the tasks ---------------------------------------------------------------------------------------------------- */

static const struct params_column task_columns[] = {
    COLUMN(struct store_task, call, INT4),
    COLUMN(struct store_task, route, INT4),
    COLUMN_OR_NULL(struct store_task, run_at_us, TIME, STORE_TIME_BEGIN),
    COLUMN(struct store_task, delay_ms, INT8),
    /* the lists strings and numbers */
    COLUMN(struct store_task, queue, TEXT),
    COLUMN(struct store_task, type, TEXT),
    COLUMN(struct store_task, details, TEXT),
    COLUMN(struct store_task, source, TEXT),
    COLUMN(struct store_task, priority, INT4),
    COLUMN(struct store_task, max_attempts, INT4),
    COLUMN(struct store_task, timeout_ms, INT8),
    COLUMN(struct store_task, retry_base_ms, INT8),
    COLUMN(struct store_task, retry_max_ms, INT8),
};

/* The columns that submit_plain.sql and submit_one.sql do not have, before the texts. */
static const struct params_column special_columns[] = {
    COLUMN_OR_NULL(struct store_task, key_ttl_ms, INT8, 0),
    COLUMN(struct store_task, retry_policy, TEXT),
    COLUMN_OR_NULL(struct store_task, task_version, INT8, 0),
    COLUMN_OR_NULL(struct store_task, batch_id, INT8, 0),
    COLUMN(struct store_task, blocked, BOOL),
    COLUMN_OR_NULL(struct store_task, pipeline_id, INT8, 0),
    COLUMN(struct store_task, stage, TEXT),
    COLUMN_OR_NULL(struct store_task, parent, INT8, 0),
};

static bool is_plain(const struct role *role)
{
	for (int i = 0; i < role->count; i++)
		if (!submit_at(role, i)->plain)
			return false;
	return true;
}

static bool add_tasks(struct role *role)
{
	const struct batch *batch = role->state;
	add_request_ids(role, NULL);
	params_columns(&role->params, batch->tasks, batch->total, COLUMNS(task_columns));
	return true;
}

static bool add_one_task(struct role *role)
{
	return ((const struct batch *)role->state)->total == 1 && is_plain(role) && add_tasks(role);
}

static bool add_plain_tasks(struct role *role)
{
	return ((const struct batch *)role->state)->total > 1 && is_plain(role) && add_tasks(role);
}

static bool add_special_tasks(struct role *role)
{
	const struct batch *batch = role->state;
	if (is_plain(role))
		return false;
	add_tasks(role);
	params_columns(&role->params, batch->tasks, batch->total, COLUMNS(special_columns));
	for (int i = 0; i < SQL_SUBMITTED; i++)
		params_columns(&role->params, batch->tasks, batch->total,
		    &(struct params_column)COLUMN(struct store_task, texts[i], TEXT), 1);
	return true;
}

/* A call without rows is a repetition: created_count is −1 until its answer is recalled. */
static enum step_result take_tasks(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int i = 0; i < role->count; i++)
		submit_at(role, i)->created_count = -1;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_submit *op = submit_at(role, row_int4(rows, row, 0) - 1);
		bool created = !row_null(rows, row, 2);
		op->created_count = op->count;
		batch->created[row_int8(rows, row, 1) - 1] = (struct store_created){
		    .id = row_int8(rows, row, 2),
		    .existing = !created,
		    .created = created,
		    .version = row_time(rows, row, 3),
		    .run_at_us = row_time(rows, row, 4),
		};
	}
	return STEP_NEXT;
}

/* --- tasks whose key is taken ------------------------------------------------------------------------------------- */

static bool key_is_taken(const struct store_task *task, const struct store_created *created)
{
	(void)task;
	return created->existing;
}

static bool has_taken_version(const struct store_task *task, const struct store_created *created)
{
	return created->existing && task->task_version;
}

static bool add_taken_keys(struct role *role)
{
	static const struct params_column owners[] = {COLUMN(struct store_task, owner, TEXT)};
	const struct batch *batch = role->state;
	int n = choose(role, key_is_taken);
	params_columns(&role->params, batch->some, n, COLUMNS(key_columns));
	params_columns(&role->params, batch->some, n, COLUMNS(owners));
	return n > 0;
}

/* The rows are in the order of the keys, but a key that has just expired has none: a retry finds it free. */
static enum step_result take_owners(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	int key = 0, row = 0;
	for (int i = 0; i < batch->total; i++) {
		if (!batch->created[i].existing)
			continue;
		key++;
		if (row == PQntuples(rows) || row_int8(rows, row, 0) != key)
			return STEP_RETRY;
		batch->created[i].id = row_int8(rows, row++, 1);
	}
	return STEP_NEXT;
}

/* submit_newer.sql is for tasks with a version: it may be newer than the key's. */
static bool add_versions(struct role *role)
{
	const struct batch *batch = role->state;
	int n = choose(role, has_taken_version);
	if (!n)
		return false;
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int i = 0; i < n; i++) {
		char *json = submit_json(batch->some[i]);
		params_add_text(&role->params, json);
		free(json);
	}
	params_array_end(&role->params);
	return true;
}

static enum step_result take_newer(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int i = 0, row = 0; i < batch->total && row < PQntuples(rows); i++) {
		struct store_created *created = &batch->created[i];
		if (!has_taken_version(batch->tasks[i], created))
			continue;
		created->id = row_int8(rows, row, 1);
		created->restarted = row_bool(rows, row, 2);
		created->waits = created->restarted && !row_null(rows, row, 3);
		created->route = row_int4(rows, row, 3);
		created->priority = row_int4(rows, row, 4);
		created->version = row_time(rows, row, 5);
		created->run_at_us = row_time(rows, row, 6);
		row++;
	}
	return STEP_NEXT;
}

static bool add_amended_requests(struct role *role)
{
	static const struct params_column columns[] = {
	    COLUMN(struct store_created, id, INT8),
	    COLUMN(struct store_created, existing, BOOL),
	    COLUMN(struct store_created, restarted, BOOL),
	};
	struct batch *batch = role->state;
	struct params *p = &role->params;
	int n = 0;
	if (!choose(role, key_is_taken))
		return false;
	add_request_ids(role, NULL);
	params_array_begin(p, PARAMS_INT4);
	for (int i = 0; i < batch->total; i++)
		if (submit_at(role, batch->tasks[i]->call - 1)->created_count >= 0) {
			params_add_int4(p, batch->tasks[i]->call);
			batch->some[n++] = &batch->created[i];
		}
	params_array_end(p);
	params_columns(p, batch->some, n, COLUMNS(columns));
	return true;
}

/* --- after the tasks ---------------------------------------------------------------------------------------------- */

static bool is_repetition(const struct store_submit *op)
{
	return op->created_count < 0;
}

static bool add_repetitions(struct role *role)
{
	for (int i = 0; i < role->count; i++)
		if (is_repetition(submit_at(role, i))) {
			add_request_ids(role, is_repetition);
			return true;
		}
	return false;
}

/* Repeats the answers of calls that are repetitions. */
static enum step_result take_recalled(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_submit *op = submit_at(role, (int)row_int8(rows, row, 0) - 1);
		const char *ids = NULL, *existing = NULL, *restarted = NULL;
		int n = row_array(rows, row, 1, &ids), flags = row_array(rows, row, 2, &existing);
		int more_flags = row_array(rows, row, 5, &restarted);
		op->created_count = strcmp(row_text(rows, row, 3), "submit") ? 0 : n; /* 0: another call's id */
		for (int i = 0; i < n && i < op->count; i++) {
			int length;
			uint64_t id;
			memcpy(&id, row_array_next(&ids, &length), 8);
			op->created[i] = (struct store_created){.id = (int64_t)be64toh(id), .recalled = true};
			if (i < flags)
				op->created[i].existing = *row_array_next(&existing, &length) != 0;
			if (i < more_flags)
				op->created[i].restarted = *row_array_next(&restarted, &length) != 0;
		}
	}
	return STEP_COMMIT;
}

static bool begins_batch(const struct store_task *task, const struct store_created *created)
{
	(void)created;
	return task->begins;
}

/* Batches begin whose first tasks were created. */
static bool add_beginning_batches(struct role *role)
{
	static const struct params_column columns[] = {COLUMN(struct store_task, batch_id, INT8)};
	const struct batch *batch = role->state;
	int n = submit_at(role, 0)->batched ? choose(role, begins_batch) : 0;
	if (n)
		params_columns(&role->params, batch->some, n, COLUMNS(columns));
	return n > 0;
}

static const struct step steps[] = {
    {add_begin, SQL_BEGIN, NULL},
    {add_lock_timeout, SQL_SUBMIT_LOCK_TIMEOUT, NULL},
    {add_recall_first, SQL_SUBMIT_RECALL, take_recalled_first},
    {add_keys_to_wait_for, SQL_SUBMIT_AWAIT_KEYS, NULL},
    {add_batches, SQL_SUBMIT_BATCHES, take_batches},
    {add_expired_keys, SQL_SUBMIT_DROP_EXPIRED_KEYS, NULL},
    {add_one_task, SQL_SUBMIT_ONE, take_tasks},
    {add_plain_tasks, SQL_SUBMIT_PLAIN, take_tasks},
    {add_special_tasks, SQL_SUBMIT, take_tasks},
    {add_taken_keys, SQL_SUBMIT_KEY_OWNERS, take_owners},
    {add_versions, SQL_SUBMIT_NEWER, take_newer},
    {add_amended_requests, SQL_SUBMIT_AMEND_REQUESTS, NULL},
    {add_repetitions, SQL_SUBMIT_RECALL, take_recalled},
    {add_beginning_batches, SQL_BATCHES_BEGIN, NULL},
    {steps_in_transaction, SQL_COMMIT, NULL},
};

static void start(struct role *role)
{
	size_t total = 0;
	int n = 0;
	for (int i = 0; i < role->count; i++)
		total += (size_t)submit_at(role, i)->count;
	struct batch *batch = role->state =
	    mem_calloc(1, sizeof *batch + total * (sizeof *batch->created + sizeof *batch->tasks + sizeof *batch->some));
	batch->total = (int)total;
	batch->tasks = (struct store_task **)(batch->created + total);
	batch->some = (const void **)(batch->tasks + total);
	for (int i = 0; i < role->count; i++) {
		struct store_submit *op = submit_at(role, i);
		op->created = &batch->created[n];
		for (int k = 0; k < op->count; k++) {
			struct store_task *task = batch->tasks[n++] = &op->tasks[k];
			task->call = i + 1;
			task->batch_id = 0;
			task->blocked = task->begins = false;
		}
	}
	steps_run(role, STEPS(steps));
}

/* A request id may be only once in a statement, or it would conflict with itself. Calls with keys do not join those
 * without; calls with tasks of batches run alone, and those that wait for a lock. */
static bool joins(const struct role *role, const struct store_op *other)
{
	const struct store_submit *op = (const struct store_submit *)other;
	const struct store_submit *first = submit_at(role, 0);
	if (op->keyed != first->keyed || op->batched || first->batched || op->op.kind == &lock_wait_kind)
		return false;
	for (int i = 0; i < role->count; i++)
		if (!memcmp(submit_at(role, i)->request_id, op->request_id, 16))
			return false;
	return true;
}

static void wait_for_keys(struct store *store, struct store_op *op, const char *problem);

static const struct op_kind kind = {.name = "submit", .start = start, .joins = joins, .blocked = wait_for_keys};

/* An operation that is blocked again goes to the end of the list, so that one key does not delay others. */
static const struct op_kind lock_wait_kind = {.name = "submit with a key in use",
    .start = start,
    .joins = joins,
    .blocked = wait_for_keys,
    .waits_for = submit_waits_for};

static void wait_for_keys(struct store *store, struct store_op *op, const char *problem)
{
	struct store_submit *submit = (struct store_submit *)op;
	int64_t now = clock_monotonic_ms();
	(void)problem;
	submit_locks_note(&store->submit_locks, submit, now);
	if (op->deadline_ms && op->deadline_ms <= now) {
		struct reeve_error error;
		error_set(&error, STATUS(UNAVAILABLE), "%s", submit_waits_for(op));
		op->done(op, &error);
		return;
	}
	bool again = op->again;
	if (op->kind == &lock_wait_kind)
		role_pause(&store->roles[ROLE_KEYS]);
	op->kind = &lock_wait_kind;
	role_add(&store->roles[ROLE_KEYS], op);
	op->again = again;
}

void store_submit(struct store *store, struct store_submit *op)
{
	size_t bytes = 0;
	op->keyed = op->batched = false;
	op->plain = true;
	for (int i = 0; i < op->count; i++) {
		const struct store_task *t = &op->tasks[i];
		bytes += 256 + strlen(t->details);
		op->keyed |= t->key != NULL;
		op->batched |= t->batched || t->batch;
		for (int k = 0; k < SQL_SUBMITTED; k++)
			op->plain &= !t->texts[k];
		op->plain &= !t->key_ttl_ms && !t->retry_policy && !t->task_version && !t->pipeline_id && !t->parent;
	}
	op->plain &= !op->batched;
	bool waits = (op->keyed || op->batched) && submit_locks_have(&store->submit_locks, op, clock_monotonic_ms());
	store_give(store, waits ? ROLE_KEYS : ROLE_SUBMIT, waits ? &lock_wait_kind : &kind, &op->op, op->count, bytes);
}
