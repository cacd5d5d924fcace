/* TaskService: submitting tasks and following them. */
#include "manager/core/routes.h"
#include "manager/core/submit.h"
#include "manager/core/waits.h"
#include "manager/service/check.h"
#include "manager/service/filter.h"
#include "manager/service/reading.h"
#include "manager/service/retry.h"
#include "manager/service/services.h"
#include "manager/service/task_methods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_US INT64_C(3600000000)

enum { LIST_DEFAULT = 100, LIST_MOST = 10000, AUDIT_DEFAULT = 1000, AUDIT_MOST = 100000, WAIT_MOST_MS = 60000 };

/* --- Submit ------------------------------------------------------------------------------------------------------ */

struct submit_call {
	struct rpc_call *call;
	int count;
	char **own_policies;
	struct store_task tasks[];
};

static void submit_call_free(struct submit_call *c)
{
	for (int i = 0; i < c->count; i++)
		free(c->own_policies[i]);
	free(c->own_policies);
	free(c);
}

static void on_submitted(void *arg, const struct store_made *made, const struct reeve_error *error)
{
	struct submit_call *c = arg;
	if (error) {
		rpc_call_fail_error(c->call, error);
		submit_call_free(c);
		return;
	}
	Reeve__V1__SubmitResponse response = REEVE__V1__SUBMIT_RESPONSE__INIT;
	Reeve__V1__SubmittedTask *tasks = calloc((size_t)c->count, sizeof *tasks);
	response.tasks = calloc((size_t)c->count, sizeof *response.tasks);
	response.n_tasks = (size_t)c->count;
	for (int i = 0; i < c->count; i++) {
		reeve__v1__submitted_task__init(&tasks[i]);
		tasks[i].id = made[i].id;
		tasks[i].existing = made[i].existing;
		tasks[i].restarted = made[i].restarted;
		response.tasks[i] = &tasks[i];
	}
	rpc_call_reply(c->call, &response.base);
	free(response.tasks);
	free(tasks);
	submit_call_free(c);
}

static struct store_task task_from(const Reeve__V1__TaskSpec *spec, const char *actor)
{
	const Reeve__V1__RetryPolicy *retry = spec->retry;
	return (struct store_task){
	    .queue = *spec->queue ? spec->queue : "default",
	    .type = spec->type,
	    .details = spec->details,
	    .priority = spec->priority,
	    .run_at_us = spec->run_at_us ? spec->run_at_us : STORE_TIME_BEGIN,
	    .delay_ms = spec->delay_ms,
	    .key = *spec->key ? spec->key : NULL,
	    .key_ttl_ms = spec->key_ttl_ms,
	    .max_attempts = (int32_t)spec->max_attempts,
	    .timeout_ms = spec->timeout_ms ? spec->timeout_ms : DEFAULT_TIMEOUT_MS,
	    .retry_given = retry != NULL,
	    .retry_base_ms = retry ? retry_base_ms(retry) : 0,
	    .retry_max_ms = retry ? retry_max_ms(retry) : 0,
	    .retry_policy = retry ? retry_json(retry) : NULL,
	    .task_version = spec->version,
	    .batch = spec->batch_id,
	    .pipeline = *spec->pipeline ? spec->pipeline : NULL,
	    .source = *spec->source ? spec->source : actor,
	};
}

static void submit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__SubmitRequest *request = (const Reeve__V1__SubmitRequest *)message;
	struct reeve_error error;
	if (request->n_tasks == 0 || request->n_tasks > TASKS_MOST) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT), "tasks has %zu elements; from 1 to %d are taken", request->n_tasks,
		    TASKS_MOST);
		return;
	}
	if (!service_has_request_id(s, call, &error) || !check_name("actor", rpc_call_actor(call), true, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct submit_call *c = calloc(1, sizeof *c + sizeof *c->tasks * request->n_tasks);
	c->call = call;
	c->own_policies = calloc(request->n_tasks, sizeof *c->own_policies);
	c->count = (int)request->n_tasks;
	for (int i = 0; i < c->count; i++) {
		char field[32];
		snprintf(field, sizeof field, "tasks[%d]", i);
		if (!check_task(field, request->tasks[i], s->core->options.max_details_bytes, &error)) {
			rpc_call_fail_error(call, &error);
			submit_call_free(c);
			return;
		}
		c->tasks[i] = task_from(request->tasks[i], rpc_call_actor(call));
		c->own_policies[i] = (char *)c->tasks[i].retry_policy;
	}
	submit_tasks(s->core, rpc_call_request_id(call), c->tasks, c->count, service_deadline(s, call), rpc_call_origin(call),
	    on_submitted, c);
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

/* A read in progress; the response is on the heap. */
struct read_call {
	struct store_read op;
	struct rpc_call *call;
	struct services *services;
	Reeve__V1__ListResponse *tasks;
	Reeve__V1__AuditResponse *audit;
	Reeve__V1__ListRequest list;
	struct store_filter filter;
	Reeve__V1__AuditRequest audit_request;
	int64_t *ids;
	uint32_t asked;        /* Wait: how many were asked for */
	struct waiter *waiter; /* Wait: while it waits */
};

static void read_free(struct read_call *c)
{
	if (c->tasks)
		reeve__v1__list_response__free_unpacked(c->tasks, NULL);
	if (c->audit)
		reeve__v1__audit_response__free_unpacked(c->audit, NULL);
	free(c->ids);
	free(c);
}

static struct read_call *read_begin(struct services *s, struct rpc_call *call, enum store_read_kind kind,
    void (*done)(struct store_op *op, const struct reeve_error *error))
{
	struct read_call *c = calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op.kind = kind;
	c->op.op.done = done;
	c->op.op.deadline_ms = service_deadline(s, call);
	c->op.op.origin = rpc_call_origin(call);
	if (kind == STORE_AUDIT) {
		c->audit = malloc(sizeof *c->audit);
		reeve__v1__audit_response__init(c->audit);
		c->op.response = c->audit;
	} else {
		c->tasks = malloc(sizeof *c->tasks);
		reeve__v1__list_response__init(c->tasks);
		c->op.response = c->tasks;
	}
	return c;
}

static void on_got(struct store_op *op, const struct reeve_error *error)
{
	struct read_call *c = (struct read_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (c->tasks->n_tasks == 0) {
		rpc_call_fail(c->call, STATUS(NOT_FOUND), "there is no task %lld", (long long)c->ids[0]);
	} else {
		Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
		response.task = c->tasks->tasks[0];
		rpc_call_reply(c->call, &response.base);
	}
	read_free(c);
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
	struct read_call *c = read_begin(s, call, STORE_GET, on_got);
	c->ids = malloc(sizeof *c->ids);
	c->ids[0] = request->id;
	c->op.ids = c->ids;
	c->op.count = 1;
	reading_send_op(s, call, &c->op);
}

static void on_listed(struct store_op *op, const struct reeve_error *error)
{
	struct read_call *c = (struct read_call *)op;
	if (error)
		rpc_call_fail_error(c->call, error);
	else
		rpc_call_reply(c->call, &c->tasks->base);
	read_free(c);
}

static void list(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ListRequest *request = (const Reeve__V1__ListRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("status", request->status, 0, REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED, &error) ||
	    !check_range("limit", request->limit, 0, LIST_MOST, &error) ||
	    !check_range("before_id", request->before_id, 0, INT64_MAX, &error) ||
	    !check_known_names(s, "", request->queue, request->type, &error) ||
	    (request->filter && !filter_check(s, request->filter, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct read_call *c = read_begin(s, call, STORE_LIST, on_listed);
	c->list = *request;
	if (request->filter) {
		c->filter = filter_from(request->filter);
		c->op.filter = &c->filter;
	}
	c->list.limit = (uint32_t)request->limit ? request->limit : LIST_DEFAULT;
	c->op.request = &c->list;
	c->op.most_bytes = s->core->options.max_answer_bytes;
	reading_send_op(s, call, &c->op);
}

static void on_audited(struct store_op *op, const struct reeve_error *error)
{
	struct read_call *c = (struct read_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (c->audit_request.task_id && !c->audit_request.since_us && c->audit->n_events == 0) {
		rpc_call_fail(c->call, STATUS(NOT_FOUND), "there is no task %lld", (long long)c->audit_request.task_id);
	} else if (!c->audit_request.task_id) {
		rpc_call_reply(c->call, &c->audit->base);
	} else {
		size_t all = c->audit->n_events, bytes = 0, n = 0;
		size_t most = (size_t)c->services->core->options.max_answer_bytes;
		while (n < all && n < c->audit_request.limit && bytes < most)
			bytes += reeve__v1__audit_event__get_packed_size(c->audit->events[n++]) + 8;
		c->audit->more = n < all;
		c->audit->n_events = n;
		rpc_call_reply(c->call, &c->audit->base);
		c->audit->n_events = all;
	}
	read_free(c);
}

static void audit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__AuditRequest *request = (const Reeve__V1__AuditRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_range("task_id", request->task_id, 0, INT64_MAX, &error) ||
	    !check_range("since_us", request->since_us, 0, INT64_MAX, &error) ||
	    !check_range("limit", request->limit, 0, AUDIT_MOST, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (strlen(request->page) > PAGE_MOST) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT), "page has more than %d bytes", PAGE_MOST);
		return;
	}
	struct read_call *c = read_begin(s, call, STORE_AUDIT, on_audited);
	c->audit_request = *request;
	c->audit_request.limit = (uint32_t)request->limit ? request->limit : AUDIT_DEFAULT;
	if (!request->task_id && !request->since_us)
		c->audit_request.since_us = core_database_us(s->core) - HOUR_US;
	c->op.request = &c->audit_request;
	reading_send_op(s, call, &c->op);
}

/* --- Wait -------------------------------------------------------------------------------------------------------- */

/* What ended, as much as an answer holds; the rest counts as pending, and is asked for again. */
static void on_wait_read(struct store_op *op, const struct reeve_error *error)
{
	struct read_call *c = (struct read_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
		read_free(c);
		return;
	}
	Reeve__V1__WaitResponse response = REEVE__V1__WAIT_RESPONSE__INIT;
	response.ended = c->tasks->tasks;
	response.n_ended = c->tasks->n_tasks;
	response.pending = c->asked > response.n_ended ? c->asked - (uint32_t)response.n_ended : 0;
	rpc_call_reply(c->call, &response.base);
	read_free(c);
}

static void on_waited(void *arg, const int64_t *ended, int count, const struct reeve_error *error)
{
	struct read_call *c = arg;
	c->waiter = NULL;
	if (error || count == 0) {
		Reeve__V1__WaitResponse response = REEVE__V1__WAIT_RESPONSE__INIT;
		response.pending = c->asked;
		if (error)
			rpc_call_fail_error(c->call, error);
		else
			rpc_call_reply(c->call, &response.base);
		read_free(c);
		return;
	}
	c->ids = malloc(sizeof *c->ids * (size_t)count);
	memcpy(c->ids, ended, sizeof *c->ids * (size_t)count);
	c->op.ids = c->ids;
	c->op.count = count;
	c->op.most_bytes = c->services->core->options.max_answer_bytes;
	c->op.op.deadline_ms = core_now(c->services->core) + 10000;
	reading_send_op(c->services, c->call, &c->op);
}

/* The caller's connection is over. */
static void on_wait_gone(void *arg)
{
	struct read_call *c = arg;
	if (c->waiter)
		waits_cancel(c->waiter);
}

static void wait_for(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__WaitRequest *request = (const Reeve__V1__WaitRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_ids(request->ids, request->n_ids, &error) ||
	    !check_range("wait_ms", request->wait_ms, 0, INT64_MAX, &error) ||
	    !rpc_call_hold(call, WAIT_BYTES * request->n_ids, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct read_call *c = read_begin(s, call, STORE_WAITED, on_wait_read);
	rpc_call_on_closed(call, on_wait_gone, c);
	c->asked = (uint32_t)request->n_ids;
	int64_t wait = request->wait_ms < WAIT_MOST_MS ? request->wait_ms : WAIT_MOST_MS;
	waits_add(s->core->waits, request->ids, (int)request->n_ids, wait, rpc_call_origin(call), on_waited, c,
	    &c->waiter);
}

const struct rpc_entry task_methods[] = {
	{"Submit", submit, RPC_ORDINARY},
	{"Get", get, RPC_OPERATOR},
	{"List", list, RPC_OPERATOR},
	{"Wait", wait_for, RPC_ORDINARY},
	{"Cancel", task_cancel, RPC_OPERATOR},
	{"Retry", task_retry, RPC_OPERATOR},
	{"Update", task_update, RPC_OPERATOR},
	{"Audit", audit, RPC_OPERATOR},
	{"Kill", task_kill, RPC_OPERATOR},
	{"Errors", task_errors, RPC_OPERATOR},
	{"Executions", task_executions, RPC_OPERATOR},
	{0},
};
