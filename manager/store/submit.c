/*
 * Submits tasks: those of many calls in one statement, which is a simpler one if none of them has special fields. With
 * keys it is a transaction of up to seven statements between BEGIN and COMMIT; a call with tasks of batches runs alone,
 * in one of up to ten.
 */
#include "common/clock.h"
#include "manager/store/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { TASK_COLUMNS = 21 };

/* The state of a batch: role->state. */
struct batch {
	int total, conflicts;        /* tasks; and those whose key is taken */
	int64_t *batches;         /* of each task: its batch, whether it is blocked, and whether the batch begins with it;
	                           * NULL without batches */
	bool *held, *begins;
	struct store_made made[]; /* all the batch's tasks, in order */
};

static int total_tasks(const struct role *role)
{
	int n = 0;
	for (int i = 0; i < role->count; i++)
		n += BATCH_OP(role, struct store_submit, i)->count;
	return n;
}

static void commit(struct role *role)
{
	if (conn_in_transaction(role->conn))
		role_run(role, SQL_COMMIT, role_on_done);
	else
		role_done(role);
}

static void on_batches_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	commit(role);
}

/* Begins the batches whose first tasks were created. */
static void begin_batches(struct role *role)
{
	const struct batch *batch = role->state;
	int beginning = 0;
	if (!batch->batches) {
		commit(role);
		return;
	}
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < batch->total; i++)
		if (batch->begins[i]) {
			params_add_int8(&role->params, batch->batches[i]);
			beginning++;
		}
	params_array_end(&role->params);
	if (beginning) {
		role_run(role, SQL_BATCHES_BEGIN, on_batches_begun);
	} else {
		params_reset(&role->params);
		commit(role);
	}
}

/* Repeats the answers of calls that are repetitions. */
static void on_recalled(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_submit *op = BATCH_OP(role, struct store_submit, row_int8(rows, row, 0) - 1);
		const char *ids = NULL, *existing = NULL, *restarted = NULL;
		int n = row_array(rows, row, 1, &ids), flags = row_array(rows, row, 2, &existing);
		int more_flags = row_array(rows, row, 5, &restarted);
		op->made_count = strcmp(row_text(rows, row, 3), "submit") ? 0 : n; /* 0: another call's id */
		for (int i = 0; i < n && i < op->count; i++) {
			int length;
			uint64_t id;
			memcpy(&id, row_array_next(&ids, &length), 8);
			op->made[i] = (struct store_made){.id = (int64_t)be64toh(id), .recalled = true};
			if (i < flags)
				op->made[i].existing = *row_array_next(&existing, &length) != 0;
			if (i < more_flags)
				op->made[i].restarted = *row_array_next(&restarted, &length) != 0;
		}
	}
	commit(role);
}

static void recall(struct role *role)
{
	bool needed = false;
	for (int i = 0; i < role->count; i++)
		needed |= BATCH_OP(role, struct store_submit, i)->made_count < 0;
	if (!needed) {
		begin_batches(role);
		return;
	}
	params_array_begin(&role->params, PARAMS_UUID);
	for (int i = 0; i < role->count; i++) {
		struct store_submit *op = BATCH_OP(role, struct store_submit, i);
		if (op->made_count < 0)
			params_add_uuid(&role->params, op->request_id);
		else
			params_add_null(&role->params);
	}
	params_array_end(&role->params);
	role_run(role, SQL_SUBMIT_RECALL, on_recalled);
}

static void on_amended(struct role *role, const PGresult *rows)
{
	(void)rows;
	recall(role);
}

static void amend(struct role *role)
{
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_UUID);
	for (int i = 0; i < role->count; i++)
		params_add_uuid(p, BATCH_OP(role, struct store_submit, i)->request_id);
	params_array_end(p);
	for (int column = 0; column < 4; column++) {
		params_array_begin(p, column == 0 ? PARAMS_INT4 : column == 1 ? PARAMS_INT8 : PARAMS_BOOL);
		for (int i = 0; i < role->count; i++) {
			struct store_submit *op = BATCH_OP(role, struct store_submit, i);
			for (int k = 0; op->made_count >= 0 && k < op->count; k++) {
				if (column == 0)
					params_add_int4(p, i + 1);
				else if (column == 1)
					params_add_int8(p, op->made[k].id);
				else
					params_add_bool(p, column == 2 ? op->made[k].existing : op->made[k].restarted);
			}
		}
		params_array_end(p);
	}
	role_run(role, SQL_SUBMIT_AMEND_REQUESTS, on_amended);
}

/* Calls `visit` for each task whose key is taken, in order. */
static void each_conflict(struct role *role, void (*visit)(void *arg, const struct store_task *, struct store_made *),
    void *arg)
{
	for (int i = 0; i < role->count; i++) {
		struct store_submit *op = BATCH_OP(role, struct store_submit, i);
		for (int k = 0; op->made_count >= 0 && k < op->count; k++)
			if (op->made[k].existing)
				visit(arg, &op->tasks[k], &op->made[k]);
	}
}

struct owners {
	const PGresult *rows;
	int next; /* the number of tasks visited */
	int row;
	bool missing;
};

static void owner_take(void *arg, const struct store_task *task, struct store_made *made)
{
	struct owners *owners = arg;
	(void)task;
	owners->next++;
	/* The rows are in the order of the keys, but a key that has just expired has none. */
	made->id = 0;
	if (owners->row < PQntuples(owners->rows) && row_int8(owners->rows, owners->row, 0) == owners->next)
		made->id = row_int8(owners->rows, owners->row++, 1);
	owners->missing |= made->id == 0;
}

/* Adds a task whose key is taken, if it has a version, as JSON with the fields of a row of tasks. */
static void versioned_spec(void *arg, const struct store_task *task, struct store_made *made)
{
	struct role *role = arg;
	const struct batch *batch = role->state;
	if (!task->task_version)
		return;
	json_t *policy = task->retry_policy ? json_loads(task->retry_policy, 0, NULL) : json_null();
	json_t *spec = json_pack("{ss ss ss ss sI sI si si si sI sI sI so ss}", "queue", task->queue, "key", task->key, "type",
	    task->type, "details", task->details, "version", (json_int_t)task->task_version, "delay_ms",
	    (json_int_t)task->delay_ms, "priority", (int)task->priority, "route_id", task->route, "max_attempts",
	    (int)task->max_attempts, "timeout_ms", (json_int_t)task->timeout_ms, "retry_base_ms",
	    (json_int_t)task->retry_base_ms, "retry_max_ms", (json_int_t)task->retry_max_ms, "retry_policy", policy, "source",
	    task->source);
	if (task->key_ttl_ms)
		json_object_set_new(spec, "key_ttl_ms", json_integer(task->key_ttl_ms));
	if (task->run_at_us != STORE_TIME_BEGIN)
		json_object_set_new(spec, "run_at_us", json_integer(task->run_at_us));
	if (batch->batches && batch->batches[made - batch->made])
		json_object_set_new(spec, "batch_id", json_integer(batch->batches[made - batch->made]));
	if (task->pipeline_id) {
		json_object_set_new(spec, "pipeline_id", json_integer(task->pipeline_id));
		json_object_set_new(spec, "stage", json_string(task->stage));
		json_object_set_new(spec, "step", json_integer(1));
	}
	char *text = json_dumps(spec, JSON_COMPACT);
	params_add_text(&role->params, text);
	free(text);
	json_decref(spec);
}

struct versioned {
	const PGresult *rows;
	int row;
};

static void newer_take(void *arg, const struct store_task *task, struct store_made *made)
{
	struct versioned *v = arg;
	if (!task->task_version || v->row >= PQntuples(v->rows))
		return;
	int row = v->row++;
	made->id = row_int8(v->rows, row, 1);
	made->restarted = row_bool(v->rows, row, 2);
	made->waits = made->restarted && !row_null(v->rows, row, 3);
	made->route = row_int4(v->rows, row, 3);
	made->priority = row_int4(v->rows, row, 4);
	made->version = row_time(v->rows, row, 5);
	made->run_at_us = row_time(v->rows, row, 6);
}

static void amend(struct role *role);

static void on_newer(struct role *role, const PGresult *rows)
{
	struct versioned v = {.rows = rows};
	each_conflict(role, newer_take, &v);
	amend(role);
}

static void count_versioned(void *arg, const struct store_task *task, struct store_made *made)
{
	(void)made;
	*(int *)arg += task->task_version != 0;
}

/* Runs submit_newer.sql for tasks whose key is taken and that have a version: it may be newer than the key's. */
static void see_to_versions(struct role *role)
{
	int versioned = 0;
	each_conflict(role, count_versioned, &versioned);
	if (!versioned) {
		amend(role);
		return;
	}
	params_array_begin(&role->params, PARAMS_TEXT);
	each_conflict(role, versioned_spec, role);
	params_array_end(&role->params);
	role_run(role, SQL_SUBMIT_NEWER, on_newer);
}

static void on_owners(struct role *role, const PGresult *rows)
{
	struct owners owners = {.rows = rows};
	each_conflict(role, owner_take, &owners);
	if (owners.missing) {
		/* The owner's key expired between the two statements: a retry finds it free. */
		struct conn_result again = {.kind = CONN_REFUSED, .sqlstate = "40001", .message = "a key has expired"};
		role_refused(role, &again);
		return;
	}
	see_to_versions(role);
}

static void conflict_queue(void *arg, const struct store_task *task, struct store_made *made)
{
	(void)made;
	params_add_text(arg, task->queue);
}

static void conflict_key(void *arg, const struct store_task *task, struct store_made *made)
{
	(void)made;
	params_add_text(arg, task->key);
}

static void on_submitted(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int i = 0; i < role->count; i++)
		BATCH_OP(role, struct store_submit, i)->made_count = -1;
	batch->conflicts = 0;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_submit *op = BATCH_OP(role, struct store_submit, row_int4(rows, row, 0) - 1);
		struct store_made *made = &batch->made[row_int8(rows, row, 1) - 1];
		op->made_count = op->count;
		*made = (struct store_made){
		    .id = row_int8(rows, row, 2),
		    .existing = row_null(rows, row, 2),
		    .made = !row_null(rows, row, 2),
		    .version = row_time(rows, row, 3),
		    .run_at_us = row_time(rows, row, 4),
		};
		batch->conflicts += made->existing;
	}
	if (!batch->conflicts) {
		recall(role);
		return;
	}
	params_array_begin(&role->params, PARAMS_TEXT);
	each_conflict(role, conflict_queue, &role->params);
	params_array_end(&role->params);
	params_array_begin(&role->params, PARAMS_TEXT);
	each_conflict(role, conflict_key, &role->params);
	params_array_end(&role->params);
	role_run(role, SQL_SUBMIT_KEY_OWNERS, on_owners);
}

static void add_int8_or_null(struct params *p, int64_t value)
{
	if (value)
		params_add_int8(p, value);
	else
		params_add_null(p);
}

/* Adds a column's value of one task. `n` is the task's index in the batch. */
static void add_column(struct params *p, int column, int request, const struct store_task *t, const struct batch *batch, int n)
{
	switch (column) {
	case 0: params_add_int4(p, request); break;
	case 1: params_add_int4(p, t->route); break;
	case 2: params_add_text(p, t->queue); break;
	case 3: params_add_text(p, t->type); break;
	case 4: params_add_text(p, t->details); break;
	case 5: params_add_int4(p, t->priority); break;
	case 6:
		if (t->run_at_us == STORE_TIME_BEGIN)
			params_add_null(p);
		else
			params_add_time(p, t->run_at_us);
		break;
	case 7: params_add_int8(p, t->delay_ms); break;
	case 8: params_add_text(p, t->key); break;
	case 9:
		if (t->key_ttl_ms)
			params_add_int8(p, t->key_ttl_ms);
		else
			params_add_null(p);
		break;
	case 10: params_add_int4(p, t->max_attempts); break;
	case 11: params_add_int8(p, t->timeout_ms); break;
	case 12: params_add_int8(p, t->retry_base_ms); break;
	case 13: params_add_int8(p, t->retry_max_ms); break;
	case 14: params_add_text(p, t->source); break;
	case 15: params_add_text(p, t->retry_policy); break;
	case 16: add_int8_or_null(p, t->task_version); break;
	case 17: add_int8_or_null(p, batch->batches ? batch->batches[n] : 0); break;
	case 18: params_add_bool(p, batch->batches && batch->held[n]); break;
	case 19: add_int8_or_null(p, t->pipeline_id); break;
	case 20: params_add_text(p, t->stage); break;
	}
}

/* True if a column is set for the task. */
static bool says(const struct store_task *t, int column, const struct batch *batch)
{
	switch (column) {
	case 6: return t->run_at_us != STORE_TIME_BEGIN;
	case 8: return t->key != NULL;
	case 9: return t->key_ttl_ms != 0;
	case 15: return t->retry_policy != NULL;
	case 16: return t->task_version != 0;
	case 17:
	case 18: return batch->batches != NULL;
	case 19:
	case 20: return t->pipeline_id != 0;
	default: return true;
	}
}

/* True for the columns that submit_plain.sql does not have: key and its lifetime, retry policy, version, batch,
 * pipeline. */
static bool column_is_special(int column)
{
	return column == 8 || column == 9 || column >= 15;
}

/* True if a column is set for no task. It is then passed as one null, so that PostgreSQL need not read an array of
 * nulls. */
static bool column_is_empty(const struct role *role, int column)
{
	for (int i = 0; i < role->count; i++) {
		const struct store_submit *op = BATCH_OP(role, struct store_submit, i);
		for (int k = 0; k < op->count; k++)
			if (says(&op->tasks[k], column, role->state))
				return false;
	}
	return true;
}

static void submit_run(struct role *role)
{
	static const enum params_type types[TASK_COLUMNS] = {PARAMS_INT4, PARAMS_INT4, PARAMS_TEXT, PARAMS_TEXT,
	    PARAMS_TEXT, PARAMS_INT4, PARAMS_TIME, PARAMS_INT8, PARAMS_TEXT, PARAMS_INT8, PARAMS_INT4, PARAMS_INT8,
	    PARAMS_INT8, PARAMS_INT8, PARAMS_TEXT, PARAMS_TEXT, PARAMS_INT8, PARAMS_INT8, PARAMS_BOOL, PARAMS_INT8,
	    PARAMS_TEXT};
	struct params *p = &role->params;
	bool empty[TASK_COLUMNS], plain = true;
	for (int column = 0; column < TASK_COLUMNS; column++) {
		empty[column] = column_is_empty(role, column);
		plain &= empty[column] || !column_is_special(column);
	}
	params_array_begin(p, PARAMS_UUID);
	for (int i = 0; i < role->count; i++)
		params_add_uuid(p, BATCH_OP(role, struct store_submit, i)->request_id);
	params_array_end(p);
	for (int column = 0; column < TASK_COLUMNS; column++) {
		int n = 0;
		if (plain && column_is_special(column))
			continue;
		if (empty[column]) {
			params_null(p);
			continue;
		}
		params_array_begin(p, types[column]);
		for (int i = 0; i < role->count; i++) {
			struct store_submit *op = BATCH_OP(role, struct store_submit, i);
			for (int k = 0; k < op->count; k++)
				add_column(p, column, i + 1, &op->tasks[k], role->state, n++);
		}
		params_array_end(p);
	}
	role_run(role, plain ? SQL_SUBMIT_PLAIN : SQL_SUBMIT, on_submitted);
}

static void on_expired_dropped(struct role *role, const PGresult *rows)
{
	(void)rows;
	submit_run(role);
}

static void add_keys(struct role *role)
{
	for (int column = 0; column < 2; column++) {
		params_array_begin(&role->params, PARAMS_TEXT);
		for (int i = 0; i < role->count; i++) {
			struct store_submit *op = BATCH_OP(role, struct store_submit, i);
			for (int k = 0; k < op->count; k++)
				if (op->tasks[k].key)
					params_add_text(&role->params, column ? op->tasks[k].key : op->tasks[k].queue);
		}
		params_array_end(&role->params);
	}
}

static void drop_expired_keys(struct role *role)
{
	add_keys(role);
	role_run(role, SQL_SUBMIT_DROP_EXPIRED_KEYS, on_expired_dropped);
}

static const struct op_kind lock_wait_kind;

static void on_batches(struct role *role, const PGresult *rows)
{
	struct batch *batch = role->state;
	for (int row = 0; row < PQntuples(rows) && row < batch->total; row++) {
		batch->batches[row] = row_int8(rows, row, 1);
		batch->held[row] = row_bool(rows, row, 2);
		batch->begins[row] = row_bool(rows, row, 3);
	}
	if (BATCH_OP(role, struct store_submit, 0)->keyed)
		drop_expired_keys(role);
	else
		submit_run(role);
}

static void lock_batches(struct role *role)
{
	struct store_submit *op = BATCH_OP(role, struct store_submit, 0);
	params_uuid(&role->params, op->request_id);
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int k = 0; k < op->count; k++)
		params_add_text(&role->params, op->tasks[k].queue);
	params_array_end(&role->params);
	params_array_begin(&role->params, PARAMS_INT8);
	for (int k = 0; k < op->count; k++)
		add_int8_or_null(&role->params, op->tasks[k].batch);
	params_array_end(&role->params);
	params_array_begin(&role->params, PARAMS_TEXT);
	for (int k = 0; k < op->count; k++)
		params_add_text(&role->params, op->tasks[k].task_version ? op->tasks[k].key : NULL);
	params_array_end(&role->params);
	role_run(role, SQL_SUBMIT_BATCHES, on_batches);
}

static void on_keys_free(struct role *role, const PGresult *rows)
{
	(void)rows;
	lock_batches(role);
}

/* Answers a repeated call as the first time, whatever the state of its batch is now. */
static void on_recalled_first(struct role *role, const PGresult *rows)
{
	struct store_submit *op = BATCH_OP(role, struct store_submit, 0);
	if (PQntuples(rows)) {
		op->made_count = -1;
		on_recalled(role, rows);
	} else if (op->op.kind == &lock_wait_kind) { /* do not wait for its key while the batch is locked */
		add_keys(role);
		role_run(role, SQL_SUBMIT_AWAIT_KEYS, on_keys_free);
	} else {
		lock_batches(role);
	}
}

static void begin(struct role *role)
{
	const struct store_submit *op = BATCH_OP(role, struct store_submit, 0);
	if (!op->batched) {
		if (op->keyed) /* all have the same value: see joins */
			drop_expired_keys(role);
		else
			submit_run(role);
		return;
	}
	params_array_begin(&role->params, PARAMS_UUID);
	params_add_uuid(&role->params, BATCH_OP(role, struct store_submit, 0)->request_id);
	params_array_end(&role->params);
	role_run(role, SQL_SUBMIT_RECALL, on_recalled_first);
}

static void on_hurried(struct role *role, const PGresult *rows)
{
	(void)rows;
	begin(role);
}

/* True if a shorter lock timeout is needed: for part of a batch that could not get a lock in time, to find the
 * locked operation soon while others wait; and for an operation whose key is in use, if others wait for the role. */
static bool has_lock_timeout(const struct role *role)
{
	return role->batch[0]->kind == &lock_wait_kind ? role->waiting != NULL : role->batch[0]->batch_limit != 0;
}

static void on_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	if (has_lock_timeout(role))
		role_run(role, SQL_SUBMIT_LOCK_TIMEOUT, on_hurried);
	else
		begin(role);
}

static void start(struct role *role)
{
	int total = total_tasks(role);
	bool batched = BATCH_OP(role, struct store_submit, 0)->batched; /* a batched one is alone */
	size_t made_bytes = sizeof(struct store_made) * (size_t)total;
	struct batch *batch = mem_calloc(1, sizeof *batch + made_bytes +
	        (batched ? (sizeof *batch->batches + 2 * sizeof *batch->held) * (size_t)total : 0));
	batch->total = total;
	if (batched) {
		batch->batches = (int64_t *)((char *)batch->made + made_bytes);
		batch->held = (bool *)(batch->batches + total);
		batch->begins = batch->held + total;
	}
	role->state = batch;
	struct store_made *made = batch->made;
	bool keyed = false;
	for (int i = 0; i < role->count; i++) {
		struct store_submit *op = BATCH_OP(role, struct store_submit, i);
		op->made = made;
		made += op->count;
		keyed |= op->keyed;
	}
	if (keyed || batched || has_lock_timeout(role))
		role_run(role, SQL_BEGIN, on_begun);
	else
		submit_run(role);
}

/* A request id may be only once in a statement, or it would conflict with itself. Calls with keys do not join those
 * without; calls with tasks of batches run alone. */
static bool joins(const struct role *role, const struct store_op *other)
{
	const struct store_submit *op = (const struct store_submit *)other;
	const struct store_submit *first = BATCH_OP(role, struct store_submit, 0);
	if (op->keyed != first->keyed || op->batched || first->batched)
		return false;
	for (int i = 0; i < role->count; i++)
		if (!memcmp(BATCH_OP(role, struct store_submit, i)->request_id, op->request_id, 16))
			return false;
	return true;
}

/* --- keys and batches in use -------------------------------------------------------------------------------------- */

enum { IN_USE_MS = 10 * 1000, BATCH_IN_USE_MS = 1000 };

/* Continues an FNV-1a hash. Two keys with the same hash only cause a needless detour. */
static uint64_t hash_on(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	while (*text++);
	return hash;
}

/* Returns the hash of what a task may have to wait for: its key; or its batch, or the queue whose open batch it
 * joins. 0: nothing. */
static uint64_t key_hash(const struct store_task *t, bool of_batch)
{
	const uint64_t begin = UINT64_C(14695981039346656037);
	if (!of_batch)
		return t->key ? hash_on(hash_on(begin, t->queue), t->key) : 0;
	if (!t->batched && !t->batch)
		return 0;
	return t->batch ? (begin ^ (uint64_t)t->batch) * UINT64_C(1099511628211) : hash_on(begin, t->queue);
}

static struct key_in_use *key_find(struct store *store, uint64_t hash)
{
	for (int i = 0; i < KEYS_IN_USE; i++)
		if (store->keys_in_use[i].until_ms && store->keys_in_use[i].hash == hash)
			return &store->keys_in_use[i];
	return NULL;
}

static void key_note(struct store *store, uint64_t hash, int64_t until_ms)
{
	struct key_in_use *k = key_find(store, hash), *oldest = store->keys_in_use;
	for (int i = 1; i < KEYS_IN_USE; i++)
		if (store->keys_in_use[i].until_ms < oldest->until_ms)
			oldest = &store->keys_in_use[i];
	if (!k)
		k = oldest;
	*k = (struct key_in_use){hash, until_ms};
}

static bool keys_in_use(struct store *store, const struct store_submit *op)
{
	int64_t now = clock_monotonic_ms();
	for (int i = 0; i < op->count; i++) {
		for (int of_batch = 0; of_batch < 2; of_batch++) {
			uint64_t hash = key_hash(&op->tasks[i], of_batch);
			const struct key_in_use *k = hash ? key_find(store, hash) : NULL;
			if (k && k->until_ms > now)
				return true;
		}
	}
	return false;
}

static void wait_for_keys(struct store *store, struct store_op *op, const char *problem);

static bool alone(const struct role *role, const struct store_op *op)
{
	(void)role, (void)op;
	return false;
}

static const struct op_kind kind = {.name = "submit", .start = start, .joins = joins, .blocked = wait_for_keys};

static const char *waits_for(const struct store_op *op)
{
	const struct store_submit *submit = (const struct store_submit *)op;
	if (submit->keyed && submit->batched)
		return "its key, or its batch, is used by a transaction that is not committed yet; try again";
	if (submit->keyed)
		return "its key is used by a transaction that is not committed yet; try again";
	if (submit->batched)
		return "its batch, or its queue, is locked by a transaction that is not committed yet; try again";
	return "an earlier copy of this call is not committed yet; try again";
}

/* An operation that is blocked again goes to the end of the list, so that one key does not delay others. */
static const struct op_kind lock_wait_kind = {.name = "submit with a key in use",
    .start = start,
    .joins = alone,
    .blocked = wait_for_keys,
    .waits_for = waits_for};

static void wait_for_keys(struct store *store, struct store_op *op, const char *problem)
{
	struct store_submit *submit = (struct store_submit *)op;
	int64_t now = clock_monotonic_ms();
	(void)problem;
	for (int i = 0; i < submit->count; i++)
		for (int of_batch = 0; of_batch < 2; of_batch++) {
			uint64_t hash = key_hash(&submit->tasks[i], of_batch);
			if (hash)
				key_note(store, hash, now + (submit->batched ? BATCH_IN_USE_MS : IN_USE_MS));
		}
	if (op->deadline_ms && op->deadline_ms <= now) {
		struct reeve_error error;
		error_set(&error, STATUS(UNAVAILABLE), "%s", waits_for(op));
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
	for (int i = 0; i < op->count; i++) {
		bytes += 256 + strlen(op->tasks[i].details);
		op->keyed |= op->tasks[i].key != NULL;
		op->batched |= op->tasks[i].batched || op->tasks[i].batch;
	}
	bool waits = (op->keyed || op->batched) && keys_in_use(store, op);
	store_give(store, waits ? ROLE_KEYS : ROLE_SUBMIT, waits ? &lock_wait_kind : &kind, &op->op, op->count, bytes);
}
