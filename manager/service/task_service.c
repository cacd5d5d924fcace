/* TaskService: shows and awaits tasks. */
#include "common/limits.h"
#include "manager/access/scope.h"
#include "manager/core/waits.h"
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/ownership.h"
#include "manager/service/reading.h"
#include "manager/service/services.h"
#include "manager/service/task_methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_US INT64_C(3600000000)

/* AUDIT_PAGE: the maximum of rows of each kind in an answer; AUDIT_ROW_BYTES: the events of one row of each kind are
 * shorter, even with the longest texts. */
enum {
	AUDIT_PAGE = 500,
	AUDIT_ROW_BYTES = 16 << 10,
};

/* --- reads ------------------------------------------------------------------------------------------------------- */

static void on_got(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const Reeve__V1__ListResponse *found = (Reeve__V1__ListResponse *)r->response;
	struct reeve_error unknown;
	if (!error && (found->n_tasks == 0 || !scope_owns(rpc_call_identity(r->call), found->tasks[0]->source))) {
		error_set(&unknown, STATUS(NOT_FOUND), "there is no task %lld", (long long)r->op.id);
		error = &unknown;
	}
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	response.task = error ? NULL : found->tasks[0];
	reading_end_with(r, &response.base, error);
}

static void get(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__GetRequest *request = (const Reeve__V1__GetRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("id", request->id, 1, INT64_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct reading *r = mem_calloc(1, sizeof *r);
	reading_begin(r, s, call, STORE_GET, NULL, &reeve__v1__list_response__descriptor, on_got);
	r->op.id = request->id;
	reading_send(r);
}

static void list(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ListRequest *request = (const Reeve__V1__ListRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("status", request->status, 0, REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED, &error) ||
	    !check_range("limit", request->limit, 0, LIMIT_CALL_TASKS, &error) ||
	    !check_range("before_id", request->before_id, 0, INT64_MAX, &error) ||
	    !check_name("queue", request->queue, true, &error) || !check_name("type", request->type, true, &error) ||
	    (request->filter && !filter_check(request->filter, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (names_wait(s, call, message, list, request->queue, request->type) ||
	    filter_wait(s, call, message, list, request->filter))
		return;
	static Reeve__V1__TaskFilter everything = REEVE__V1__TASK_FILTER__INIT;
	struct reading *r = mem_calloc(1, sizeof *r);
	reading_begin(r, s, call, STORE_LIST, message, &reeve__v1__list_response__descriptor, reading_done);
	Reeve__V1__ListRequest *wanted = (Reeve__V1__ListRequest *)r->request;
	if (!wanted->filter)
		wanted->filter = &everything;
	if (!wanted->limit)
		wanted->limit = DEFAULT_LIST;
	if (!wanted->before_id)
		wanted->before_id = INT64_MAX;
	reading_send(r);
}

static bool audit_is_filtered(const Reeve__V1__AuditRequest *request)
{
	return request->n_events || *request->worker || *request->actor;
}

static void on_audited(struct store_op *op, const struct reeve_error *error)
{
	struct reading *r = (struct reading *)op;
	const Reeve__V1__AuditRequest *request = (const Reeve__V1__AuditRequest *)r->request;
	Reeve__V1__AuditResponse *out = (Reeve__V1__AuditResponse *)r->response;
	struct reeve_error unknown;
	out->more = *out->next_page != '\0';
	bool all = !request->since_us && !request->until_us && !*request->page && !audit_is_filtered(request);
	if (!error && request->task_id && all && out->n_events == 0 && !out->more) {
		error_set(&unknown, STATUS(NOT_FOUND), "there is no task %lld", (long long)request->task_id);
		error = &unknown;
	}
	reading_end(r, error);
}

/* Returns when the last hour begins before a time (0: now), of which nothing is in the future. */
static int64_t hour_before(int64_t until_us, int64_t now_us)
{
	int64_t since_us = (until_us && until_us < now_us ? until_us : now_us) - HOUR_US;
	return since_us > 0 ? since_us : 1;
}

static uint32_t audit_page_max(const struct services *s)
{
	uint32_t fitting = (uint32_t)(s->max_message_bytes / AUDIT_ROW_BYTES - 1); /* and one for the rest of the message */
	return fitting < AUDIT_PAGE ? fitting : AUDIT_PAGE;
}

static bool check_events(const Reeve__V1__AuditRequest *request, struct reeve_error *error)
{
	const ProtobufCEnumDescriptor *kinds = &reeve__v1__audit_event_kind__descriptor;
	if (request->task_id && (*request->queue || *request->type))
		return error_set(error, STATUS(INVALID_ARGUMENT), "task_id cannot be combined with queue or type");
	if (!check_range("events", (int64_t)request->n_events, 0, LIMIT_EVENT_KINDS, error))
		return false;
	for (size_t i = 0; i < request->n_events; i++)
		if (!check_range("events", request->events[i], 1, kinds->values[kinds->n_values - 1].value, error))
			return false;
	return true;
}

static void audit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__AuditRequest *request = (const Reeve__V1__AuditRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("task_id", request->task_id, 0, INT64_MAX, &error) ||
	    !check_range("since_us", request->since_us, 0, INT64_MAX, &error) ||
	    !check_range("until_us", request->until_us, 0, INT64_MAX, &error) ||
	    !check_range("limit", request->limit, 0, LIMIT_CALL_EVENTS, &error) || !check_page(request->page, &error) ||
	    !check_name("queue", request->queue, true, &error) || !check_name("type", request->type, true, &error) ||
	    !check_name("worker", request->worker, true, &error) || !check_name("actor", request->actor, true, &error) ||
	    !check_events(request, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (names_wait(s, call, message, audit, request->queue, request->type))
		return;
	if (request->until_us && request->until_us <= request->since_us) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT), "until_us is not after since_us");
		return;
	}
	enum sql_id statement = request->task_id ? SQL_AUDIT_TASK : request->newest ? SQL_AUDIT_NEWEST : SQL_AUDIT_PAGE;
	struct reading *r = reading_of(s, call, statement, message, on_audited);
	Reeve__V1__AuditRequest *page = (Reeve__V1__AuditRequest *)r->request;
	page->limit = request->limit ? request->limit : DEFAULT_CALL_EVENTS;
	/* With `newest`, one more row shows whether there are more. */
	if (request->newest)
		page->limit++;
	else if (page->limit > audit_page_max(s))
		page->limit = audit_page_max(s);
	if (!request->task_id && !request->since_us && !request->newest)
		page->since_us = hour_before(request->until_us, services_now_us(s));
	r->op.quick = request->task_id != 0;
	reading_send(r);
}

/* --- Wait -------------------------------------------------------------------------------------------------------- */

struct wait_call {
	struct reading reading; /* used once some have ended */
	int64_t *ids;
	uint32_t asked;        /* how many different ids were requested */
	struct waiter *waiter; /* while it waits */
};

/* Answers with the ended tasks that fit in an answer. The others count as pending, and the caller requests them
 * again. */
static void wait_end(struct wait_call *c, const struct reeve_error *error)
{
	Reeve__V1__WaitResponse *response = (Reeve__V1__WaitResponse *)c->reading.response;
	struct reeve_error foreign;
	for (size_t i = 0; !error && i < response->n_ended; i++)
		if (!scope_owns(rpc_call_identity(c->reading.call), response->ended[i]->source)) {
			error_set(&foreign, STATUS(NOT_FOUND), "there is no task %lld",
			    (long long)response->ended[i]->id); /* of its own */
			error = &foreign;
		}
	response->more = c->ids && (size_t)c->reading.op.tasks > response->n_ended;
	response->pending = c->asked > response->n_ended ? c->asked - (uint32_t)response->n_ended : 0;
	free(c->ids);
	reading_end(&c->reading, error);
}

static void on_wait_read(struct store_op *op, const struct reeve_error *error)
{
	wait_end((struct wait_call *)op, error);
}

static void on_waited(void *arg, int asked, const int64_t *ended, int count, const struct reeve_error *error)
{
	struct wait_call *c = arg;
	c->waiter = NULL;
	c->asked = (uint32_t)asked;
	if (error || count == 0) {
		wait_end(c, error);
		return;
	}
	c->ids = mem_malloc(sizeof *c->ids * (size_t)count);
	memcpy(c->ids, ended, sizeof *c->ids * (size_t)count);
	Reeve__V1__WaitRequest *request = (Reeve__V1__WaitRequest *)c->reading.request;
	request->ids = c->ids;
	request->n_ids = (size_t)count;
	c->reading.op.tasks = count;
	c->reading.op.op.deadline_ms = core_now(c->reading.services->core) + 10000;
	reading_send(&c->reading);
}

/* Cancels the wait when the caller's connection closes. */
static void on_wait_gone(void *arg)
{
	struct wait_call *c = arg;
	if (c->waiter)
		waits_cancel(c->waiter);
}

static void wait_for(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__WaitRequest *request = (const Reeve__V1__WaitRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_ids(request->ids, request->n_ids, &error) ||
	    !check_range("wait_ms", request->wait_ms, 0, INT64_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (foreign_wait(s, call, message, wait_for, request->ids, request->n_ids, NULL, 0))
		return;
	if (!rpc_call_hold(call, WAIT_BYTES * request->n_ids, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct wait_call *c = mem_calloc(1, sizeof *c);
	reading_begin_of(&c->reading, s, call, SQL_WAIT_RESULTS, message, on_wait_read);
	c->reading.op.quick = true;
	rpc_call_on_closed(call, on_wait_gone, c);
	int64_t wait = request->wait_ms < WAIT_MAX_MS ? request->wait_ms : WAIT_MAX_MS;
	waits_add(s->core->waits, request->ids, (int)request->n_ids, wait, rpc_call_origin(call), on_waited, c, &c->waiter);
}

/* A caller that may read only its own tasks gets only their lines. */
static void logs(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const int64_t *id = &((const Reeve__V1__LogsRequest *)message)->task_id;
	if (!foreign_wait(service, call, message, logs, id, 1, NULL, 0))
		read_method(service, call, message);
}

const struct rpc_entry task_methods[] = {
    {"Submit", task_submit, RPC_ORDINARY, MAY_SUBMIT, NULL},
    {"SubmitAndWait", task_submit_and_wait, RPC_WAITING, MAY_SUBMIT, NULL},
    {"Get", get, RPC_OPERATOR, MAY_READ_OWN, NULL},
    {"List", list, RPC_OPERATOR, MAY_READ, NULL},
    {"Wait", wait_for, RPC_WAITING, MAY_READ_OWN, NULL},
    {"Cancel", task_cancel, RPC_OPERATOR, MAY_OPERATE, NULL},
    {"Retry", task_retry, RPC_OPERATOR, MAY_OPERATE, NULL},
    {"Update", task_update, RPC_OPERATOR, MAY_OPERATE, NULL},
    {"Audit", audit, RPC_OPERATOR, MAY_READ, NULL},
    {"Discard", task_discard, RPC_OPERATOR, MAY_OPERATE, NULL},
    {"Errors", read_method, RPC_OPERATOR, MAY_READ, &task_errors},
    {"Executions", read_method, RPC_OPERATOR, MAY_READ, &task_executions},
    {"Purge", task_purge, RPC_OPERATOR, MAY_OPERATE, NULL},
    {"Logs", logs, RPC_OPERATOR, MAY_READ_OWN, &task_logs},
    {0},
};
