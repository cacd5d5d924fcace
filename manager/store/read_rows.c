/* Rows as response messages. What the messages lead to is on the heap, as protobuf-c frees it. */
#include "manager/store/read_rows.h"

#include "manager/store/batch_rows.h"
#include "manager/store/row.h"
#include "manager/store/store.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/batch.pb-c.h>
#include <reeve/v1/metric.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdlib.h>
#include <string.h>

static char *copy(const PGresult *rows, int row, int column)
{
	return row_copy(rows, row, column);
}

/* A list of a response with a message for each row. */
static void *each_of(const PGresult *rows, int count, size_t *counted, void *(*message)(const PGresult *rows, int row))
{
	void **messages = mem_malloc(sizeof *messages * ((size_t)count + 1));
	for (int i = 0; i < count; i++)
		messages[i] = message(rows, i);
	*counted = (size_t)count;
	return messages;
}

static void *each_row(const PGresult *rows, size_t *count, void *(*message)(const PGresult *rows, int row))
{
	return each_of(rows, PQntuples(rows), count, message);
}

/* The same where a page without anything is one row of nulls but for the last column, which says where to go on. */
static void *each_found(
    const PGresult *rows, size_t *count, int64_t *next, void *(*message)(const PGresult *rows, int row))
{
	int n = PQntuples(rows);
	*next = n ? row_int8(rows, 0, PQnfields(rows) - 1) : 0;
	return each_of(rows, n && !row_null(rows, 0, 0) ? n : 0, count, message);
}

/* The same where the last row is null but for its last column, which says where the next page begins. */
static void *each_before_last(
    const PGresult *rows, size_t *count, char **next_page, void *(*message)(const PGresult *rows, int row))
{
	int last = PQntuples(rows) - 1;
	*next_page = row_copy(rows, last, PQnfields(rows) - 1);
	return each_of(rows, last, count, message);
}

static Reeve__V1__TaskStatus status_value(const char *name)
{
	static const struct {
		const char *name;
		Reeve__V1__TaskStatus value;
	} all[] = {
	    {"queued", REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED},
	    {"executing", REEVE__V1__TASK_STATUS__TASK_STATUS_EXECUTING},
	    {"failed", REEVE__V1__TASK_STATUS__TASK_STATUS_FAILED},
	    {"completed", REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED},
	    {"dead", REEVE__V1__TASK_STATUS__TASK_STATUS_DEAD},
	    {"cancelled", REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(all[i].name, name))
			return all[i].value;
	return REEVE__V1__TASK_STATUS__TASK_STATUS_UNSPECIFIED;
}

/* Times that are infinite are shown as never. */
static int64_t time_shown(const PGresult *rows, int row, int column)
{
	int64_t us = row_time(rows, row, column);
	return us == INT64_MAX || us == INT64_MIN ? 0 : us;
}

/* The columns that begin at `column`, TASK_COLUMNS of them. */
static Reeve__V1__Task *task_from(const PGresult *r, int row, int column)
{
	Reeve__V1__Task *t = mem_malloc(sizeof *t);
	int c = column;
	reeve__v1__task__init(t);
	t->id = row_int8(r, row, c++);
	t->queue = copy(r, row, c++);
	t->type = copy(r, row, c++);
	t->status = status_value(row_text(r, row, c++));
	t->priority = row_int4(r, row, c++);
	t->run_at_us = time_shown(r, row, c++);
	t->attempt = (uint32_t)row_int2(r, row, c++);
	t->max_attempts = (uint32_t)row_int2(r, row, c++);
	t->timeout_ms = row_int8(r, row, c++);
	t->key = copy(r, row, c++);
	t->source = copy(r, row, c++);
	t->details = copy(r, row, c++);
	t->result = copy(r, row, c++);
	t->last_error = copy(r, row, c++);
	t->error_code = copy(r, row, c++);
	t->worker = copy(r, row, c++);
	t->token = row_time(r, row, c++);
	t->created_us = row_time(r, row, c++);
	t->first_started_us = row_time(r, row, c++);
	t->started_us = row_time(r, row, c++);
	t->finished_us = row_time(r, row, c++);
	t->expiry_us = row_time(r, row, c++);
	t->cancel_requested = row_bool(r, row, c++);
	t->remark = copy(r, row, c++);
	t->stack = copy(r, row, c++);
	t->batch_id = row_int8(r, row, c++);
	t->version = row_int8(r, row, c++);
	t->pipeline = copy(r, row, c++);
	t->stage = copy(r, row, c++);
	t->step = (uint32_t)row_int4(r, row, c++);
	t->error_count = (uint32_t)row_int4(r, row, c++);
	if (!row_null(r, row, c)) {
		t->last_error_kind_case = REEVE__V1__TASK__LAST_ERROR_KIND_RECOVERABLE;
		t->recoverable = row_bool(r, row, c);
	}
	c++;
	t->processing_ms = row_int8(r, row, c++);
	return t;
}

enum { TASK_COLUMNS = 33 };

/* Why a task waits: five columns. NULL: it does not. */
static Reeve__V1__Waiting *waiting_from(const PGresult *r, int row, int c)
{
	if (row_null(r, row, c) || !row_int8(r, row, c))
		return NULL;
	Reeve__V1__Waiting *w = mem_malloc(sizeof *w);
	reeve__v1__waiting__init(w);
	w->reason = (Reeve__V1__WaitReason)row_int8(r, row, c++);
	w->task_id = row_int8(r, row, c++);
	w->workers = (uint32_t)row_int8(r, row, c++);
	w->slots = (uint32_t)row_int8(r, row, c++);
	w->busy = (uint32_t)row_int8(r, row, c++);
	return w;
}

static void *task_row(const PGresult *rows, int row)
{
	return task_from(rows, row, 0);
}

static void *waiting_task_row(const PGresult *rows, int row)
{
	Reeve__V1__Task *t = task_from(rows, row, 0);
	t->waiting = waiting_from(rows, row, TASK_COLUMNS);
	return t;
}

void take_got(const PGresult *rows, int64_t id, void *response)
{
	Reeve__V1__ListResponse *out = response;
	for (int row = 0; row < PQntuples(rows) && !out->n_tasks; row++)
		if (row_int8(rows, row, 0) == id) {
			out->tasks = mem_malloc(sizeof *out->tasks);
			out->tasks[out->n_tasks++] = waiting_task_row(rows, row);
		}
}

void take_tasks(const PGresult *rows, void *response)
{
	Reeve__V1__ListResponse *out = response;
	out->tasks = each_row(rows, &out->n_tasks, task_row);
}

void take_list(const PGresult *rows, void *response)
{
	Reeve__V1__ListResponse *out = response;
	out->tasks = each_found(rows, &out->n_tasks, &out->next_before_id, waiting_task_row);
}

static void *matching_row(const PGresult *rows, int row)
{
	Reeve__V1__ChangedTask *t = mem_malloc(sizeof *t);
	reeve__v1__changed_task__init(t);
	t->id = row_int8(rows, row, 0);
	t->status = status_value(row_text(rows, row, 1));
	return t;
}

/* The responses of all changes have the same fields. */
void take_matching(const PGresult *rows, void *response)
{
	Reeve__V1__CancelResponse *out = response;
	out->tasks = each_found(rows, &out->n_tasks, &out->next_after_id, matching_row);
	if (out->n_tasks == STORE_FILTER_MOST)
		out->next_after_id = out->tasks[out->n_tasks - 1]->id;
}

void take_audit(const PGresult *rows, void *response)
{
	Reeve__V1__AuditResponse *out = response;
	out->events = mem_malloc(sizeof *out->events * (size_t)(PQntuples(rows) + 1));
	for (int row = 0; row < PQntuples(rows); row++) {
		if (row_null(rows, row, 3)) {
			out->next_page = copy(rows, row, 9);
			out->more = *out->next_page;
			continue;
		}
		Reeve__V1__AuditEvent *e = out->events[out->n_events++] = mem_malloc(sizeof *e);
		reeve__v1__audit_event__init(e);
		e->at_us = row_time(rows, row, 0);
		e->task_id = row_int8(rows, row, 1);
		e->token = row_time(rows, row, 2);
		e->event = copy(rows, row, 3);
		e->worker = copy(rows, row, 4);
		e->worker_id = row_int8(rows, row, 5);
		e->attempt = (uint32_t)row_int2(rows, row, 6);
		e->actor = copy(rows, row, 7);
		e->note = copy(rows, row, 8);
	}
}

void take_queues(const PGresult *rows, void *response)
{
	Reeve__V1__ListQueuesResponse *out = response;
	out->queues = mem_malloc(sizeof *out->queues * (size_t)(PQntuples(rows) + 1));
	for (int row = 0; row < PQntuples(rows); row++) {
		if (row_null(rows, row, 0)) {
			out->next_page = copy(rows, row, 7);
			continue;
		}
		Reeve__V1__QueueCounts *q = out->queues[out->n_queues++] = mem_malloc(sizeof *q);
		reeve__v1__queue_counts__init(q);
		q->queue = copy(rows, row, 0);
		q->type = copy(rows, row, 1);
		q->queued = row_int8(rows, row, 2);
		q->delayed = row_int8(rows, row, 3);
		q->executing = row_int8(rows, row, 4);
		q->failed = row_int8(rows, row, 5);
		q->oldest_due_us = row_time(rows, row, 6);
	}
}

static char **copy_array(const PGresult *rows, int row, int column, size_t *count)
{
	const char *data = NULL;
	int n = row_array(rows, row, column, &data);
	char **texts = mem_malloc(sizeof *texts * (size_t)(n + 1));
	for (int i = 0; i < n; i++) {
		int length;
		const char *value = row_array_next(&data, &length);
		texts[i] = mem_strndup(value, (size_t)length);
	}
	*count = (size_t)n;
	return texts;
}

/* The columns of worker_list. */
static void *worker_row(const PGresult *rows, int row)
{
	Reeve__V1__Worker *w = mem_malloc(sizeof *w);
	reeve__v1__worker__init(w);
	w->incarnation = row_int8(rows, row, 0);
	w->name = copy(rows, row, 1);
	w->host = copy(rows, row, 2);
	w->pid = row_int4(rows, row, 3);
	w->version = copy(rows, row, 4);
	w->concurrency = (uint32_t)row_int4(rows, row, 5);
	w->queues = copy_array(rows, row, 6, &w->n_queues);
	w->types = copy_array(rows, row, 7, &w->n_types);
	w->registered_us = row_time(rows, row, 8);
	w->heartbeat_us = row_time(rows, row, 9);
	w->state = copy(rows, row, 10);
	w->holding = row_int8(rows, row, 11);
	w->doing = copy(rows, row, 12);
	w->doing_since_us = row_time(rows, row, 13);
	w->succeeded = row_int8(rows, row, 14);
	w->failed = row_int8(rows, row, 15);
	w->by_hand = row_bool(rows, row, 16);
	w->uptime_ms = row_int8(rows, row, 17);
	return w;
}

void take_workers(const PGresult *rows, void *response)
{
	Reeve__V1__ListWorkersResponse *out = response;
	out->workers = each_found(rows, &out->n_workers, &out->next_after, worker_row);
}

void take_queue_status(const PGresult *rows, void *response)
{
	Reeve__V1__QueueStatusResponse *out = response;
	out->state = copy(rows, 0, 0);
	out->since_us = row_time(rows, 0, 1);
	out->waiting = row_int8(rows, 0, 2);
	out->running = row_int8(rows, 0, 3);
	out->finished = row_int8(rows, 0, 4);
	out->open_batches = row_int8(rows, 0, 5);
	if (!row_null(rows, 0, 6))
		out->batch = batch_from_row(rows, 0, 6);
}

void take_queue_workers(const PGresult *rows, void *response)
{
	Reeve__V1__QueueStatusResponse *out = response;
	int64_t next;
	out->workers = each_found(rows, &out->n_workers, &next, worker_row);
	out->more_workers = next != 0;
}

void take_stats(const PGresult *rows, void *response)
{
	Reeve__V1__StatsResponse *out = response;
	out->queued = row_int8(rows, 0, 0);
	out->delayed = row_int8(rows, 0, 1);
	out->executing = row_int8(rows, 0, 2);
	out->failed = row_int8(rows, 0, 3);
	out->completed = row_int8(rows, 0, 4);
	out->dead = row_int8(rows, 0, 5);
	out->cancelled = row_int8(rows, 0, 6);
	out->workers_alive = row_int8(rows, 0, 7);
}

static void *callback_row(const PGresult *rows, int row)
{
	Reeve__V1__Callback *c = mem_malloc(sizeof *c);
	reeve__v1__callback__init(c);
	c->id = row_int8(rows, row, 0);
	c->batch_id = row_int8(rows, row, 1);
	c->task_id = row_int8(rows, row, 2);
	c->event = copy(rows, row, 3);
	c->url = copy(rows, row, 4);
	c->state = copy(rows, row, 5);
	c->attempts = (uint32_t)row_int4(rows, row, 6);
	c->last_status = row_int4(rows, row, 7);
	c->last_error = copy(rows, row, 8);
	c->created_us = row_time(rows, row, 9);
	c->next_us = row_time(rows, row, 10);
	c->ended_us = row_time(rows, row, 11);
	return c;
}

void take_callbacks(const PGresult *rows, void *response)
{
	Reeve__V1__CallbacksResponse *out = response;
	out->callbacks = each_found(rows, &out->n_callbacks, &out->next_before_id, callback_row);
}

static void *error_group_row(const PGresult *rows, int row)
{
	Reeve__V1__ErrorGroup *g = mem_malloc(sizeof *g);
	reeve__v1__error_group__init(g);
	g->error = copy(rows, row, 0);
	g->error_code = copy(rows, row, 1);
	g->attempts = row_int8(rows, row, 2);
	g->waiting = row_int8(rows, row, 3);
	g->dead = row_int8(rows, row, 4);
	g->first_us = row_time(rows, row, 5);
	g->last_us = row_time(rows, row, 6);
	g->example_id = row_int8(rows, row, 7);
	return g;
}

void take_errors(const PGresult *rows, void *response)
{
	Reeve__V1__ErrorsResponse *out = response;
	out->groups = each_before_last(rows, &out->n_groups, &out->next_page, error_group_row);
}

static void *execution_count_row(const PGresult *rows, int row)
{
	Reeve__V1__ExecutionCount *c = mem_malloc(sizeof *c);
	reeve__v1__execution_count__init(c);
	c->hour_us = row_time(rows, row, 0);
	c->queue = copy(rows, row, 1);
	c->type = copy(rows, row, 2);
	c->count = row_int8(rows, row, 3);
	c->completed = row_int8(rows, row, 4);
	c->total_ms = row_int8(rows, row, 5);
	c->average_ms = row_int8(rows, row, 6);
	c->fastest_ms = row_int8(rows, row, 7);
	c->slowest_ms = row_int8(rows, row, 8);
	c->last_us = row_time(rows, row, 9);
	c->total_us = row_int8(rows, row, 10);
	return c;
}

void take_executions(const PGresult *rows, void *response)
{
	Reeve__V1__ExecutionsResponse *out = response;
	out->counts = each_before_last(rows, &out->n_counts, &out->next_page, execution_count_row);
}

static void *metric_row(const PGresult *rows, int row)
{
	Reeve__V1__Metric *m = mem_malloc(sizeof *m);
	reeve__v1__metric__init(m);
	m->category = copy(rows, row, 0);
	m->name = copy(rows, row, 1);
	m->value = strtod(row_text(rows, row, 2), NULL);
	m->changed_us = row_time(rows, row, 3);
	m->updated_us = row_time(rows, row, 4);
	m->source = copy(rows, row, 5);
	return m;
}

void take_metrics(const PGresult *rows, void *response)
{
	Reeve__V1__ListMetricsResponse *out = response;
	out->metrics = each_row(rows, &out->n_metrics, metric_row);
}

/* Which of its tasks waits: three columns, and the five of why. NULL: none. */
static Reeve__V1__WaitingTask *waiting_task_from(const PGresult *r, int row, int c)
{
	if (row_null(r, row, c))
		return NULL;
	Reeve__V1__WaitingTask *t = mem_malloc(sizeof *t);
	reeve__v1__waiting_task__init(t);
	t->id = row_int8(r, row, c++);
	t->run_at_us = row_time(r, row, c++);
	t->attempt = (uint32_t)row_int2(r, row, c++);
	t->waiting = waiting_from(r, row, c);
	return t;
}

static void *batch_row(const PGresult *rows, int row)
{
	Reeve__V1__Batch *b = batch_from_row(rows, row, 0);
	b->first_waiting = waiting_task_from(rows, row, BATCH_COLUMNS);
	return b;
}

void take_batches(const PGresult *rows, void *response)
{
	Reeve__V1__ListBatchesResponse *out = response;
	out->batches = each_found(rows, &out->n_batches, &out->next_before_id, batch_row);
}

/* A task in each row, behind the batch; without tasks one row. */
void take_batch_report(const PGresult *rows, void *response)
{
	Reeve__V1__BatchReportResponse *out = response;
	int n = PQntuples(rows);
	if (!n)
		return;
	out->batch = batch_from_row(rows, 0, 0);
	out->batch->first_waiting = waiting_task_from(rows, 0, BATCH_COLUMNS + TASK_COLUMNS);
	out->n_tasks = row_null(rows, 0, BATCH_COLUMNS) ? 0 : (size_t)n;
	out->tasks = mem_malloc(sizeof *out->tasks * (out->n_tasks + 1));
	for (size_t i = 0; i < out->n_tasks; i++)
		out->tasks[i] = task_from(rows, (int)i, BATCH_COLUMNS);
}

static const struct {
	Reeve__V1__CheckKind kind;
	const char *what; /* what check.sql calls it */
} check_kinds[] = {
    {REEVE__V1__CHECK_KIND__CHECK_KIND_DEAD, "dead"},
    {REEVE__V1__CHECK_KIND__CHECK_KIND_FAILED, "failed"},
    {REEVE__V1__CHECK_KIND__CHECK_KIND_OLDEST_QUEUED, "oldest"},
    {REEVE__V1__CHECK_KIND__CHECK_KIND_RUNNING, "running"},
    {REEVE__V1__CHECK_KIND__CHECK_KIND_SCHEDULES, "late"},
    {REEVE__V1__CHECK_KIND__CHECK_KIND_CALLBACKS, "callbacks"},
    {REEVE__V1__CHECK_KIND__CHECK_KIND_UNSERVED, "unserved"},
    {REEVE__V1__CHECK_KIND__CHECK_KIND_HELD, "held"},
};

static Reeve__V1__CheckMeasure *measure_of(const Reeve__V1__CheckResponse *response, const char *what)
{
	for (size_t i = 0; i < sizeof check_kinds / sizeof *check_kinds; i++)
		for (size_t j = 0; j < response->n_measures && !strcmp(check_kinds[i].what, what); j++)
			if (response->measures[j]->kind == check_kinds[i].kind)
				return response->measures[j];
	return NULL;
}

static Reeve__V1__CheckExample *example_from(const PGresult *rows, int row)
{
	Reeve__V1__CheckExample *e = mem_malloc(sizeof *e);
	reeve__v1__check_example__init(e);
	e->count = row_int8(rows, row, 3);
	e->ms = row_int8(rows, row, 4);
	e->task_id = row_int8(rows, row, 5);
	e->queue = copy(rows, row, 6);
	e->type = copy(rows, row, 7);
	e->name = copy(rows, row, 8);
	e->waits_for = row_int8(rows, row, 9);
	return e;
}

void take_check(const PGresult *rows, void *response)
{
	Reeve__V1__CheckResponse *out = response;
	bool known = false;
	for (int row = 0; row < PQntuples(rows); row++) {
		Reeve__V1__CheckMeasure *m = measure_of(out, row_text(rows, row, 0));
		known = known || !strcmp(row_text(rows, row, 0), "known");
		if (!m)
			continue;
		if (row_int8(rows, row, 1) > m->count)
			m->count = row_int8(rows, row, 1);
		if (row_int8(rows, row, 2) > m->longest_ms)
			m->longest_ms = row_int8(rows, row, 2);
		if (!row_int8(rows, row, 3))
			continue; /* the longest, or how many, alone */
		m->looked_at = row_int8(rows, row, 1);
		m->examples = mem_realloc(m->examples, sizeof *m->examples * (m->n_examples + 1));
		m->examples[m->n_examples++] = example_from(rows, row);
	}
	if (!known)
		*out->manager = '\0';
}
