/* Submitting: many calls' tasks in one statement; with keys, a transaction of up to four. */
#include "manager/store/internal.h"

#include <stdlib.h>
#include <string.h>

enum { TASK_COLUMNS = 15 };

/* What a batch has learned so far. */
struct batch {
	int total, losers;
	struct store_made made[]; /* all the batch's tasks, in order */
};

static int total_tasks(const struct role *role)
{
	int n = 0;
	for (int i = 0; i < role->count; i++)
		n += BATCH_OP(role, struct store_submit, i)->count;
	return n;
}

static void on_committed(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	role_done(role);
}

static void commit(struct role *role)
{
	if (conn_in_transaction(role->conn))
		role_run(role, SQL_COMMIT, on_committed);
	else
		role_done(role);
}

/* Which calls came before, and what they were answered. */
static void on_recalled(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	for (int row = 0; row < PQntuples(result->rows); row++) {
		struct store_submit *op = BATCH_OP(role, struct store_submit, row_int8(result->rows, row, 0) - 1);
		const char *ids = NULL, *existing = NULL;
		int n = row_array(result->rows, row, 1, &ids), flags = row_array(result->rows, row, 2, &existing);
		op->made_count = strcmp(row_text(result->rows, row, 3), "submit") ? 0 : n; /* 0: it was another call's */
		for (int i = 0; i < n && i < op->count; i++) {
			int length;
			uint64_t id;
			memcpy(&id, row_array_next(&ids, &length), 8);
			op->made[i] = (struct store_made){.id = (int64_t)be64toh(id)};
			if (i < flags)
				op->made[i].existing = *row_array_next(&existing, &length) != 0;
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
		commit(role);
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

static void on_amended(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	recall(role);
}

static void amend(struct role *role)
{
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_UUID);
	for (int i = 0; i < role->count; i++)
		params_add_uuid(p, BATCH_OP(role, struct store_submit, i)->request_id);
	params_array_end(p);
	for (int column = 0; column < 3; column++) {
		params_array_begin(p, column == 0 ? PARAMS_INT4 : column == 1 ? PARAMS_INT8 : PARAMS_BOOL);
		for (int i = 0; i < role->count; i++) {
			struct store_submit *op = BATCH_OP(role, struct store_submit, i);
			for (int k = 0; op->made_count >= 0 && k < op->count; k++) {
				if (column == 0)
					params_add_int4(p, i + 1);
				else if (column == 1)
					params_add_int8(p, op->made[k].id);
				else
					params_add_bool(p, op->made[k].existing);
			}
		}
		params_array_end(p);
	}
	role_run(role, SQL_SUBMIT_AMEND_REQUESTS, on_amended);
}

/* Calls `visit` for each task that lost its key, in order. */
static void each_loser(struct role *role, void (*visit)(void *arg, const struct store_task *, struct store_made *),
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
	int next; /* loser */
	int row;
	bool missing;
};

static void owner_take(void *arg, const struct store_task *task, struct store_made *made)
{
	struct owners *owners = arg;
	(void)task;
	owners->next++;
	/* Rows come in the order asked, but a key that has just expired has none. */
	made->id = 0;
	if (owners->row < PQntuples(owners->rows) && row_int8(owners->rows, owners->row, 0) == owners->next)
		made->id = row_int8(owners->rows, owners->row++, 1);
	owners->missing |= made->id == 0;
}

static void on_owners(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	struct owners owners = {.rows = result->rows};
	each_loser(role, owner_take, &owners);
	if (owners.missing) {
		/* Its owner's key went between the two statements: the same again will find it free. */
		struct conn_result again = {.kind = CONN_REFUSED, .sqlstate = "40001", .message = "a key expired meanwhile"};
		role_refused(role, &again);
		return;
	}
	amend(role);
}

static void loser_queue(void *arg, const struct store_task *task, struct store_made *made)
{
	(void)made;
	params_add_text(arg, task->queue);
}

static void loser_key(void *arg, const struct store_task *task, struct store_made *made)
{
	(void)made;
	params_add_text(arg, task->key);
}

static void on_submitted(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	const PGresult *rows = result->rows;
	struct batch *batch = role->state;
	for (int i = 0; i < role->count; i++)
		BATCH_OP(role, struct store_submit, i)->made_count = -1;
	batch->losers = 0;
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
		batch->losers += made->existing;
	}
	if (!batch->losers) {
		recall(role);
		return;
	}
	params_array_begin(&role->params, PARAMS_TEXT);
	each_loser(role, loser_queue, &role->params);
	params_array_end(&role->params);
	params_array_begin(&role->params, PARAMS_TEXT);
	each_loser(role, loser_key, &role->params);
	params_array_end(&role->params);
	role_run(role, SQL_SUBMIT_KEY_OWNERS, on_owners);
}

static void add_column(struct params *p, int column, int request, const struct store_task *t)
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
	}
}

static void submit_run(struct role *role)
{
	static const enum params_type types[TASK_COLUMNS] = {PARAMS_INT4, PARAMS_INT4, PARAMS_TEXT, PARAMS_TEXT,
	    PARAMS_TEXT, PARAMS_INT4, PARAMS_TIME, PARAMS_INT8, PARAMS_TEXT, PARAMS_INT8, PARAMS_INT4, PARAMS_INT8,
	    PARAMS_INT8, PARAMS_INT8, PARAMS_TEXT};
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_UUID);
	for (int i = 0; i < role->count; i++)
		params_add_uuid(p, BATCH_OP(role, struct store_submit, i)->request_id);
	params_array_end(p);
	for (int column = 0; column < TASK_COLUMNS; column++) {
		params_array_begin(p, types[column]);
		for (int i = 0; i < role->count; i++) {
			struct store_submit *op = BATCH_OP(role, struct store_submit, i);
			for (int k = 0; k < op->count; k++)
				add_column(p, column, i + 1, &op->tasks[k]);
		}
		params_array_end(p);
	}
	role_run(role, SQL_SUBMIT, on_submitted);
}

static void on_expired_dropped(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	submit_run(role);
}

static void on_begun(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
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
	role_run(role, SQL_SUBMIT_DROP_EXPIRED_KEYS, on_expired_dropped);
}

static void start(struct role *role)
{
	int total = total_tasks(role);
	struct batch *batch = calloc(1, sizeof *batch + sizeof *batch->made * (size_t)total);
	batch->total = total;
	role->state = batch;
	struct store_made *made = batch->made;
	bool keyed = false;
	for (int i = 0; i < role->count; i++) {
		struct store_submit *op = BATCH_OP(role, struct store_submit, i);
		op->made = made;
		made += op->count;
		keyed |= op->keyed;
	}
	if (keyed)
		role_run(role, SQL_BEGIN, on_begun);
	else
		submit_run(role);
}

/* The same request id twice in one statement would meet itself; and keyed calls travel together. */
static bool joins(const struct role *role, const struct store_op *other)
{
	const struct store_submit *op = (const struct store_submit *)other;
	if (op->keyed != BATCH_OP(role, struct store_submit, 0)->keyed)
		return false;
	for (int i = 0; i < role->count; i++)
		if (!memcmp(BATCH_OP(role, struct store_submit, i)->request_id, op->request_id, 16))
			return false;
	return true;
}

static const struct op_kind kind = {"submit", start, joins, false};

void store_submit(struct store *store, struct store_submit *op)
{
	size_t bytes = 0;
	op->keyed = false;
	for (int i = 0; i < op->count; i++) {
		bytes += 256 + strlen(op->tasks[i].details);
		op->keyed |= op->tasks[i].key != NULL;
	}
	store_give(store, ROLE_SUBMIT, &kind, &op->op, op->count, bytes);
}
