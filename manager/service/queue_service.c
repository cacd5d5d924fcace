/* QueueService: settings, control and status of queues. */
#include "common/json_names.h"
#include "manager/core/queue_ends.h"
#include "manager/core/routes.h"
#include "manager/service/check.h"
#include "manager/service/reading.h"
#include "manager/service/retry.h"

#include <jansson.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 100 };

#define PERIOD_MAX_MS (365 * DAY_MS)
#define KEEP_MAX_MS (36500 * DAY_MS)

/* --- settings of a request ---------------------------------------------------------------------------------------- */

typedef Reeve__V1__QueueSettings settings;

/* Checks one field of the settings and adds it to the new values of columns. */
typedef bool put_field(json_t *change, const settings *s, struct reeve_error *error);

static bool put_text(json_t *change, const char *column, const char *text)
{
	json_object_set_new(change, column, *text ? json_string(text) : json_null());
	return true;
}

static bool put_type(json_t *change, const char *column, const char *type, struct reeve_error *error)
{
	char field[64];
	snprintf(field, sizeof field, "settings.%s", column);
	return check_name(field, type, true, error) && put_text(change, column, type);
}

static bool put_period(json_t *change, const char *column, int64_t ms, struct reeve_error *error)
{
	char field[64];
	snprintf(field, sizeof field, "settings.%s", column);
	if (!check_range(field, ms, 0, PERIOD_MAX_MS, error))
		return false;
	json_object_set_new(change, column, json_integer(ms));
	return true;
}

static bool put_days(json_t *change, const char *field, const char *column, int64_t ms, struct reeve_error *error)
{
	if (!check_range(field, ms, 0, KEEP_MAX_MS, error))
		return false;
	if (ms % DAY_MS)
		return error_set(error, STATUS(INVALID_ARGUMENT), "%s is %lld; it must be whole days of %lld ms", field,
		    (long long)ms, (long long)DAY_MS);
	json_object_set_new(change, column, ms ? json_integer(ms / DAY_MS) : json_null());
	return true;
}

static bool put_bool(json_t *change, const char *column, bool value)
{
	json_object_set_new(change, column, json_boolean(value));
	return true;
}

static bool put_retry_limit(json_t *change, const settings *s, struct reeve_error *error)
{
	if (!check_range("settings.retry_limit", s->retry_limit, -1, ATTEMPTS_MAX - 1, error))
		return false;
	json_object_set_new(
	    change, "max_attempts", s->retry_limit < 0 ? json_null() : json_integer(s->retry_limit + 1));
	return true;
}

static bool put_retry(json_t *change, const settings *s, struct reeve_error *error)
{
	const Reeve__V1__RetryPolicy *retry = s->retry;
	if (retry && !retry_check("settings.retry", retry, error))
		return false;
	char *policy = retry ? retry_json(retry) : NULL;
	bool from_resting = retry && !retry->base_ms && retry->kind == REEVE__V1__RETRY_KIND__RETRY_KIND_LINEAR;
	json_object_set_new(change, "retry_policy", policy ? json_loads(policy, 0, NULL) : json_null());
	json_object_set_new(
	    change, "retry_base_ms", retry && !from_resting ? json_integer(retry_base_ms(retry)) : json_null());
	json_object_set_new(change, "retry_max_ms", retry ? json_integer(retry_max_ms(retry)) : json_null());
	free(policy);
	return true;
}

static bool put_resting(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_period(change, "resting_ms", s->resting_ms, error);
}

static bool put_waiting(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_period(change, "waiting_ms", s->waiting_ms, error);
}

static bool put_autostart(json_t *change, const settings *s, struct reeve_error *error)
{
	(void)error;
	return put_bool(change, "autostart", s->autostart);
}

static bool put_verbose(json_t *change, const settings *s, struct reeve_error *error)
{
	(void)error;
	return put_bool(change, "is_verbose", s->verbose);
}

static bool put_batches(json_t *change, const settings *s, struct reeve_error *error)
{
	(void)error;
	return put_bool(change, "batches", s->batches);
}

static bool put_callback_url(json_t *change, const settings *s, struct reeve_error *error)
{
	return (!*s->callback_url || check_callback_url("settings.callback_url", s->callback_url, error)) &&
	    put_text(change, "callback_url", s->callback_url);
}

static bool put_callback_secret(json_t *change, const settings *s, struct reeve_error *error)
{
	return (!*s->callback_secret || check_callback_secret("settings.callback_secret", s->callback_secret, error)) &&
	    put_text(change, "callback_secret", s->callback_secret);
}

static bool put_callback_tasks(json_t *change, const settings *s, struct reeve_error *error)
{
	(void)error;
	return put_bool(change, "callback_tasks", s->callback_tasks);
}

static bool put_callback_type(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_type(change, "callback_type", s->callback_type, error);
}

static bool put_entry_type(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_type(change, "entry_type", s->entry_type, error);
}

static bool put_exit_type(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_type(change, "exit_type", s->exit_type, error);
}

static bool put_keep_completed(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_days(change, "settings.keep_completed_ms", "keep_completed_days", s->keep_completed_ms, error);
}

static bool put_keep_dead(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_days(change, "settings.keep_dead_ms", "keep_dead_days", s->keep_dead_ms, error);
}

static bool put_keep_cancelled(json_t *change, const settings *s, struct reeve_error *error)
{
	return put_days(change, "settings.keep_cancelled_ms", "keep_cancelled_days", s->keep_cancelled_ms, error);
}

static const struct {
	const char *field;
	put_field *put;
} fields[] = {
    {"retry_limit", put_retry_limit},
    {"retry", put_retry},
    {"resting_ms", put_resting},
    {"waiting_ms", put_waiting},
    {"autostart", put_autostart},
    {"verbose", put_verbose},
    {"batches", put_batches},
    {"callback_url", put_callback_url},
    {"callback_secret", put_callback_secret},
    {"callback_tasks", put_callback_tasks},
    {"callback_type", put_callback_type},
    {"entry_type", put_entry_type},
    {"exit_type", put_exit_type},
    {"keep_completed_ms", put_keep_completed},
    {"keep_dead_ms", put_keep_dead},
    {"keep_cancelled_ms", put_keep_cancelled},
};

static put_field *find_field(const char *name)
{
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (!strcmp(fields[i].field, name))
			return fields[i].put;
	return NULL;
}

/* Returns the new values of columns, or NULL with the invalid field in *error. */
static json_t *change_from(const Reeve__V1__SetQueueRequest *r, struct reeve_error *error)
{
	static const settings defaults = REEVE__V1__QUEUE_SETTINGS__INIT;
	json_t *change = json_object();
	if (r->n_fields == 0)
		error_set(error, STATUS(INVALID_ARGUMENT), "fields is empty: it names the settings to change");
	bool good = r->n_fields > 0 && check_range("fields", (int64_t)r->n_fields, 1, FIELDS_MAX, error);
	for (size_t i = 0; good && i < r->n_fields; i++) {
		put_field *put = find_field(r->fields[i]);
		good = put ? put(change, r->settings ? r->settings : &defaults, error)
		           : error_set(error, STATUS(INVALID_ARGUMENT), "fields[%zu] is \"%.100s\"; there is no such setting", i,
		                 r->fields[i]);
	}
	if (good)
		return change;
	json_decref(change);
	return NULL;
}

/* --- settings of an answer ---------------------------------------------------------------------------------------- */

static char *text_or_empty(const char *text)
{
	return text ? (char *)text : (char *)protobuf_c_empty_string;
}

/* Fills `to` and its `retry`, whose delays the caller frees. The strings belong to the store. */
static void settings_fill(settings *to, Reeve__V1__RetryPolicy *retry, const struct store_queue_settings *s)
{
	reeve__v1__queue_settings__init(to);
	retry_fill(retry, s->retry_policy, s->retry_base_ms, s->retry_max_ms);
	to->retry = retry;
	to->retry_limit = s->max_attempts - 1;
	to->resting_ms = s->resting_ms;
	to->waiting_ms = s->waiting_ms;
	to->autostart = s->autostart;
	to->verbose = s->verbose;
	to->batches = s->batches;
	to->callback_url = text_or_empty(s->callback_url);
	to->callback_tasks = s->callback_tasks;
	to->callback_type = text_or_empty(s->callback_type);
	to->entry_type = text_or_empty(s->entry_type);
	to->exit_type = text_or_empty(s->exit_type);
	to->keep_completed_ms = s->keep_completed_days * DAY_MS;
	to->keep_dead_ms = s->keep_dead_days * DAY_MS;
	to->keep_cancelled_ms = s->keep_cancelled_days * DAY_MS;
}

static Reeve__V1__QueueState state_of(const char *name)
{
	int state = REEVE__V1__QUEUE_STATE__QUEUE_STATE_UNSPECIFIED;
	json_enum_number(&reeve__v1__queue_state__descriptor, name, &state);
	return (Reeve__V1__QueueState)state;
}

/* --- Set and Describe --------------------------------------------------------------------------------------------- */

struct set_call {
	struct store_queue_set op;
	struct rpc_call *call;
	char *change;
};

static void set_end(struct set_call *c)
{
	free(c->change);
	free(c);
}

static void on_set(struct store_op *op, const struct reeve_error *error)
{
	struct set_call *c = (struct set_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
		set_end(c);
		return;
	}
	Reeve__V1__SetQueueResponse response = REEVE__V1__SET_QUEUE_RESPONSE__INIT;
	Reeve__V1__RetryPolicy retry;
	settings s;
	settings_fill(&s, &retry, &c->op.settings);
	response.settings = &s;
	rpc_call_reply(c->call, &response.base);
	free(retry.delays_ms);
	set_end(c);
}

static void set(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__SetQueueRequest *request = (const Reeve__V1__SetQueueRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	json_t *change = NULL;
	if (!service_has_request_id(s, call, &error) || !check_source("actor", rpc_call_actor(call), &error) ||
	    !check_name("queue", request->queue, false, &error) || !(change = change_from(request, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct set_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->change = json_dumps(change, JSON_COMPACT);
	json_decref(change);
	c->op = (struct store_queue_set){
	    .op.done = on_set,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .request_id = rpc_call_request_id(call),
	    .queue = request->queue,
	    .actor = rpc_call_actor(call),
	    .change = c->change,
	};
	store_queue_set(s->core->base.store, &c->op);
}

struct describe_call {
	struct store_queue_set op;
	struct rpc_call *call;
};

static bool unknown_queue(const char *queue, struct reeve_error *error)
{
	return error_set(error, STATUS(NOT_FOUND),
	    "there is no queue \"%s\": it has no settings and never had a task", queue);
}

static void on_described(struct store_op *op, const struct reeve_error *error)
{
	struct describe_call *c = (struct describe_call *)op;
	const struct store_queue_settings *row = &c->op.settings;
	struct reeve_error unknown;
	if (!error && !row->is_set && !strcmp(row->state, "created")) {
		unknown_queue(c->op.queue, &unknown);
		error = &unknown;
	}
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else {
		Reeve__V1__DescribeQueueResponse response = REEVE__V1__DESCRIBE_QUEUE_RESPONSE__INIT;
		Reeve__V1__RetryPolicy retry;
		settings s;
		settings_fill(&s, &retry, row);
		response.queue = (char *)c->op.queue;
		response.settings = &s;
		response.is_set = row->is_set;
		response.has_secret = row->has_secret;
		response.state = state_of(row->state);
		response.created_us = row->created_us;
		response.updated_us = row->updated_us;
		rpc_call_reply(c->call, &response.base);
		free(retry.delays_ms);
	}
	free(c);
}

static void describe(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__DescribeQueueRequest *request = (const Reeve__V1__DescribeQueueRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_name("queue", request->queue, false, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct describe_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->op = (struct store_queue_set){
	    .op.done = on_described, .op.deadline_ms = service_deadline(s, call), .op.origin = rpc_call_origin(call), .queue = request->queue};
	store_queue_set(s->core->base.store, &c->op);
}

/* --- Status ------------------------------------------------------------------------------------------------------- */

/* A status call reads the queue's workers in a second read after its status. */
struct status_call {
	struct reading workers;
	struct reading *status;
};

static void on_workers_read(struct store_op *op, const struct reeve_error *error)
{
	struct status_call *c = (struct status_call *)op;
	struct reading *status = c->status;
	Reeve__V1__QueueStatusResponse *response = (Reeve__V1__QueueStatusResponse *)status->response;
	Reeve__V1__ListWorkersResponse *found = (Reeve__V1__ListWorkersResponse *)c->workers.response;

	response->workers = found->workers;
	response->n_workers = found->n_workers;
	response->more_workers = found->next_after != 0;
	found->workers = NULL;
	found->n_workers = 0;
	reading_free(&c->workers);
	reading_end(status, error);
}

static void on_status_read(struct store_op *op, const struct reeve_error *error)
{
	enum { WORKERS_SHOWN = 100 };
	struct reading *r = (struct reading *)op;
	Reeve__V1__QueueStatusResponse *response = (Reeve__V1__QueueStatusResponse *)r->response;
	Reeve__V1__ListWorkersRequest request = REEVE__V1__LIST_WORKERS_REQUEST__INIT;
	struct reeve_error unknown;
	if (!error && !response->state) {
		unknown_queue(response->queue, &unknown);
		error = &unknown;
	}
	if (error) {
		reading_end(r, error);
		return;
	}
	struct status_call *c = mem_calloc(1, sizeof *c);
	c->status = r;
	request.queue = response->queue;
	request.limit = WORKERS_SHOWN;
	reading_begin_of(&c->workers, r->services, r->call, SQL_WORKER_LIST, &request.base, on_workers_read);
	reading_send(&c->workers);
}

static void status(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__QueueStatusRequest *request = (const Reeve__V1__QueueStatusRequest *)message;
	struct reeve_error error;
	if (!check_name("queue", request->queue, false, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct reading *r = reading_of(service, call, SQL_QUEUE_STATUS, message, on_status_read);
	((Reeve__V1__QueueStatusResponse *)r->response)->queue = mem_strdup(request->queue);
	reading_send(r);
}

/* --- Control ------------------------------------------------------------------------------------------------------ */

struct control_call {
	struct store_queue_control op;
	struct rpc_call *call;
	struct services *services;
	Reeve__V1__QueueAction action;
};

static const char *const actions[] = {
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_START] = "start",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_STOP] = "stop",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_PAUSE] = "pause",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_RESUME] = "resume",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_PURGE] = "purge",
    [REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_DELETE] = "delete",
};

static void control_end(void *arg, int64_t tasks, const struct reeve_error *error)
{
	struct control_call *c = arg;
	if (error && tasks) {
		rpc_call_fail(c->call, (reeve_status)error->code, "%s; %lld tasks were cancelled before that", error->message,
		    (long long)tasks);
	} else if (error) {
		rpc_call_fail_error(c->call, error);
	} else {
		Reeve__V1__ControlQueueResponse response = REEVE__V1__CONTROL_QUEUE_RESPONSE__INIT;
		response.state = state_of(c->op.state);
		response.tasks = tasks;
		rpc_call_reply(c->call, &response.base);
	}
	free(c);
}

static void on_controlled(struct store_op *op, const struct reeve_error *error)
{
	struct control_call *c = (struct control_call *)op;
	struct core *core = c->services->core;
	if (error || c->action != REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_PURGE) {
		if (c->action == REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_STOP) {
			queue_stops_poll(core->queue_stops);
			jobs_ask(core->base.jobs, JOB_BATCHES);
		}
		control_end(c, 0, error);
		return;
	}
	queue_purge(core->queue_stops, c->op.queue, c->op.newest, c->op.actor, op->deadline_ms, control_end, c);
}

static void control(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ControlQueueRequest *request = (const Reeve__V1__ControlQueueRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!service_has_request_id(s, call, &error) || !check_source("actor", rpc_call_actor(call), &error) ||
	    !check_name("queue", request->queue, false, &error) ||
	    !check_range("action", request->action, 1, sizeof actions / sizeof *actions - 1, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct control_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->action = request->action;
	c->op = (struct store_queue_control){
	    .op.done = on_controlled,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .request_id = rpc_call_request_id(call),
	    .queue = request->queue,
	    .action = actions[request->action],
	    .actor = rpc_call_actor(call),
	};
	store_queue_control(s->core->base.store, &c->op);
}

const struct rpc_entry queue_methods[] = {
	{"Set", set, RPC_OPERATOR, NULL},
	{"Describe", describe, RPC_OPERATOR, NULL},
	{"Status", status, RPC_OPERATOR, NULL},
	{"Control", control, RPC_OPERATOR, NULL},
	{0},
};
