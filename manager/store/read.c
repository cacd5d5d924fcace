/* Reading: requests as statements, and their rows straight into response messages (read_rows.c). */
#include "manager/store/internal.h"
#include "manager/store/read_rows.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/batch.pb-c.h>
#include <reeve/v1/metric.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>
#include <string.h>

static const char *text_or_null(const char *text)
{
	return text && *text ? text : NULL;
}

static enum sql_id add_waited(struct params *p, const struct store_read *op)
{
	params_int8s(p, op->ids, op->count);
	params_int8(p, op->most_bytes);
	return SQL_WAIT_RESULTS;
}

/* The statuses that tasks may have which match, as bits by enum TaskStatus. */
static unsigned statuses_wanted(const Reeve__V1__ListRequest *request, const struct store_filter *filter)
{
	unsigned wanted = ~0U;
	if (request->status)
		wanted &= 1U << request->status;
	if (filter && filter->statuses)
		wanted &= filter->statuses;
	if (filter && filter->running_longer_ms)
		wanted &= 1U << REEVE__V1__TASK_STATUS__TASK_STATUS_EXECUTING;
	return wanted;
}

/* So many live, and so many ended tasks are looked at for an answer: it comes within 100 ms. */
enum { LIST_LOOKS_AT = 5000 };

/* Where all match, no more than are wanted. */
static int64_t list_looks_at(const Reeve__V1__ListRequest *request, const struct store_filter *filter)
{
	bool all = !filter && !request->status && !*request->queue && !*request->type;
	return all && request->limit < LIST_LOOKS_AT ? request->limit : LIST_LOOKS_AT;
}

static enum sql_id add_list(struct params *p, const struct store_read *op)
{
	static const char *const names[] = {NULL, "queued", "executing", "failed", "completed", "dead", "cancelled"};
	static const unsigned executing = 1U << REEVE__V1__TASK_STATUS__TASK_STATUS_EXECUTING;
	static const unsigned live = executing | 1U << REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED |
	    1U << REEVE__V1__TASK_STATUS__TASK_STATUS_FAILED;
	const Reeve__V1__ListRequest *request = op->request;
	unsigned wanted = statuses_wanted(request, op->filter);
	params_text(p, names[request->status]);
	params_text(p, text_or_null(request->queue));
	params_text(p, text_or_null(request->type));
	params_int8(p, request->before_id ? request->before_id : INT64_MAX);
	params_int8(p, request->limit);
	static const struct store_filter everything;
	filter_params(p, op->filter ? op->filter : &everything);
	params_int8(p, op->filter ? op->filter->after_id : 0);
	params_bool(p, wanted & ~live);
	params_int8(p, op->most_bytes);
	params_int8(p, list_looks_at(request, op->filter));
	params_int4(p, (wanted & live) == executing ? 2 : (wanted & live) != 0);
	return SQL_LIST_TASKS;
}

static enum sql_id add_matching(struct params *p, const struct store_read *op)
{
	matching_params(p, op->filter, op->change);
	return SQL_LOOK_FOR_TASKS;
}

/* An answer with nine events for each of so many rows, all with the longest texts, is below the longest message. */
enum { AUDIT_PAGE = 500 };

static enum sql_id add_audit(struct params *p, const struct store_read *op)
{
	const Reeve__V1__AuditRequest *request = op->request;
	int32_t newest = (int32_t)request->limit + 1; /* one more tells whether there are more */
	int32_t rows = request->newest ? newest : request->limit < AUDIT_PAGE ? (int32_t)request->limit : AUDIT_PAGE;
	if (request->task_id)
		params_int8(p, request->task_id);
	else if (!request->newest)
		params_text(p, text_or_null(request->page));
	params_time(p, request->since_us ? request->since_us : STORE_TIME_BEGIN);
	if (!request->task_id) {
		params_int4(p, rows);
		return request->newest ? SQL_AUDIT_NEWEST : SQL_AUDIT_PAGE;
	}
	params_int8(p, rows);
	params_text(p, text_or_null(request->page));
	params_bool(p, request->newest);
	return SQL_AUDIT_TASK;
}

static enum sql_id add_queues(struct params *p, const struct store_read *op)
{
	const Reeve__V1__ListQueuesRequest *request = op->request;
	params_text(p, text_or_null(request->queue));
	params_text(p, text_or_null(request->page));
	return SQL_QUEUE_COUNTS;
}

/* So many incarnations are looked at for an answer. */
enum { WORKERS_LOOKED_AT = 5000 };

static enum sql_id list_workers(
    struct params *p, const struct store_read *op, bool all, const char *queue, int64_t after, int64_t limit)
{
	params_bool(p, all);
	params_int8(p, op->lease_ms);
	params_text(p, text_or_null(queue));
	params_int8(p, after);
	params_int8(p, limit);
	params_int8(p, WORKERS_LOOKED_AT);
	params_int8(p, op->most_bytes);
	return SQL_WORKER_LIST;
}

static enum sql_id add_workers(struct params *p, const struct store_read *op)
{
	const Reeve__V1__ListWorkersRequest *request = op->request;
	return list_workers(p, op, request->all, request->queue, request->after, request->limit);
}

static enum sql_id add_queue_status(struct params *p, const struct store_read *op)
{
	const Reeve__V1__QueueStatusRequest *request = op->request;
	params_text(p, request->queue);
	return SQL_QUEUE_STATUS;
}

static enum sql_id add_queue_workers(struct params *p, const struct store_read *op)
{
	enum { SHOWN = 100 };
	return list_workers(p, op, false, ((const Reeve__V1__QueueStatusRequest *)op->request)->queue, 0, SHOWN);
}

static enum sql_id add_stats(struct params *p, const struct store_read *op)
{
	params_int8(p, op->lease_ms);
	return SQL_STATS;
}

static const Reeve__V1__CheckQuestion *question_of(const Reeve__V1__CheckRequest *request, Reeve__V1__CheckKind kind)
{
	for (size_t i = 0; i < request->n_questions; i++)
		if (request->questions[i]->kind == kind)
			return request->questions[i];
	return NULL;
}

static void add_longer(struct params *p, const Reeve__V1__CheckQuestion *question)
{
	if (question)
		params_int8(p, question->longer_ms);
	else
		params_null(p);
}

static enum sql_id add_check(struct params *p, const struct store_read *op)
{
	const Reeve__V1__CheckRequest *request = op->request;
	params_text(p, text_or_null(request->queue));
	params_text(p, text_or_null(request->type));
	params_bool(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_DEAD) != NULL);
	params_bool(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_FAILED) != NULL);
	params_bool(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_OLDEST_QUEUED) != NULL);
	add_longer(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_RUNNING));
	add_longer(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_SCHEDULES));
	params_bool(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_CALLBACKS) != NULL);
	params_bool(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_UNSERVED) != NULL);
	params_bool(p, question_of(request, REEVE__V1__CHECK_KIND__CHECK_KIND_HELD) != NULL);
	return SQL_CHECK;
}

/* So many callbacks, or batches, are looked at for an answer. */
enum { CALLBACKS_LOOKED_AT = 10000, BATCHES_LOOKED_AT = 10000 };

static enum sql_id add_callbacks(struct params *p, const struct store_read *op)
{
	const Reeve__V1__CallbacksRequest *request = op->request;
	if (request->batch_id)
		params_int8(p, request->batch_id);
	else
		params_null(p);
	params_text(p, text_or_null(request->state));
	params_int8(p, request->before_id ? request->before_id : INT64_MAX);
	params_int8(p, request->limit);
	params_int8(p, CALLBACKS_LOOKED_AT);
	return SQL_CALLBACKS_LIST;
}

/* So many attempts that went wrong, and so many dead tasks, are looked at for an answer. */
enum { ERRORS_LOOKED_AT = 5000 };

static enum sql_id add_errors(struct params *p, const struct store_read *op)
{
	const Reeve__V1__ErrorsRequest *request = op->request;
	params_bool(p, request->by == REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE);
	params_text(p, text_or_null(request->queue));
	params_text(p, text_or_null(request->type));
	params_time(p, request->since_us);
	params_text(p, text_or_null(request->page));
	params_int4(p, ERRORS_LOOKED_AT);
	params_int8(p, op->most_bytes);
	return SQL_ERRORS;
}

static enum sql_id add_executions(struct params *p, const struct store_read *op)
{
	const Reeve__V1__ExecutionsRequest *request = op->request;
	params_bool(p, request->by == REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE);
	params_text(p, text_or_null(request->queue));
	params_text(p, text_or_null(request->type));
	params_time(p, request->since_us);
	params_text(p, text_or_null(request->page));
	return SQL_EXECUTIONS;
}

static enum sql_id add_metrics(struct params *p, const struct store_read *op)
{
	const Reeve__V1__ListMetricsRequest *request = op->request;
	params_text(p, text_or_null(request->category));
	params_text(p, request->after_category);
	params_text(p, request->after_name);
	params_int8(p, (int64_t)request->limit + 1); /* one more tells whether there are more */
	return SQL_METRICS_LIST;
}

/* Of each batch, up to 2,000 callbacks are counted. */
enum { BATCHES_PAGE = 250 };

static enum sql_id add_batches(struct params *p, const struct store_read *op)
{
	const Reeve__V1__ListBatchesRequest *request = op->request;
	params_text(p, text_or_null(request->queue));
	params_bool(p, request->open_only);
	params_int8(p, request->before_id ? request->before_id : INT64_MAX);
	params_int8(p, request->limit < BATCHES_PAGE ? request->limit : BATCHES_PAGE);
	params_int8(p, BATCHES_LOOKED_AT);
	return SQL_BATCH_LIST;
}

static enum sql_id add_batch_report(struct params *p, const struct store_read *op)
{
	const Reeve__V1__BatchReportRequest *request = op->request;
	params_int8(p, request->id);
	params_int8(p, request->after_id);
	params_int8(p, (int64_t)request->limit + 1); /* one more tells whether there are more */
	params_int8(p, op->most_bytes);
	return SQL_BATCH_REPORT;
}

static const struct reading {
	enum sql_id (*add)(struct params *p, const struct store_read *op);
	void (*take)(const PGresult *rows, void *response);
} readings[] = {
    [STORE_WAITED] = {add_waited, take_tasks},
    [STORE_LIST] = {add_list, take_list},
    [STORE_MATCHING] = {add_matching, take_matching},
    [STORE_AUDIT] = {add_audit, take_audit},
    [STORE_QUEUES] = {add_queues, take_queues},
    [STORE_WORKERS] = {add_workers, take_workers},
    [STORE_STATS] = {add_stats, take_stats},
    [STORE_CALLBACKS] = {add_callbacks, take_callbacks},
    [STORE_ERRORS] = {add_errors, take_errors},
    [STORE_EXECUTIONS] = {add_executions, take_executions},
    [STORE_BATCHES] = {add_batches, take_batches},
    [STORE_BATCH_REPORT] = {add_batch_report, take_batch_report},
    [STORE_METRICS] = {add_metrics, take_metrics},
    [STORE_QUEUE_STATUS] = {add_queue_status, take_queue_status},
    [STORE_QUEUE_WORKERS] = {add_queue_workers, take_queue_workers},
    [STORE_CHECK] = {add_check, take_check},
};

static void on_read(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	struct store_read *op = BATCH_OP(role, struct store_read, 0);
	readings[op->kind].take(result->rows, op->response);
	role_done(role);
}

static void read_start(struct role *role)
{
	struct store_read *op = BATCH_OP(role, struct store_read, 0);
	role_run(role, readings[op->kind].add(&role->params, op), on_read);
}

static struct store_read *reading(struct role *role, int i)
{
	return BATCH_OP(role, struct store_read, i);
}

/* Each of those asked for together gets its task. */
static void on_got(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	for (int i = 0; i < role->count; i++)
		take_got(result->rows, reading(role, i)->ids[0], reading(role, i)->response);
	role_done(role);
}

static void get_start(struct role *role)
{
	params_array_begin(&role->params, PARAMS_INT8);
	for (int i = 0; i < role->count; i++)
		params_add_int8(&role->params, reading(role, i)->ids[0]);
	params_array_end(&role->params);
	role_run(role, SQL_GET_TASKS, on_got);
}

/* Not more: each may have details and a result of a mebibyte. */
static bool get_joins(const struct role *role, const struct store_op *op)
{
	enum { GETS_AT_ONCE = 32 };
	(void)op;
	return role->count < GETS_AT_ONCE;
}

/* Whether it looks at few rows, whatever there is. */
static bool is_quick(const struct store_read *op)
{
	switch (op->kind) {
	case STORE_WAITED:
	case STORE_CHECK:
		return true;
	case STORE_AUDIT:
		return ((const Reeve__V1__AuditRequest *)op->request)->task_id != 0;
	default:
		return false;
	}
}

void store_read_drop(struct store_read *op)
{
	role_drop(op->op.role, &op->op);
}

void store_read(struct store *store, struct store_read *op)
{
	static const struct op_kind one = {.name = "read", .start = read_start};
	static const struct op_kind gets = {.name = "read", .start = get_start, .joins = get_joins};
	if (op->kind == STORE_GET)
		store_give(store, ROLE_READ, &gets, &op->op, 0, 256);
	else
		store_give(store, is_quick(op) ? ROLE_READ : ROLE_LOOK, &one, &op->op, 1, 256);
}

/* --- which have ended ------------------------------------------------------------------------------------------ */

static struct store_ended *asked(struct role *role, int i)
{
	return BATCH_OP(role, struct store_ended, i);
}

/* The row of this id, or -1. The rows are in the order of their ids. */
static int row_of(const PGresult *rows, int64_t id)
{
	int low = 0, high = PQntuples(rows);
	while (low < high) {
		int middle = low + (high - low) / 2;
		if (row_int8(rows, middle, 0) < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < PQntuples(rows) && row_int8(rows, low, 0) == id ? low : -1;
}

/* `ids` has room for as many as the operation asked about: those that have ended are put at its beginning, the others at its end. */
static void take_ended(struct store_ended *op, const PGresult *rows, int64_t *ids)
{
	op->ended = ids;
	op->live = ids + op->count;
	op->ended_count = op->live_count = 0;
	for (int i = 0; i < op->count; i++) {
		int row = row_of(rows, op->ids[i]);
		if (row >= 0 && row_bool(rows, row, 1)) {
			op->ended[op->ended_count++] = op->ids[i];
		} else if (row >= 0) {
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

static void on_ended(void *arg, const struct conn_result *result)
{
	struct role *role = arg;
	UNLESS_OK(role, result)
	int64_t *ids = role->state = mem_malloc(sizeof *ids * ((size_t)ids_asked(role) + 1));
	for (int i = 0; i < role->count; i++) {
		take_ended(asked(role, i), result->rows, ids);
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
	role_run(role, SQL_WAIT_LOOK, on_ended);
}

static bool ended_joins(const struct role *role, const struct store_op *op)
{
	enum { IDS_AT_ONCE = 1000 };
	return ids_asked(role) + ((const struct store_ended *)op)->count <= IDS_AT_ONCE;
}

void store_ended(struct store *store, struct store_ended *op)
{
	static const struct op_kind kind = {.name = "ended", .start = ended_start, .joins = ended_joins};
	store_give(store, ROLE_READ, &kind, &op->op, 0, (size_t)op->count * 8);
}
