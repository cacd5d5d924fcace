/* AdminService: views and control of the system. */
#include "manager/core/control.h"
#include "manager/core/routes.h"
#include "manager/service/admin_methods.h"
#include "manager/service/check.h"
#include "manager/service/counters.h"
#include "manager/service/filter.h"
#include "manager/service/method.h"

#include <reeve/v1/admin.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ping(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct services *s = service;
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;
	(void)message;
	response.now_us = core_clock_us(s->core);
	response.manager = (char *)s->manager_name;
	response.version = (char *)REEVE_VERSION;
	response.database_up = store_up(s->core->base.store) && core_database_fresh(s->core);
	response.max_details_bytes = (uint32_t)s->core->base.options.max_details_bytes;
	response.max_message_bytes = (uint32_t)s->max_message_bytes;
	response.idle_ping_ms = (uint32_t)rpc_server_idle_ping_ms(s->server);
	response.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	rpc_call_reply(call, &response.base);
}

static bool list_queues_complete(struct reading *r, struct reeve_error *error)
{
	const char *queue = ((const Reeve__V1__ListQueuesRequest *)r->request)->queue;
	return !*queue || routes_have_queue(r->services->core->routes, queue) ||
	    error_set(error, STATUS(NOT_FOUND), "queue: there is no task in queue \"%s\", and none in the history", queue);
}

static void counter_add(Reeve__V1__StatsResponse *out, const char *name, int64_t value)
{
	Reeve__V1__Counter *c = mem_malloc(sizeof *c);
	reeve__v1__counter__init(c);
	c->name = mem_strdup(name);
	c->value = value;
	out->counters = mem_realloc(out->counters, sizeof *out->counters * (out->n_counters + 1));
	out->counters[out->n_counters++] = c;
}

static bool stats_complete(struct reading *r, struct reeve_error *error)
{
	struct counter counters[COUNTERS_MAX];
	int count = counters_read(r->services, counters);
	(void)error;
	for (int i = 0; i < count; i++)
		counter_add((Reeve__V1__StatsResponse *)r->response, counters[i].name, counters[i].value);
	return true;
}

/* --- control of workers ------------------------------------------------------------------------------------------- */

enum { NAMED_MAX = 1000, WORKERS_MAX = 1000 };

struct control_call {
	struct store_control op;
	struct rpc_call *call;
};

static void on_controlled(struct store_op *op, const struct reeve_error *error)
{
	struct control_call *c = (struct control_call *)op;
	if (error) {
		rpc_call_fail_error(c->call, error);
	} else if (c->op.count == 0 && c->op.name) {
		rpc_call_fail(c->call, STATUS(NOT_FOUND),
		    "no worker named \"%s\" is alive (pull clients take no commands)", c->op.name);
	} else if (c->op.count == 0) {
		rpc_call_fail(c->call, STATUS(NOT_FOUND), "no worker is alive");
	} else {
		Reeve__V1__ControlWorkersResponse response = REEVE__V1__CONTROL_WORKERS_RESPONSE__INIT;
		response.notified = (uint32_t)c->op.count;
		response.n_names = c->op.count < NAMED_MAX ? (size_t)c->op.count : NAMED_MAX;
		response.names = mem_calloc(response.n_names, sizeof *response.names);
		for (size_t i = 0; i < response.n_names; i++)
			response.names[i] = c->op.workers[i].name;
		rpc_call_reply(c->call, &response.base);
		free(response.names);
	}
	free(c);
}

static bool check_control(const Reeve__V1__ControlWorkersRequest *r, struct reeve_error *error)
{
	if (r->all && *r->name)
		return error_set(error, STATUS(INVALID_ARGUMENT), "there are both name and all");
	if (!r->all && !check_name("name", r->name, false, error))
		return false;
	if (!check_range("action", r->action, REEVE__V1__WORKER_ACTION__WORKER_ACTION_DRAIN,
	        REEVE__V1__WORKER_ACTION__WORKER_ACTION_SCALE, error))
		return false;
	if (r->action == REEVE__V1__WORKER_ACTION__WORKER_ACTION_SCALE)
		return check_range("concurrency", r->concurrency, 1, CONCURRENCY_MAX, error);
	return r->concurrency == 0 ||
	    error_set(error, STATUS(INVALID_ARGUMENT), "concurrency is %u; only SCALE takes one", r->concurrency);
}

static void control(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	static const char *const kinds[] = {
	    [REEVE__V1__WORKER_ACTION__WORKER_ACTION_DRAIN] = "drain",
	    [REEVE__V1__WORKER_ACTION__WORKER_ACTION_PAUSE] = "pause",
	    [REEVE__V1__WORKER_ACTION__WORKER_ACTION_RESUME] = "resume",
	    [REEVE__V1__WORKER_ACTION__WORKER_ACTION_STOP] = "stop",
	    [REEVE__V1__WORKER_ACTION__WORKER_ACTION_SCALE] = "concurrency",
	};
	const Reeve__V1__ControlWorkersRequest *request = (const Reeve__V1__ControlWorkersRequest *)message;
	struct services *s = service;
	struct reeve_error error;
	if (!check_control(request, &error) || !check_source("actor", rpc_call_actor(call), &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	struct control_call *c = mem_calloc(1, sizeof *c);
	c->call = call;
	c->op = (struct store_control){
	    .op.done = on_controlled,
	    .op.deadline_ms = service_deadline(s, call),
	    .op.origin = rpc_call_origin(call),
	    .name = request->all ? NULL : request->name,
	    .kind = kinds[request->action],
	    .value = (int32_t)request->concurrency,
	    .actor = rpc_call_actor(call),
	};
	control_workers(s->core->control, &c->op);
}

const struct rpc_entry admin_methods[] = {
	{"Ping", ping, RPC_LEASE, NULL},
	{"ListQueues", read_method, RPC_OPERATOR,
	    METHOD(SQL_QUEUE_COUNTS, .rules = {{"queue", RULE_NAME_OR_NONE}, {"page", RULE_PAGE}}, .names = NAMES_FRESH,
	        .complete = list_queues_complete)},
	{"ListWorkers", read_method, RPC_OPERATOR,
	    METHOD(SQL_WORKER_LIST, .rules = {{"queue", RULE_NAME_OR_NONE},
	        {"limit", RULE_NUMBER, .max = WORKERS_MAX, .otherwise = WORKERS_MAX}, {"after", RULE_NUMBER, .max = INT64_MAX}})},
	{"Stats", read_method, RPC_OPERATOR, METHOD(SQL_STATS, .complete = stats_complete)},
	{"ControlWorkers", control, RPC_OPERATOR, NULL},
	{"Check", admin_check, RPC_LEASE, NULL},
	{0},
};
