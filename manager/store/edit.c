/*
 * Manual changes: cancel, discard, retry, update, purge. Each is one transaction, which first inserts its request id.
 * If the id already exists, the call is a repetition and is answered from the data stored by the first one. A change by
 * a filter first selects and locks the matching tasks, and continues with their ids; it stores all of them, and whether
 * each was changed.
 */
#include "manager/store/bind.h"
#include "manager/store/cancel.h"
#include "manager/store/store_internal.h"

#include <stdlib.h>
#include <string.h>

/* The names in the table `requests`: of a change by ids, and by a filter. */
static const char *const kinds[][2] = {
    [STORE_CANCEL] = {"cancel", "cancel_where"},
    [STORE_DISCARD] = {"discard", "discard_where"},
    [STORE_RETRY] = {"retry", "retry_where"},
    [STORE_UPDATE] = {"update", "update_where"},
    [STORE_PURGE] = {"purge", "purge_where"},
};

struct edit {
	bool recalled; /* the call is a repetition */
	int asked;     /* ids, as passed or selected */
	int count;     /* different ids */
	int missing;
	int64_t next_after_id; /* of a filter: there may be more after this id; 0: there are none */
	int64_t *ids;
	struct store_edited **by_id;
	int64_t *missing_ids;
	struct store_edited *tasks; /* one for each different id, in the order of the ids; finally packed to the front */
	struct store_edited entries[];
};

static int by_id(const void *a, const void *b)
{
	const struct store_edited *x = *(struct store_edited *const *)a, *y = *(struct store_edited *const *)b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x > y) - (x < y);
}

static int by_id_alone(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = (*(struct store_edited *const *)b)->id;
	return (x > y) - (x < y);
}

static struct store_edited *find(struct edit *edit, int64_t id)
{
	struct store_edited **at = bsearch(&id, edit->by_id, (size_t)edit->count, sizeof *edit->by_id, by_id_alone);
	return at ? *at : NULL;
}

/* Allocates the struct in one block with its arrays: tasks, ids, missing ids, index by id. */
static struct edit *edit_make(int asked)
{
	size_t n = (size_t)asked;
	struct edit *edit =
	    mem_calloc(1, sizeof *edit + (sizeof *edit->tasks + sizeof *edit->by_id + 2 * sizeof *edit->ids) * n);
	edit->asked = asked;
	edit->tasks = edit->entries;
	edit->ids = (int64_t *)(edit->entries + n);
	edit->missing_ids = edit->ids + n;
	edit->by_id = (struct store_edited **)(edit->missing_ids + n);
	return edit;
}

/* Sets up the tasks and the index by id after `ids` was set. */
static void edit_index(struct edit *edit)
{
	size_t n = (size_t)edit->asked;
	for (size_t i = 0; i < n; i++) {
		edit->entries[i].id = edit->ids[i];
		edit->by_id[i] = &edit->entries[i];
	}
	/* A repeated id counts once, at its first place; its other entries get the id 0. */
	qsort(edit->by_id, n, sizeof *edit->by_id, by_id);
	for (size_t i = 0; i < n; i++) {
		if (edit->count && edit->by_id[edit->count - 1]->id == edit->by_id[i]->id)
			edit->by_id[i]->id = 0;
		else
			edit->by_id[edit->count++] = edit->by_id[i];
	}
}

static struct store_edit *the_op(struct role *role)
{
	return BATCH_OP(role, struct store_edit, 0);
}

static void add_ids(struct role *role)
{
	const struct edit *edit = role->state;
	params_int8s(&role->params, edit->ids, edit->asked);
}

/* Packs existing tasks to the front, and lists the ids of missing ones. */
static void on_states(struct role *role, const PGresult *rows)
{
	struct store_edit *op = the_op(role);
	struct edit *edit = role->state;
	for (int row = 0; row < PQntuples(rows); row++) {
		int64_t id = row_int8(rows, row, 0);
		bool cancelling = row_bool(rows, row, 2);
		struct store_edited *t = find(edit, id);
		if (t) {
			snprintf(t->status, sizeof t->status, "%s", row_text(rows, row, 1));
			/* A waiting task that did not change here was just retried by another call: it is as requested. */
			if (op->kind == STORE_RETRY && !op->hanged && !cancelling &&
			    (!strcmp(t->status, "queued") || !strcmp(t->status, "failed")))
				t->changed = true;
			if (edit->recalled && t->changed && strcmp(t->status, "executing") != 0) {
				/* The manager that made the change may have stopped before it could notify the others of it. */
				t->waits = !strcmp(t->status, "queued") || !strcmp(t->status, "failed");
				t->route = row_int4(rows, row, 3);
				t->priority = row_int4(rows, row, 4);
				t->due_us = row_time(rows, row, 5);
				t->version = row_time(rows, row, 6);
			}
		}
	}
	op->found = 0;
	for (int i = 0; i < edit->asked; i++) {
		bool purged = op->kind == STORE_PURGE && edit->tasks[i].changed; /* it is in no table any more */
		if (edit->tasks[i].status[0] || purged)
			edit->tasks[op->found++] = edit->tasks[i];
		else if (edit->tasks[i].id)
			edit->missing_ids[edit->missing++] = edit->ids[i];
	}
	op->next_after_id = edit->next_after_id;
	op->tasks = edit->tasks;
	op->missing = edit->missing_ids;
	op->missing_count = edit->missing;
	role_run(role, SQL_COMMIT, role_on_done);
}

static void read_states(struct role *role)
{
	add_ids(role);
	role_run(role, SQL_TASK_STATES, on_states);
}

static void on_noted(struct role *role, const PGresult *rows)
{
	(void)rows;
	read_states(role);
}

static void note(struct role *role)
{
	struct store_edit *op = the_op(role);
	struct edit *edit = role->state;
	params_uuid(&role->params, op->request_id);
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < edit->asked; i++)
		if (edit->tasks[i].changed || op->filter)
			params_add_int8(&role->params, edit->tasks[i].id);
	if (op->filter)
		params_add_int8(&role->params, edit->next_after_id);
	params_array_end(&role->params);
	params_array_begin(&role->params, PARAMS_BOOL);
	for (int i = 0; i < edit->asked && op->filter; i++)
		params_add_bool(&role->params, edit->tasks[i].changed);
	params_array_end(&role->params);
	role_run(role, SQL_REQUEST_AMEND, on_noted);
}

/* Reads rows (id, version, run_at, route, priority) of tasks that wait again. */
static void take_waiting(struct edit *edit, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(edit, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->changed = t->waits = true;
		t->version = row_time(rows, row, 1);
		t->due_us = row_time(rows, row, 2);
		t->route = row_int4(rows, row, 3);
		t->priority = row_int4(rows, row, 4);
	}
}

static void on_waiting_cancelled(struct role *role, const PGresult *rows)
{
	struct edit *edit = role->state;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(edit, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->ended = t->changed = true;
		t->route = row_int4(rows, row, 2);
	}
	note(role);
}

static void on_marked(struct role *role, const PGresult *rows)
{
	struct edit *edit = role->state;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(edit, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->changed = row_bool(rows, row, 4);
		t->pulled = row_bool(rows, row, 5);
		if (!strcmp(row_text(rows, row, 1), "executing")) {
			t->commanded_worker = row_int8(rows, row, 2);
			t->token = row_time(rows, row, 3);
		}
	}
	cancel_waiting_params(role, edit->ids, edit->asked, the_op(role)->reason);
	role_run(role, SQL_CANCEL_WAITING, on_waiting_cancelled);
}

static void on_ended_retried(struct role *role, const PGresult *rows)
{
	take_waiting(role->state, rows);
	note(role);
}

static void retry_ended(struct role *role)
{
	add_ids(role);
	params_text(&role->params, the_op(role)->actor);
	role_run(role, SQL_RETRY_ENDED, on_ended_retried);
}

/* Ended tasks did not hang: they stay as they are. */
static void finish_restart(struct role *role)
{
	if (the_op(role)->hanged)
		note(role);
	else
		retry_ended(role);
}

static void on_freed(struct role *role, const PGresult *rows)
{
	struct edit *edit = role->state;
	take_waiting(edit, rows);
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(edit, row_int8(rows, row, 0));
		if (t && !strcmp(row_text(rows, row, 5), "dead")) {
			t->waits = false;
			t->ended = true;
		}
	}
	finish_restart(role);
}

/* Ends the attempts of pull clients, which take no commands: their ids and tokens. */
static void free_attempts(struct role *role, const PGresult *rows)
{
	struct params *p = &role->params;
	params_array_begin(p, PARAMS_INT8);
	for (int row = 0; row < PQntuples(rows); row++)
		if (!row_bool(rows, row, 4))
			params_add_int8(p, row_int8(rows, row, 0));
	params_array_end(p);
	params_array_begin(p, PARAMS_TIME);
	for (int row = 0; row < PQntuples(rows); row++)
		if (!row_bool(rows, row, 4))
			params_add_time(p, row_time(rows, row, 2));
	params_array_end(p);
	params_int4(p, role->store->options.history_days);
	role_run(role, SQL_RESTART_FREE, on_freed);
}

static void on_restarted(struct role *role, const PGresult *rows)
{
	bool some_free = false;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(role->state, row_int8(rows, row, 0));
		bool commanded = row_bool(rows, row, 4);
		some_free |= !commanded;
		if (!t || !commanded)
			continue;
		t->commanded_worker = row_int8(rows, row, 1);
		t->token = row_time(rows, row, 2);
		t->changed = row_bool(rows, row, 3);
		t->stopping = true;
	}
	if (some_free)
		free_attempts(role, rows);
	else
		finish_restart(role);
}

static void restart(struct role *role)
{
	add_ids(role);
	params_text(&role->params, the_op(role)->actor);
	params_bool(&role->params, the_op(role)->hanged);
	role_run(role, SQL_RESTART_MARK, on_restarted);
}

/* Locks the remaining tasks before retry_ended locks batches, because everything that ends a task locks in this
 * order. */
static void on_waiting_retried(struct role *role, const PGresult *rows)
{
	take_waiting(role->state, rows);
	if (the_op(role)->executing)
		restart(role);
	else
		retry_ended(role);
}

static enum store_refusal refusal_of(const char *word)
{
	static const char *const words[] = {[STORE_REFUSED_NOT] = "",
	    [STORE_REFUSED_EXECUTING] = "executing",
	    [STORE_REFUSED_ATTEMPTS] = "attempts",
	    [STORE_REFUSED_KEY] = "key",
	    [STORE_REFUSED_BATCH] = "batch",
	    [STORE_REFUSED_STOPPED] = "stopped",
	    [STORE_REFUSED_STAGE] = "stage"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp(words[i], word))
			return (enum store_refusal)i;
	return STORE_REFUSED_EXECUTING;
}

static void on_updated(struct role *role, const PGresult *rows)
{
	struct edit *edit = role->state;
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(edit, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->refusal = row_null(rows, row, 2) ? STORE_REFUSED_NOT : refusal_of(row_text(rows, row, 2));
		t->changed = t->refusal == STORE_REFUSED_NOT;
		t->waits = t->changed && strcmp(row_text(rows, row, 1), "executing") != 0;
		t->version = row_time(rows, row, 3);
		t->due_us = row_time(rows, row, 4);
		t->route = row_int4(rows, row, 5);
		t->priority = row_int4(rows, row, 6);
	}
	note(role);
}

static void on_purged(struct role *role, const PGresult *rows)
{
	for (int row = 0; row < PQntuples(rows); row++) {
		struct store_edited *t = find(role->state, row_int8(rows, row, 0));
		if (!t)
			continue;
		t->changed = true;
		snprintf(t->status, sizeof t->status, "%s", row_text(rows, row, 1));
	}
	note(role);
}

/* Reads the data that an earlier copy of the call stored: the tasks it changed, or all that it selected. */
static void take_recalled(struct role *role, const PGresult *rows)
{
	struct store_edit *op = the_op(role);
	const char *ids = NULL, *changed = NULL;
	int n = row_array(rows, 0, 1, &ids), flags = row_array(rows, 0, 2, &changed), length;
	op->mismatch = strcmp(row_text(rows, 0, 3), kinds[op->kind][op->filter != NULL]) != 0;
	if (op->mismatch)
		return;
	if (op->filter) {
		free(role->state);
		struct edit *edit = role->state = edit_make(flags);
		edit->recalled = true;
		for (int i = 0; i < flags; i++)
			edit->ids[i] = row_array_int8(&ids);
		edit->next_after_id = n > flags ? row_array_int8(&ids) : 0;
		edit_index(edit);
		for (int i = 0; i < flags; i++)
			edit->tasks[i].changed = *row_array_next(&changed, &length) != 0;
		return;
	}
	for (int i = 0; i < n; i++) {
		struct store_edited *t = find(role->state, row_array_int8(&ids));
		if (t)
			t->changed = true;
		else
			op->mismatch = true;
	}
}

static void on_recalled(struct role *role, const PGresult *rows)
{
	((struct edit *)role->state)->recalled = true;
	if (PQntuples(rows))
		take_recalled(role, rows);
	read_states(role);
}

/* Changes the tasks by their ids. */
static void change(struct role *role)
{
	struct store_edit *op = the_op(role);
	struct params *p = &role->params;
	if (op->kind == STORE_RETRY && op->hanged) {
		restart(role);
		return;
	}
	add_ids(role);
	switch (op->kind) {
	case STORE_CANCEL:
	case STORE_DISCARD:
		params_text(p, op->actor);
		params_text(p, op->reason);
		params_text(p, op->kind == STORE_DISCARD ? "discarded" : NULL);
		role_run(role, SQL_CANCEL_MARK, on_marked);
		break;
	case STORE_RETRY:
		params_text(p, op->actor);
		role_run(role, SQL_RETRY_WAITING, on_waiting_retried);
		break;
	case STORE_UPDATE:
		params_text(p, op->change);
		params_text(p, op->actor);
		role_run(role, SQL_UPDATE_TASKS, on_updated);
		break;
	case STORE_PURGE:
		params_text(p, op->actor);
		params_text(p, op->reason);
		role_run(role, op->details_only ? SQL_ERASE_ENDED : SQL_PURGE_ENDED, on_purged);
		break;
	}
}

static void on_matched(struct role *role, const PGresult *rows)
{
	int n = row_null(rows, 0, 0) ? 0 : PQntuples(rows);
	free(role->state);
	struct edit *edit = role->state = edit_make(n);
	for (int row = 0; row < n; row++)
		edit->ids[row] = row_int8(rows, row, 0);
	edit->next_after_id = n == STORE_FILTER_MAX ? edit->ids[n - 1] : row_int8(rows, 0, 2);
	edit_index(edit);
	if (n == 0)
		note(role);
	else
		change(role);
}

void matching_params(struct params *p, const ProtobufCMessage *filter, enum store_edit_kind change)
{
	const struct bind_values values = {
	    .change = kinds[change][0], .max_scanned = STORE_FILTER_STRETCH, .max_tasks = STORE_FILTER_MAX};
	bind_params(p, SQL_MATCH_TASKS, filter, &values);
}

static void match(struct role *role)
{
	const struct store_edit *op = the_op(role);
	matching_params(&role->params, op->filter, op->kind);
	role_run(role, SQL_MATCH_TASKS, on_matched);
}

static void on_remembered(struct role *role, const PGresult *rows)
{
	struct store_edit *op = the_op(role);
	struct params *p = &role->params;
	if (PQntuples(rows) == 0) {
		params_array_begin(p, PARAMS_UUID);
		params_add_uuid(p, op->request_id);
		params_array_end(p);
		role_run(role, SQL_SUBMIT_RECALL, on_recalled);
	} else if (op->filter) {
		match(role);
	} else {
		change(role);
	}
}

static void on_begun(struct role *role, const PGresult *rows)
{
	(void)rows;
	const struct store_edit *op = the_op(role);
	params_uuid(&role->params, op->request_id);
	params_text(&role->params, kinds[op->kind][op->filter != NULL]);
	role_run(role, SQL_REQUEST_REMEMBER, on_remembered);
}

static void start(struct role *role)
{
	struct store_edit *op = the_op(role);
	struct edit *edit = role->state = edit_make(op->filter ? 0 : op->count);
	for (int i = 0; i < edit->asked; i++)
		edit->ids[i] = op->ids[i];
	edit_index(edit);
	op->mismatch = false;
	role_run(role, SQL_BEGIN, on_begun);
}

void store_edit(struct store *store, struct store_edit *op)
{
	static const struct op_kind kind = {.name = "edit", .start = start};
	store_give(store, ROLE_EDIT, &kind, &op->op, 1,
	    (size_t)(op->filter ? STORE_FILTER_MAX : op->count) * 64 + (op->change ? strlen(op->change) : 0));
}
