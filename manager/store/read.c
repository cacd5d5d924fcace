/* Reads: turns requests into statements, and reads their rows straight into response messages (bind.c). */
#include "manager/store/bind.h"
#include "manager/store/store_internal.h"

#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>
#include <string.h>

typedef Reeve__V1__ListRequest list_request;

#define BIT(status) (1U << REEVE__V1__TASK_STATUS__TASK_STATUS_##status)

/* Returns the statuses that matching tasks can have, as bits by enum TaskStatus. */
static unsigned statuses_wanted(const list_request *request)
{
	const Reeve__V1__TaskFilter *filter = request->filter;
	unsigned wanted = request->status ? 1U << request->status : ~0U, of_filter = filter->n_statuses ? 0 : ~0U;
	for (size_t i = 0; i < filter->n_statuses; i++)
		of_filter |= 1U << filter->statuses[i];
	return wanted & of_filter & (filter->running_longer_ms ? BIT(EXECUTING) : ~0U);
}

/* Returns whether a filter has no condition but, possibly, a batch and `after_id`, for which there are indexes. */
static bool only_batch(const Reeve__V1__TaskFilter *f)
{
	return !f->n_statuses && !*f->queue && !*f->type && !*f->error && !*f->error_contains && !*f->error_code &&
	    !*f->key && !*f->source && !*f->pipeline && !*f->stage && !f->older_ms && !f->newer_ms &&
	    !f->running_longer_ms && !f->parent_id && !f->n_details;
}

/* The maxima of rows that an answer scans (of tasks: live ones, and again ended ones), so that it takes less than
 * 100 ms. The tasks of a batch can be scattered: each can be on a page of its own, which comes from the disk. */
enum { SCANNED_MAX = 5000, SCATTERED_MAX = 1000 };

/* Returns the maximum of rows to scan. If all rows match that the index finds, the request's limit is enough. */
static int64_t list_scanned(const list_request *request)
{
	bool all = !request->status && !*request->queue && !*request->type && only_batch(request->filter);
	int64_t max = request->filter->batch_id ? SCATTERED_MAX : SCANNED_MAX;
	return all && request->limit < max ? request->limit : max;
}

static enum sql_id add_list(struct role *role, const struct store_read *op)
{
	const list_request *request = (const list_request *)op->request;
	unsigned wanted = statuses_wanted(request), live = wanted & (BIT(QUEUED) | BIT(EXECUTING) | BIT(FAILED));
	const struct bind_values values = {
	    .max_bytes = op->max_bytes,
	    .max_details = op->max_details,
	    .max_scanned = list_scanned(request),
	    .ended_wanted = wanted & (BIT(COMPLETED) | BIT(DEAD) | BIT(CANCELLED)),
	    .live_wanted = live == BIT(EXECUTING) ? 2 : live != 0,
	};
	bind_params(&role->params, SQL_LIST_TASKS, op->request, &values);
	return SQL_LIST_TASKS;
}

static enum sql_id add_matching(struct role *role, const struct store_read *op)
{
	matching_params(&role->params, op->request, op->edit);
	return SQL_FIND_TASKS;
}

static enum sql_id id_of(const struct sql_text *statement)
{
	return (enum sql_id)(statement - sql_statements);
}

/* Returns the statement whose head describes the rows. */
static enum sql_id statement_of(const struct store_read *op)
{
	return op->kind == STORE_LIST ? SQL_LIST_TASKS : id_of(op->then ? op->then : op->statement);
}

static void add_head(struct role *role, const struct store_read *op, enum sql_id statement)
{
	const struct bind_values values = {
	    .request_id = op->request_id,
	    .actor = op->actor,
	    .change = op->change,
	    .lease_ms = op->lease_ms,
	    .max_bytes = op->max_bytes,
	    .max_details = op->max_details,
	    .max_task = op->max_task,
	    .manager = role->store->manager_id,
	    .max_scanned = SCANNED_MAX,
	};
	bind_params(&role->params, statement, op->request, &values);
}

static enum sql_id add_bound(struct role *role, const struct store_read *op)
{
	add_head(role, op, id_of(op->statement));
	return id_of(op->statement);
}

static enum sql_id (*const adders[])(struct role *role, const struct store_read *op) = {
    [STORE_BOUND] = add_bound,
    [STORE_CHANGE] = add_bound,
    [STORE_LIST] = add_list,
    [STORE_MATCHING] = add_matching,
};

/* Works for the responses of all changes, which have the same fields. */
static void take_matching(const PGresult *rows, void *response)
{
	Reeve__V1__CancelResponse found = REEVE__V1__CANCEL_RESPONSE__INIT, *out = response;
	bind_rows(SQL_FIND_TASKS, rows, &found.base);
	out->tasks = found.tasks;
	out->n_tasks = found.n_tasks;
	out->next_after_id = found.next_after_id;
	if (out->n_tasks == STORE_FILTER_MAX)
		out->next_after_id = out->tasks[out->n_tasks - 1]->id;
}

static void take(const struct store_read *op, const PGresult *rows)
{
	if (op->kind == STORE_MATCHING)
		take_matching(rows, op->response);
	else
		bind_rows(statement_of(op), rows, op->response);
}

static struct store_read *reading(struct role *role, int i)
{
	return BATCH_OP(role, struct store_read, i);
}

static void on_read(struct role *role, const PGresult *rows)
{
	take(reading(role, 0), rows);
	role_done(role);
}

static void on_changed(struct role *role, const PGresult *rows)
{
	const struct store_read *op = reading(role, 0);
	(void)rows;
	add_head(role, op, id_of(op->then));
	role_run(role, id_of(op->then), on_read);
}

static void read_start(struct role *role)
{
	struct store_read *op = reading(role, 0);
	role_run(role, adders[op->kind](role, op), op->then ? on_changed : on_read);
}

static Reeve__V1__Task *task_copy(const Reeve__V1__Task *task)
{
	size_t size = reeve__v1__task__get_packed_size(task);
	uint8_t *packed = mem_malloc(size);
	reeve__v1__task__pack(task, packed);
	Reeve__V1__Task *copy = reeve__v1__task__unpack(NULL, size, packed);
	free(packed);
	return copy;
}

/* Gives each operation its task; if several have asked for the same task, all but the first get copies. */
static void on_got(struct role *role, const PGresult *rows)
{
	Reeve__V1__ListResponse all = REEVE__V1__LIST_RESPONSE__INIT;
	bind_rows(SQL_GET_TASKS, rows, &all.base);
	bool *given = mem_calloc(all.n_tasks + 1, sizeof *given);
	for (int i = 0; i < role->count; i++) {
		Reeve__V1__ListResponse *response = (Reeve__V1__ListResponse *)reading(role, i)->response;
		size_t k = 0;
		while (k < all.n_tasks && all.tasks[k]->id != reading(role, i)->id)
			k++;
		if (k == all.n_tasks)
			continue;
		response->tasks = mem_malloc(sizeof *response->tasks);
		response->tasks[response->n_tasks++] = given[k] ? task_copy(all.tasks[k]) : all.tasks[k];
		given[k] = true;
	}
	for (size_t k = 0; k < all.n_tasks; k++)
		if (!given[k])
			reeve__v1__task__free_unpacked(all.tasks[k], NULL);
	free(given);
	free(all.tasks);
	role_done(role);
}

static void get_start(struct role *role)
{
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(&role->params, reading(role, i)->id);
	params_array_end(&role->params);
	params_int8(&role->params, reading(role, 0)->max_task);
	params_int8(&role->params, reading(role, 0)->max_details);
	role_run(role, SQL_GET_TASKS, on_got);
}

/* Limits the number of tasks, because each may have details and a result of a mebibyte. */
static bool get_joins(const struct role *role, const struct store_op *op)
{
	enum { GETS_AT_ONCE = 32 };
	(void)op;
	return role->count < GETS_AT_ONCE;
}

void store_read_drop(struct store_op *op)
{
	role_drop(op->role, op);
}

/* Returns the statement's name with spaces: "queue set". */
static const char *read_name(const struct store_op *op)
{
	static char name[64];
	const struct sql_text *statement = ((const struct store_read *)op)->statement;
	snprintf(name, sizeof name, "%s", statement ? statement->name : "read");
	for (char *at = name; *at; at++)
		if (*at == '_')
			*at = ' ';
	return name;
}

/* The maximum of tasks that a short read may look up, and of those that it may read with their results. */
enum { SHORT_IDS = 1000, SHORT_TASKS = 100 };

void store_read(struct store *store, struct store_read *op)
{
	static const struct op_kind one = {.name_of = read_name, .start = read_start};
	static const struct op_kind gets = {.name = "read", .start = get_start, .joins = get_joins};
	if (op->kind == STORE_CHANGE)
		store_give(store, ROLE_EDIT, &one, &op->op, 1,
		    protobuf_c_message_get_packed_size(op->request) + (op->change ? strlen(op->change) : 0));
	else if (op->kind == STORE_GET)
		store_give(store, ROLE_READ, &gets, &op->op, 0, 256);
	else
		store_give(store, op->quick && op->tasks <= SHORT_TASKS ? ROLE_READ : ROLE_POLL, &one, &op->op,
		    1 + op->tasks / SHORT_TASKS, 256);
}

/* --- ended tasks ----------------------------------------------------------------------------------------------- */

static struct store_ended *asked(struct role *role, int i)
{
	return BATCH_OP(role, struct store_ended, i);
}

/* Returns the first row whose id is not lower. The rows are in the order of ids, as most ids are: tries `next` first.
 */
static int row_of(const PGresult *rows, int64_t id, int next)
{
	int low = 0, high = PQntuples(rows);
	if (next < high && row_int8(rows, next, 0) == id)
		return next;
	while (low < high) {
		int middle = low + (high - low) / 2;
		if (row_int8(rows, middle, 0) < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Sets an operation's results. `ids` has space for all its ids: the ended ones are put at its beginning, the live
 * ones at its end. */
static void take_ended(struct store_ended *op, const PGresult *rows, int64_t *ids)
{
	op->ended = ids;
	op->live = ids + op->count;
	op->ended_count = op->live_count = 0;
	for (int i = 0, row = 0; i < op->count; i++, row++) {
		row = row_of(rows, op->ids[i], row);
		if (row == PQntuples(rows) || row_int8(rows, row, 0) != op->ids[i])
			continue;
		if (row_bool(rows, row, 1)) {
			op->ended[op->ended_count++] = op->ids[i];
		} else {
			*--op->live = op->ids[i];
			op->live_count++;
		}
	}
}

static int ids_asked(const struct role *role)
{
	int n = 0;
	for (int i = 0; i < role->count; i++)
		n += BATCH_OP(role, struct store_ended, i)->count;
	return n;
}

static void on_ended(struct role *role, const PGresult *rows)
{
	int64_t *ids = role->state = mem_malloc(sizeof *ids * ((size_t)ids_asked(role) + 1));
	for (int i = 0; i < role->count; i++) {
		take_ended(asked(role, i), rows, ids);
		ids += asked(role, i)->count;
	}
	role_done(role);
}

static void ended_start(struct role *role)
{
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		for (int k = 0; k < asked(role, i)->count; k++)
			params_add_int8(&role->params, asked(role, i)->ids[k]);
	params_array_end(&role->params);
	role_run(role, SQL_WAIT_POLL, on_ended);
}

static bool ended_joins(const struct role *role, const struct store_op *op)
{
	return ids_asked(role) + ((const struct store_ended *)op)->count <= SHORT_IDS;
}

void store_ended(struct store *store, struct store_ended *op)
{
	static const struct op_kind kind = {.name = "ended", .start = ended_start, .joins = ended_joins};
	store_give(store, op->count <= SHORT_IDS ? ROLE_READ : ROLE_POLL, &kind, &op->op, op->count / SHORT_IDS,
	    (size_t)op->count * 8);
}
