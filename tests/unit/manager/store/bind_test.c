/* Requests as parameters and rows as responses, by the `takes` and `gives` lines of real statements. The rows are built
 * here, in the binary format that PostgreSQL sends. */
#include "manager/store/bind.h"
#include "manager/store/pgtime.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/batch.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <reeve/v1/schedule.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <string.h>

enum { BOOL = 16, INT8 = 20, INT4 = 23, TEXT = 25, TEXTS = 1009, TIME = 1184 };

static const struct bind_values values = {
    .request_id = (const uint8_t *)"sixteen bytes id",
    .actor = "ops",
    .change = "{}",
    .lease_ms = 15000,
    .max_bytes = 4000000,
    .max_details = 2000000,
    .max_scanned = 5000,
};
static struct params params;

static void bind(enum sql_id statement, const ProtobufCMessage *request)
{
	params_reset(&params);
	bind_params(&params, statement, request, &values);
}

static int64_t param_int8(int i)
{
	uint64_t v;
	cr_assert(eq(int, params.size[i], 8));
	memcpy(&v, params.data + params.start[i], 8);
	return (int64_t)be64toh(v);
}

static const char *param_text(int i)
{
	static char text[100];
	if (params.size[i] < 0)
		return "(null)";
	memcpy(text, params.data + params.start[i], (size_t)params.size[i]);
	text[params.size[i]] = '\0';
	return text;
}

Test(bind, fields_are_parameters_in_the_order_of_the_head)
{
	Reeve__V1__ErrorsRequest request = REEVE__V1__ERRORS_REQUEST__INIT;
	request.by = REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_CODE;
	request.queue = (char *)"mail";
	request.since_us = 1700000000000000;
	bind(SQL_ERRORS, &request.base);
	cr_assert(eq(int, params.count, 7));
	cr_assert(eq(str, (char *)param_text(0), "code"));
	cr_assert(eq(str, (char *)param_text(1), "mail"));
	cr_assert(eq(str, (char *)param_text(2), "(null)"), "an empty type is any");
	cr_assert(eq(i64, pgtime_to_us(param_int8(3)), 1700000000000000));
	cr_assert(eq(str, (char *)param_text(4), "(null)"));
	cr_assert(eq(i64, param_int8(5), 5000));
	cr_assert(eq(i64, param_int8(6), 4000000));
	request.by = REEVE__V1__ERROR_GROUPING__ERROR_GROUPING_TEXT;
	bind(SQL_ERRORS, &request.base);
	cr_assert(eq(str, (char *)param_text(0), "text"), "the first of an enum without an unspecified value");
	params_free(&params);
}

Test(bind, lists_and_flags_are_parameters)
{
	int64_t ids[] = {3, 5};
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	Reeve__V1__ListBatchesRequest list = REEVE__V1__LIST_BATCHES_REQUEST__INIT;
	wait.ids = ids;
	wait.n_ids = 2;
	bind(SQL_WAIT_RESULTS, &wait.base);
	cr_assert(eq(int, params.count, 3));
	cr_assert(eq(int, params.size[0], 20 + 2 * 12));
	list.open_only = true;
	list.limit = 7;
	bind(SQL_BATCH_LIST, &list.base);
	cr_assert(eq(int, params.size[1], 1));
	cr_assert(params.data[params.start[1]] == 1);
	cr_assert(eq(i64, param_int8(3), 7));
	params_free(&params);
}

Test(bind, paths_lead_to_nested_fields_and_lists)
{
	Reeve__V1__Schedule schedule = REEVE__V1__SCHEDULE__INIT;
	Reeve__V1__AddScheduleRequest add = REEVE__V1__ADD_SCHEDULE_REQUEST__INIT;
	Reeve__V1__CheckQuestion dead = REEVE__V1__CHECK_QUESTION__INIT, running = dead, *questions[] = {&dead, &running};
	Reeve__V1__CheckRequest check = REEVE__V1__CHECK_REQUEST__INIT;
	dead.kind = REEVE__V1__CHECK_KIND__CHECK_KIND_DEAD;
	running.kind = REEVE__V1__CHECK_KIND__CHECK_KIND_RUNNING;
	check.questions = questions;
	check.n_questions = 2;
	bind(SQL_CHECK, &check.base);
	cr_assert(eq(int, params.size[2], 20 + 2 * 4 + (int)strlen("deadrunning")), "names of an enum's values");
	cr_assert(eq(int, params.size[3], 20 + 2 * (4 + 8)), "whole numbers");
	bind(SQL_SCHEDULE_ADD, &add.base);
	cr_assert(eq(int, params.size[0], 16));
	cr_assert(eq(str, (char *)param_text(1), "(null)"), "there is no schedule");
	cr_assert(eq(str, (char *)param_text(2), "{}"));
	schedule.name = (char *)"nightly";
	add.schedule = &schedule;
	bind(SQL_SCHEDULE_ADD, &add.base);
	cr_assert(eq(str, (char *)param_text(1), "nightly"));
	params_free(&params);
}

/* --- Rows --------------------------------------------------------------------------------------------------------- */

static PGresult *rows;
static int columns, filled;

/* Creates a result with the statement's columns; all of them are text unless `set` gives another type. */
static void result_of(enum sql_id statement)
{
	PGresAttDesc attributes[80] = {0};
	columns = 1;
	for (const char *at = sql_statements[statement].gives; *at; at++)
		columns += *at == ' ';
	for (int i = 0; i < columns; i++)
		attributes[i] = (PGresAttDesc){.name = (char *)"x", .format = 1, .typid = TEXT};
	rows = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	cr_assert(PQsetResultAttrs(rows, columns, attributes));
	filled = 0;
}

static int column_of(enum sql_id statement, const char *name)
{
	const char *at = sql_statements[statement].gives;
	for (int column = 0; *at; column++) {
		size_t length = strcspn(at, " ");
		if (length == strlen(name) && !strncmp(at, name, length))
			return column;
		at += length + (at[length] == ' ');
	}
	cr_assert(false, "there is no column %s", name);
	return -1;
}

static void add_row(void)
{
	for (int i = 0; i < columns; i++)
		cr_assert(PQsetvalue(rows, filled, i, NULL, -1));
	filled++;
}

/* libpq cannot change a column's type later, so the PQftype below returns the type from here. */
static Oid types[80];

static void set(enum sql_id statement, const char *name, Oid type, const void *value, int length)
{
	int column = column_of(statement, name);
	types[column] = type;
	cr_assert(PQsetvalue(rows, filled - 1, column, (char *)value, length));
}

Oid PQftype(const PGresult *result, int column)
{
	(void)result;
	return types[column] ? types[column] : TEXT;
}

static void set_text(enum sql_id statement, const char *name, const char *text)
{
	set(statement, name, TEXT, text, (int)strlen(text));
}

static void set_int8(enum sql_id statement, const char *name, int64_t value)
{
	uint64_t v = htobe64((uint64_t)value);
	set(statement, name, INT8, &v, 8);
}

static void set_int4(enum sql_id statement, const char *name, int32_t value)
{
	uint32_t v = htobe32((uint32_t)value);
	set(statement, name, INT4, &v, 4);
}

static void set_time(enum sql_id statement, const char *name, int64_t us)
{
	uint64_t v = htobe64((uint64_t)pgtime_from_us(us));
	set(statement, name, TIME, &v, 8);
}

Test(bind, rows_are_messages_of_the_list_and_the_last_one_sets_more)
{
	Reeve__V1__ErrorsResponse *response = calloc(1, sizeof *response);
	reeve__v1__errors_response__init(response);
	result_of(SQL_ERRORS);
	add_row();
	set_text(SQL_ERRORS, "error", "no route");
	set_int8(SQL_ERRORS, "attempts", 3);
	set_time(SQL_ERRORS, "first_us", 1700000000000000);
	set_time(SQL_ERRORS, "last_us", INT64_MAX);
	add_row();
	set_text(SQL_ERRORS, ".next_page", "here");
	bind_rows(SQL_ERRORS, rows, &response->base);
	cr_assert(eq(sz, response->n_groups, 1));
	cr_assert(eq(str, (char *)response->groups[0]->error, "no route"));
	cr_assert(eq(str, (char *)response->groups[0]->error_code, ""), "null");
	cr_assert(eq(i64, response->groups[0]->attempts, 3));
	cr_assert(eq(i64, response->groups[0]->first_us, 1700000000000000));
	cr_assert(eq(i64, response->groups[0]->last_us, 0), "an infinite time");
	cr_assert(eq(str, (char *)response->next_page, "here"));
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}

Test(bind, messages_within_messages_are_there_if_their_first_field_is)
{
	enum sql_id id = SQL_LIST_TASKS;
	Reeve__V1__ListResponse *response = calloc(1, sizeof *response);
	reeve__v1__list_response__init(response);
	result_of(id);
	for (int i = 1; i <= 3; i++) {
		add_row();
		set_int8(id, "id", i);
		set_text(id, "status", i == 1 ? "executing" : i == 2 ? "queued" : "none that there is");
		set_int4(id, "priority", -i);
		if (i != 3)
			set_int8(id, "waiting.reason", i == 2 ? REEVE__V1__WAIT_REASON__WAIT_REASON_TURN : 0);
		set_int8(id, "waiting.slots", 9);
	}
	set(id, "recoverable", BOOL, "\1", 1);
	bind_rows(id, rows, &response->base);
	cr_assert(eq(sz, response->n_tasks, 3));
	cr_assert(eq(int, response->tasks[0]->status, REEVE__V1__TASK_STATUS__TASK_STATUS_EXECUTING));
	cr_assert(eq(int, response->tasks[2]->status, REEVE__V1__TASK_STATUS__TASK_STATUS_UNSPECIFIED));
	cr_assert(eq(i32, response->tasks[1]->priority, -2));
	cr_assert(response->tasks[0]->waiting == NULL, "0");
	cr_assert(response->tasks[2]->waiting == NULL, "null");
	cr_assert(eq(int, response->tasks[1]->waiting->reason, REEVE__V1__WAIT_REASON__WAIT_REASON_TURN));
	cr_assert(eq(u32, response->tasks[1]->waiting->slots, 9));
	cr_assert(eq(int, response->tasks[1]->last_error_kind_case, REEVE__V1__TASK__LAST_ERROR_KIND__NOT_SET));
	cr_assert(eq(int, response->tasks[2]->last_error_kind_case, REEVE__V1__TASK__LAST_ERROR_KIND_RECOVERABLE));
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}

Test(bind, a_message_whose_first_field_is_0_is_there)
{
	Reeve__V1__SetQueueResponse *response = calloc(1, sizeof *response);
	reeve__v1__set_queue_response__init(response);
	result_of(SQL_QUEUE_SET);
	add_row();
	set_int4(SQL_QUEUE_SET, "settings.retry_limit", 0);
	set_text(SQL_QUEUE_SET, "settings.entry_type", "begin");
	bind_rows(SQL_QUEUE_SET, rows, &response->base);
	cr_assert(response->settings != NULL);
	cr_assert(eq(str, (char *)response->settings->entry_type, "begin"));
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}

Test(bind, a_statement_without_a_list_fills_the_response)
{
	Reeve__V1__QueueStatusResponse *response = calloc(1, sizeof *response);
	reeve__v1__queue_status_response__init(response);
	response->state = REEVE__V1__QUEUE_STATE__QUEUE_STATE_PAUSED;
	result_of(SQL_QUEUE_STATUS);
	add_row();
	set_text(SQL_QUEUE_STATUS, "state", "running");
	set_int8(SQL_QUEUE_STATUS, "batch.id", 12);
	set_text(SQL_QUEUE_STATUS, "batch.name", "nightly");
	bind_rows(SQL_QUEUE_STATUS, rows, &response->base);
	cr_assert(eq(int, response->state, REEVE__V1__QUEUE_STATE__QUEUE_STATE_RUNNING));
	cr_assert(eq(i64, response->batch->id, 12));
	cr_assert(eq(str, (char *)response->batch->name, "nightly"));
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}

Test(bind, no_rows_leave_the_response_as_it_is)
{
	Reeve__V1__BatchReportResponse *response = calloc(1, sizeof *response);
	reeve__v1__batch_report_response__init(response);
	result_of(SQL_BATCH_REPORT);
	bind_rows(SQL_BATCH_REPORT, rows, &response->base);
	cr_assert(response->batch == NULL);
	cr_assert(eq(sz, response->n_tasks, 0));
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}

Test(bind, arrays_of_text_are_lists)
{
	static const char two[] = {
	    0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 'a', 0, 0, 0, 2, 'b', 'c'};
	Reeve__V1__ListWorkersResponse *response = calloc(1, sizeof *response);
	reeve__v1__list_workers_response__init(response);
	result_of(SQL_WORKER_LIST);
	add_row();
	set_int8(SQL_WORKER_LIST, "incarnation", 4);
	set(SQL_WORKER_LIST, "queues", TEXTS, two, sizeof two);
	bind_rows(SQL_WORKER_LIST, rows, &response->base);
	cr_assert(eq(sz, response->workers[0]->n_queues, 2));
	cr_assert(eq(str, (char *)response->workers[0]->queues[1], "bc"));
	cr_assert(eq(sz, response->workers[0]->n_types, 0));
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}

static void set_jsonb(enum sql_id statement, const char *name, const char *text)
{
	char value[200] = "\1";
	snprintf(value + 1, sizeof value - 1, "%s", text);
	set(statement, name, 3802, value, (int)strlen(value));
}

Test(bind, a_message_is_a_column_of_jsonb_that_later_columns_add_to)
{
	enum sql_id id = SQL_SCHEDULE_GET;
	Reeve__V1__ShowScheduleResponse *response = calloc(1, sizeof *response);
	reeve__v1__show_schedule_response__init(response);
	result_of(id);
	add_row();
	set_text(id, "schedule.name", "nightly");
	set_jsonb(id, "schedule.task",
	    "{\"type\": \"mail\", \"priority\": 3, \"retry\": {\"kind\": \"list\", \"delays_ms\": [5, 6]}}");
	set_text(id, "schedule.task.details", "dear all");
	bind_rows(id, rows, &response->base);
	const Reeve__V1__TaskSpec *task = response->schedule->task;
	cr_assert(eq(str, (char *)task->type, "mail"));
	cr_assert(eq(i32, task->priority, 3));
	cr_assert(eq(str, (char *)task->details, "dear all"));
	cr_assert(eq(int, task->retry->kind, REEVE__V1__RETRY_KIND__RETRY_KIND_LIST));
	cr_assert(eq(i64, task->retry->delays_ms[1], 6));
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}

Test(bind, a_message_without_its_first_column_is_missing)
{
	Reeve__V1__ShowScheduleResponse *response = calloc(1, sizeof *response);
	reeve__v1__show_schedule_response__init(response);
	result_of(SQL_SCHEDULE_GET);
	add_row();
	set_text(SQL_SCHEDULE_GET, "schedule.task.details", "dear all");
	bind_rows(SQL_SCHEDULE_GET, rows, &response->base);
	cr_assert(response->schedule == NULL);
	protobuf_c_message_free_unpacked(&response->base, NULL);
	PQclear(rows);
}
