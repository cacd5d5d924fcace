/* TaskService: submits tasks, and awaits them in the same call if that is wanted. */
#include "common/check_task.h"
#include "common/field.h"
#include "common/limits.h"
#include "common/text.h"
#include "manager/access/scope.h"
#include "manager/core/spans.h"
#include "manager/core/submit.h"
#include "manager/core/waits.h"
#include "manager/service/check.h"
#include "manager/service/ownership.h"
#include "manager/service/reading.h"
#include "manager/service/retry.h"
#include "manager/service/task_methods.h"
#include "manager/traces/traces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The requests of both methods. */
struct asked {
	const ProtobufCMessage *message;
	rpc_method *method;
	Reeve__V1__TaskSpec **tasks;
	size_t count;
	bool waits;
	int64_t wait_ms;
};

struct submit_call {
	struct services *services;
	struct rpc_call *call;
	bool waits;
	int64_t wait_ms;
	int count;
	char **own_policies, **own_sources;
	char (*own_traces)[TRACEPARENT_BYTES]; /* those that begin here; or NULL */
	struct store_task tasks[];
};

static void submit_call_free(struct submit_call *c)
{
	for (int i = 0; i < c->count; i++) {
		free(c->own_policies[i]);
		free(c->own_sources[i]);
	}
	free(c->own_policies);
	free(c->own_sources);
	free(c->own_traces);
	free(c);
}

/* The answer's list of submitted tasks. */
static Reeve__V1__SubmittedTask **submitted_tasks(const struct store_created *created, int count)
{
	Reeve__V1__SubmittedTask **list = mem_calloc((size_t)count, sizeof *list);
	Reeve__V1__SubmittedTask *tasks = mem_calloc((size_t)count, sizeof *tasks);
	for (int i = 0; i < count; i++) {
		list[i] = &tasks[i];
		reeve__v1__submitted_task__init(list[i]);
		list[i]->id = created[i].id;
		list[i]->existing = created[i].existing;
		list[i]->restarted = created[i].restarted;
	}
	return list;
}

static void submitted_tasks_free(Reeve__V1__SubmittedTask **list)
{
	free(list[0]);
	free(list);
}

/* --- the wait ---------------------------------------------------------------------------------------------------- */

struct await_call {
	struct reading reading; /* of those that have ended */
	Reeve__V1__SubmittedTask **tasks;
	size_t count;
	int64_t *ids;          /* of the tasks; then of those that have ended */
	int waited;            /* for how many different tasks it waited */
	struct waiter *waiter; /* while it waits */
};

/* Answers. The tasks exist, so the call succeeds even if the wait has failed. All are the caller's: a key of another
 * caller's task would have been refused. */
static void await_end(struct await_call *c, bool read)
{
	const Reeve__V1__WaitResponse *found = (Reeve__V1__WaitResponse *)c->reading.response;
	Reeve__V1__SubmitAndWaitResponse response = REEVE__V1__SUBMIT_AND_WAIT_RESPONSE__INIT;
	Reeve__V1__SubmittedTask **tasks = c->tasks;
	response.tasks = tasks;
	response.n_tasks = c->count;
	if (read) {
		response.ended = found->ended;
		response.n_ended = found->n_ended;
	}
	response.pending = (uint32_t)c->waited - (uint32_t)response.n_ended;
	free(c->ids);
	reading_end_with(&c->reading, &response.base, NULL);
	submitted_tasks_free(tasks);
}

static void on_ended_read(struct store_op *op, const struct reeve_error *error)
{
	await_end((struct await_call *)op, !error);
}

static void on_waited(void *arg, int asked, const int64_t *ended, int count, const struct reeve_error *error)
{
	struct await_call *c = arg;
	c->waiter = NULL;
	c->waited = asked;
	if (error || count == 0) {
		await_end(c, false);
		return;
	}
	Reeve__V1__WaitRequest *request = (Reeve__V1__WaitRequest *)c->reading.request;
	memcpy(c->ids, ended, sizeof *c->ids * (size_t)count);
	request->ids = c->ids;
	request->n_ids = (size_t)count;
	c->reading.op.tasks = count;
	c->reading.op.op.deadline_ms = core_now(c->reading.services->core) + 10000;
	reading_send(&c->reading);
}

static void on_waiter_gone(void *arg)
{
	struct await_call *c = arg;
	if (c->waiter)
		waits_cancel(c->waiter);
}

static void await_begin(struct submit_call *submit, const struct store_created *created)
{
	struct services *s = submit->services;
	struct rpc_call *call = submit->call;
	struct await_call *c = mem_calloc(1, sizeof *c);
	Reeve__V1__WaitRequest request = REEVE__V1__WAIT_REQUEST__INIT;
	reading_begin_of(&c->reading, s, call, SQL_WAIT_RESULTS, &request.base, on_ended_read);
	c->reading.op.quick = true;
	c->count = (size_t)submit->count;
	c->tasks = submitted_tasks(created, submit->count);
	c->ids = mem_malloc(sizeof *c->ids * c->count);
	for (size_t i = 0; i < c->count; i++)
		c->ids[i] = created[i].id;
	/* The answer has the ids, so it must come before the caller gives up. */
	int64_t left_ms = service_deadline(s, call) - core_now(s->core);
	int64_t wait_ms = submit->wait_ms < WAIT_MAX_MS ? submit->wait_ms : WAIT_MAX_MS;
	wait_ms = wait_ms < left_ms ? wait_ms : left_ms > 0 ? left_ms : 0;
	if (rpc_call_gone(call)) {
		await_end(c, false);
		return;
	}
	rpc_call_on_closed(call, on_waiter_gone, c);
	waits_add(s->core->waits, c->ids, (int)c->count, wait_ms, rpc_call_origin(call), on_waited, c, &c->waiter);
}

/* --- the submit -------------------------------------------------------------------------------------------------- */

static void on_submitted(void *arg, const struct store_created *created, const struct reeve_error *error)
{
	struct submit_call *c = arg;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (c->waits) {
		await_begin(c, created);
	} else {
		Reeve__V1__SubmitResponse response = REEVE__V1__SUBMIT_RESPONSE__INIT;
		response.tasks = submitted_tasks(created, c->count);
		response.n_tasks = (size_t)c->count;
		rpc_call_reply(c->call, &response.base);
		submitted_tasks_free(response.tasks);
	}
	submit_call_free(c);
}

/* Sets the texts that are stored as they are. A task without a trace context has the caller's. */
static void take_texts(struct store_task *task, const Reeve__V1__TaskSpec *spec, const struct rpc_call *call)
{
	static const ProtobufCFieldDescriptor *fields[SQL_SUBMITTED];
	for (int i = 0; i < SQL_SUBMITTED; i++) {
		if (!fields[i])
			fields[i] = field_named(spec->base.descriptor, sql_columns_submitted[i]);
		task->texts[i] = text_given(field_text(&spec->base, fields[i]));
		if (!task->texts[i] && !strcmp(fields[i]->name, "traceparent"))
			task->texts[i] = rpc_call_traceparent(call);
	}
}

static struct store_task task_from(const Reeve__V1__TaskSpec *spec, const struct rpc_call *call)
{
	const struct rpc_identity *identity = rpc_call_identity(call);
	const Reeve__V1__RetryPolicy *retry = spec->retry;
	struct store_task task = {
	    .queue = *spec->queue ? spec->queue : "default",
	    .type = spec->type,
	    .details = spec->details,
	    .priority = spec->priority,
	    .own_priority = spec->own_priority || spec->priority,
	    .run_at_us = spec->run_at_us ? spec->run_at_us : STORE_TIME_BEGIN,
	    .delay_ms = spec->delay_ms,
	    .key = *spec->key ? spec->key : NULL,
	    .key_ttl_ms = spec->key_ttl_ms,
	    .max_attempts = (int32_t)spec->max_attempts,
	    .timeout_ms = spec->timeout_ms,
	    .retry_given = retry != NULL,
	    .retry_base_ms = retry ? retry_base_ms(retry) : 0,
	    .retry_max_ms = retry ? retry_max_ms(retry) : 0,
	    .retry_policy = retry ? retry_json(retry) : NULL,
	    .task_version = spec->version,
	    .batch = spec->batch_id,
	    .pipeline = *spec->pipeline ? spec->pipeline : NULL,
	    .stage = *spec->stage ? spec->stage : NULL,
	    .source = *spec->source ? spec->source : rpc_call_actor(call),
	    .owner = identity->roles & MAY_OPERATE ? NULL : identity->name,
	    .parent = scope_parent(identity),
	};
	take_texts(&task, spec, call);
	return task;
}

/* Begins a trace for a task that is in none, if it is one of those that are chosen. */
static void begin_trace(struct submit_call *c, int i, const struct services *s)
{
	struct store_task *task = &c->tasks[i];
	const char **place = spans_traceparent(s->core->spans, task);
	char traceparent[TRACEPARENT_BYTES];
	if (!s->traces || *place || !traces_begin(s->traces, traceparent))
		return;
	if (!c->own_traces)
		c->own_traces = mem_calloc((size_t)c->count, sizeof *c->own_traces);
	*place = memcpy(c->own_traces[i], traceparent, sizeof traceparent);
	task->begins_trace = true;
}

/* Checks whether the caller may submit a task. The queues and types of a pipeline's stages change with its
 * definition. */
static bool may_submit(
    const struct rpc_identity *identity, const char *field, const struct store_task *task, struct reeve_error *error)
{
	if (!scope_queue(identity, field, task->queue, error))
		return false;
	if (!task->pipeline)
		return scope_type(identity, field, task->type, error);
	return !scope_is_limited(identity) ||
	    error_set(error, STATUS(PERMISSION_DENIED),
	        "%s: \"%s\" may use no pipelines, as it is limited to some queues or types", field, identity->name);
}

/* Whether the batches of the tasks must be looked up first: see foreign_wait. */
static bool batches_wait(struct services *s, struct rpc_call *call, const struct asked *asked)
{
	int64_t *batches = mem_malloc(sizeof *batches * asked->count);
	size_t n = 0;
	for (size_t i = 0; i < asked->count; i++)
		if (asked->tasks[i]->batch_id && (n == 0 || batches[n - 1] != asked->tasks[i]->batch_id))
			batches[n++] = asked->tasks[i]->batch_id;
	bool waits = foreign_wait(s, call, asked->message, asked->method, NULL, 0, batches, n);
	free(batches);
	return waits;
}

static bool check_call(
    const struct services *s, struct rpc_call *call, const struct asked *asked, struct reeve_error *error)
{
	if (asked->count == 0 || asked->count > LIMIT_CALL_TASKS)
		return error_set(error, STATUS(INVALID_ARGUMENT), "tasks has %zu elements; from 1 to %d are allowed",
		    asked->count, LIMIT_CALL_TASKS);
	return service_has_request_id(s, call, error) && check_source("actor", rpc_call_actor(call), error) &&
	    check_range("wait_ms", asked->wait_ms, 0, INT64_MAX, error);
}

static void submit(struct services *s, struct rpc_call *call, const struct asked *asked)
{
	struct reeve_error error;
	if (!check_call(s, call, asked, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	if (batches_wait(s, call, asked))
		return;
	if (asked->waits && !rpc_call_hold(call, WAIT_BYTES * asked->count, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct submit_call *c = mem_calloc(1, sizeof *c + sizeof *c->tasks * asked->count);
	c->services = s;
	c->call = call;
	c->waits = asked->waits;
	c->wait_ms = asked->wait_ms;
	c->own_policies = mem_calloc(asked->count, sizeof *c->own_policies);
	c->own_sources = mem_calloc(asked->count, sizeof *c->own_sources);
	c->count = (int)asked->count;
	for (int i = 0; i < c->count; i++) {
		char field[32];
		snprintf(field, sizeof field, "tasks[%d]", i);
		if (!check_task(field, asked->tasks[i], s->core->base.options.max_details_bytes, &error)) {
			rpc_call_fail_error(call, &error);
			submit_call_free(c);
			return;
		}
		c->tasks[i] = task_from(asked->tasks[i], call);
		c->own_policies[i] = (char *)c->tasks[i].retry_policy;
		begin_trace(c, i, s);
		if (*asked->tasks[i]->source)
			c->own_sources[i] = rpc_identity_qualify(rpc_call_identity(call), asked->tasks[i]->source);
		if (c->own_sources[i])
			c->tasks[i].source = c->own_sources[i];
		if (!may_submit(rpc_call_identity(call), field, &c->tasks[i], &error)) {
			rpc_call_fail_error(call, &error);
			submit_call_free(c);
			return;
		}
	}
	submit_tasks(s->core->submits, rpc_call_request_id(call), c->tasks, c->count, service_deadline(s, call),
	    rpc_call_origin(call), on_submitted, c);
}

void task_submit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__SubmitRequest *request = (const Reeve__V1__SubmitRequest *)message;
	const struct asked asked = {message, task_submit, request->tasks, request->n_tasks, false, 0};
	submit(service, call, &asked);
}

void task_submit_and_wait(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__SubmitAndWaitRequest *request = (const Reeve__V1__SubmitAndWaitRequest *)message;
	const struct asked asked = {
	    message, task_submit_and_wait, request->tasks, request->n_tasks, true, request->wait_ms};
	submit(service, call, &asked);
}
