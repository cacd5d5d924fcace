/* ScheduleService: definitions of schedules, and their runs. */
#include "manager/service/check.h"
#include "manager/service/schedule_message.h"
#include "manager/service/services.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_DEFAULT = 100, LIST_MAX = 1000, PREVIEW_MAX = 1000 };

/* A call about definitions. */
struct schedule_call {
	struct store_schedules op;
	struct rpc_call *call;
	struct services *services;
	char *change; /* the requested change, or NULL */
};

static void end(struct schedule_call *c)
{
	free(c->change);
	free(c);
}

static void fail(struct schedule_call *c, const struct reeve_error *error)
{
	rpc_call_fail_error(c->call, error);
	end(c);
}

/* Checks what all changing calls need. */
static bool check_change(const struct services *s, const struct rpc_call *call, struct reeve_error *error)
{
	return service_has_request_id(s, call, error) && check_source("actor", rpc_call_actor(call), error);
}

static struct schedule_call *begin(struct services *s, struct rpc_call *call, enum store_schedule_call kind,
    const char *name, void (*done)(struct store_op *op, const struct reeve_error *error))
{
	struct schedule_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->services = s;
	c->op = (struct store_schedules){
	    .op.done = done,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .call = kind,
	    .name = name,
	    .actor = rpc_call_actor(call),
	};
	return c;
}

static bool unknown(const char *name, struct reeve_error *error)
{
	return error_set(error, STATUS(NOT_FOUND), "there is no schedule \"%s\"", name);
}

/* Returns the schedule of an answer, or NULL with *error. */
static Reeve__V1__Schedule *answered(
    const struct schedule_call *c, const struct reeve_error *failed, struct reeve_error *error)
{
	if (failed)
		*error = *failed;
	else if (!c->op.count)
		unknown(c->op.name, error);
	else
		return schedule_message(&c->op.schedules[0]);
	return NULL;
}

/* --- Add, Edit, Control ------------------------------------------------------------------------------------------- */

_Static_assert(sizeof(Reeve__V1__AddScheduleResponse) == sizeof(Reeve__V1__EditScheduleResponse) &&
                   sizeof(Reeve__V1__AddScheduleResponse) == sizeof(Reeve__V1__ControlScheduleResponse),
    "the responses of changes have the same field");

static void on_changed(struct store_op *op, const struct reeve_error *failed)
{
	struct schedule_call *c = (struct schedule_call *)op;
	bool removed = c->op.call == STORE_SCHEDULE_CONTROL && !strcmp(c->op.change, "remove");
	struct reeve_error error;
	Reeve__V1__Schedule *schedule = answered(c, failed, &error);
	if (!schedule && (failed || !removed)) {
		fail(c, &error);
		return;
	}
	if (schedule && schedule->task && *schedule->task->details) {
		free((char *)schedule->task->details);
		schedule->task->details = protobuf_c_empty_string;
	}
	union {
		Reeve__V1__AddScheduleResponse add;
		Reeve__V1__EditScheduleResponse edit;
		Reeve__V1__ControlScheduleResponse control;
	} response;
	if (c->op.call == STORE_SCHEDULE_ADD)
		reeve__v1__add_schedule_response__init(&response.add);
	else if (c->op.call == STORE_SCHEDULE_EDIT)
		reeve__v1__edit_schedule_response__init(&response.edit);
	else
		reeve__v1__control_schedule_response__init(&response.control);
	response.add.schedule = removed ? NULL : schedule;
	rpc_call_reply(c->call, &response.add.base);
	if (schedule)
		reeve__v1__schedule__free_unpacked(schedule, NULL);
	end(c);
}

/* Sends a checked change, and takes ownership of `change`. */
static void send_change(
    struct services *s, struct rpc_call *call, enum store_schedule_call kind, const char *name, char *change)
{
	struct schedule_call *c = begin(s, call, kind, name, on_changed);
	c->change = change;
	c->op.change = change;
	c->op.request_id = rpc_call_request_id(call);
	store_schedules(s->core->base.store, &c->op);
}

static void add(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__AddScheduleRequest *request = (const Reeve__V1__AddScheduleRequest *)message;
	struct reeve_error error;
	char *change = NULL;
	if (!check_change(s, call, &error) ||
	    !(change = schedule_addition(request->schedule, s->core->base.options.max_details_bytes, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	send_change(s, call, STORE_SCHEDULE_ADD, request->schedule->name, change);
}

static void edit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__EditScheduleRequest *request = (const Reeve__V1__EditScheduleRequest *)message;
	struct reeve_error error;
	char *change = NULL;
	if (!check_change(s, call, &error) || !(change = schedule_change(request->schedule, request->fields,
	                                            request->n_fields, s->core->base.options.max_details_bytes, &error))) {
		rpc_call_fail_error(call, &error);
		return;
	}
	send_change(s, call, STORE_SCHEDULE_EDIT, request->schedule->name, change);
}

static void control(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	static const char *const actions[] = {
	    [REEVE__V1__SCHEDULE_ACTION__SCHEDULE_ACTION_PAUSE] = "pause",
	    [REEVE__V1__SCHEDULE_ACTION__SCHEDULE_ACTION_RESUME] = "resume",
	    [REEVE__V1__SCHEDULE_ACTION__SCHEDULE_ACTION_REMOVE] = "remove",
	};
	struct services *s = service;
	const Reeve__V1__ControlScheduleRequest *request = (const Reeve__V1__ControlScheduleRequest *)message;
	struct reeve_error error;
	if (!check_change(s, call, &error) || !check_name("name", request->name, false, &error) ||
	    !check_range("action", request->action, 1, sizeof actions / sizeof *actions - 1, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	send_change(s, call, STORE_SCHEDULE_CONTROL, request->name, mem_strdup(actions[request->action]));
}

/* --- List and Show ------------------------------------------------------------------------------------------------ */

static void on_listed(struct store_op *op, const struct reeve_error *failed)
{
	struct schedule_call *c = (struct schedule_call *)op;
	if (failed) {
		fail(c, failed);
		return;
	}
	Reeve__V1__ListSchedulesResponse *response = mem_malloc(sizeof *response);
	reeve__v1__list_schedules_response__init(response);
	response->schedules = mem_malloc(sizeof *response->schedules * (size_t)(c->op.count + 1));
	for (int i = 0; i < c->op.count; i++)
		response->schedules[response->n_schedules++] = schedule_message(&c->op.schedules[i]);
	response->more = c->op.more;
	rpc_call_reply(c->call, &response->base);
	reeve__v1__list_schedules_response__free_unpacked(response, NULL);
	end(c);
}

static void list(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__ListSchedulesRequest *request = (const Reeve__V1__ListSchedulesRequest *)message;
	struct reeve_error error;
	if (!check_name("after_name", request->after_name, true, &error) ||
	    !check_range("limit", request->limit, 0, LIST_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct schedule_call *c = begin(s, call, STORE_SCHEDULE_LIST, request->after_name, on_listed);
	c->op.limit = request->limit ? (int)request->limit : LIST_DEFAULT;
	c->op.max_bytes = s->core->base.options.max_answer_bytes;
	store_schedules(s->core->base.store, &c->op);
}

static void on_shown(struct store_op *op, const struct reeve_error *failed)
{
	struct schedule_call *c = (struct schedule_call *)op;
	Reeve__V1__ShowScheduleResponse response = REEVE__V1__SHOW_SCHEDULE_RESPONSE__INIT;
	struct reeve_error error;
	response.schedule = answered(c, failed, &error);
	if (!response.schedule) {
		fail(c, &error);
		return;
	}
	rpc_call_reply(c->call, &response.base);
	reeve__v1__schedule__free_unpacked(response.schedule, NULL);
	end(c);
}

static void show(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__ShowScheduleRequest *request = (const Reeve__V1__ShowScheduleRequest *)message;
	struct reeve_error error;
	if (!check_name("name", request->name, false, &error) ||
	    !check_range("preview", request->preview, 0, PREVIEW_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct schedule_call *c = begin(s, call, STORE_SCHEDULE_GET, request->name, on_shown);
	c->op.limit = (int)request->preview;
	store_schedules(s->core->base.store, &c->op);
}

/* --- Run and Runs ------------------------------------------------------------------------------------------------- */

struct runs_call {
	struct store_schedule_runs op;
	struct rpc_call *call;
};

static void on_run(struct store_op *op, const struct reeve_error *failed)
{
	struct runs_call *c = (struct runs_call *)op;
	if (failed) {
		rpc_call_fail_error(c->call, failed);
	} else if (!c->op.count) {
		rpc_call_fail(c->call, STATUS(NOT_FOUND), "the run is not kept any more");
	} else {
		Reeve__V1__RunScheduleResponse response = REEVE__V1__RUN_SCHEDULE_RESPONSE__INIT;
		response.run = schedule_run_message(&c->op.runs[0]);
		rpc_call_reply(c->call, &response.base);
		reeve__v1__schedule_run__free_unpacked(response.run, NULL);
	}
	free(c);
}

static void on_runs(struct store_op *op, const struct reeve_error *failed)
{
	struct runs_call *c = (struct runs_call *)op;
	if (failed) {
		rpc_call_fail_error(c->call, failed);
	} else {
		Reeve__V1__ScheduleRunsResponse *response = mem_malloc(sizeof *response);
		reeve__v1__schedule_runs_response__init(response);
		response->runs = mem_malloc(sizeof *response->runs * (size_t)(c->op.count + 1));
		for (int i = 0; i < c->op.count; i++)
			response->runs[response->n_runs++] = schedule_run_message(&c->op.runs[i]);
		response->next_before_id = c->op.next_before;
		rpc_call_reply(c->call, &response->base);
		reeve__v1__schedule_runs_response__free_unpacked(response, NULL);
	}
	free(c);
}

static struct runs_call *begin_runs(struct services *s, struct rpc_call *call, const char *name,
    void (*done)(struct store_op *op, const struct reeve_error *error))
{
	struct runs_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->op = (struct store_schedule_runs){
	    .op.done = done,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .name = name,
	    .actor = rpc_call_actor(call),
	};
	return c;
}

static void run(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__RunScheduleRequest *request = (const Reeve__V1__RunScheduleRequest *)message;
	struct reeve_error error;
	if (!check_change(s, call, &error) || !check_name("name", request->name, false, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct runs_call *c = begin_runs(s, call, request->name, on_run);
	c->op.request_id = rpc_call_request_id(call);
	store_schedule_runs(s->core->base.store, &c->op);
}

static void runs(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	const Reeve__V1__ScheduleRunsRequest *request = (const Reeve__V1__ScheduleRunsRequest *)message;
	struct reeve_error error;
	if (!check_name("name", request->name, false, &error) ||
	    !check_range("limit", request->limit, 0, LIST_MAX, &error) ||
	    !check_range("before_id", request->before_id, 0, INT64_MAX, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct runs_call *c = begin_runs(s, call, request->name, on_runs);
	c->op.before = request->before_id ? request->before_id : INT64_MAX;
	c->op.limit = request->limit ? (int)request->limit : LIST_DEFAULT;
	store_schedule_runs(s->core->base.store, &c->op);
}

const struct rpc_entry schedule_methods[] = {
	{"Add", add, RPC_ORDINARY, NULL},
	{"Edit", edit, RPC_OPERATOR, NULL},
	{"List", list, RPC_OPERATOR, NULL},
	{"Show", show, RPC_OPERATOR, NULL},
	{"Control", control, RPC_OPERATOR, NULL},
	{"Run", run, RPC_ORDINARY, NULL},
	{"Runs", runs, RPC_OPERATOR, NULL},
	{0},
};
