/* The fake manager's methods that say what it is and who is there, and those for pull clients. */
#include "tests/unit/client/fake_server_internal.h"

#include "common/clock.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/worker.pb-c.h>

static void serve_ping(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;

	(void)service;
	(void)message;
	response.now_us = clock_wall_us();
	response.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	response.manager = (char *)"fake_server";
	response.database_up = true;
	response.max_details_bytes = FAKE_SERVER_MAX_DETAILS;
	response.max_message_bytes = 8 * 1024 * 1024;
	rpc_call_reply(call, &response.base);
}

static void serve_queues(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ListQueuesRequest *request = (const void *)message;
	Reeve__V1__ListQueuesResponse response = REEVE__V1__LIST_QUEUES_RESPONSE__INIT;
	Reeve__V1__QueueCounts counts = REEVE__V1__QUEUE_COUNTS__INIT, *list[] = {&counts};

	(void)service;
	counts.queue = (char *)(*request->queue ? request->queue : "default");
	counts.type = (char *)"mail";
	counts.queued = 3;
	counts.delayed = 2;
	counts.executing = 1;
	counts.oldest_due_us = clock_wall_us() - INT64_C(7230) * 1000000;
	response.n_queues = 1;
	response.queues = list;
	rpc_call_reply(call, &response.base);
}

static void serve_workers(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__ListWorkersRequest *request = (const void *)message;
	Reeve__V1__ListWorkersResponse response = REEVE__V1__LIST_WORKERS_RESPONSE__INIT;
	Reeve__V1__Worker alive = REEVE__V1__WORKER__INIT, gone = REEVE__V1__WORKER__INIT, *list[] = {&alive, &gone};
	const char *queues[] = {"mail", "night"};

	(void)service;
	alive.incarnation = 7;
	alive.name = (char *)"host/1";
	alive.owner = (char *)"fleet/host/1";
	alive.state = REEVE__V1__WORKER_STATE__WORKER_STATE_ALIVE;
	alive.concurrency = 4;
	alive.holding = 2;
	alive.n_queues = 2;
	alive.queues = queues;
	alive.heartbeat_us = alive.registered_us = alive.mode_since_us = clock_wall_us() - INT64_C(7230) * 1000000;
	alive.mode = REEVE__V1__WORKER_MODE__WORKER_MODE_DRAINING;
	alive.completed = 12;
	alive.failed = 3;
	gone.incarnation = 6;
	gone.name = (char *)"host/0";
	gone.state = REEVE__V1__WORKER_STATE__WORKER_STATE_GONE;
	response.n_workers = request->all ? 2 : 1;
	response.workers = list;
	rpc_call_reply(call, &response.base);
}

static void serve_stats(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	Reeve__V1__StatsResponse response = REEVE__V1__STATS_RESPONSE__INIT;
	Reeve__V1__Counter counter = REEVE__V1__COUNTER__INIT, *list[] = {&counter};

	(void)message;
	pthread_mutex_lock(&fake_server->host.lock);
	response.queued = (int64_t)fake_server->n_tasks;
	pthread_mutex_unlock(&fake_server->host.lock);
	response.workers_alive = 1;
	counter.name = (char *)"claims_won";
	counter.value = 42;
	response.n_counters = 1;
	response.counters = list;
	rpc_call_reply(call, &response.base);
}

const struct rpc_entry fake_server_admin_methods[] = {
    {"Ping", serve_ping, RPC_ORDINARY, RPC_ANYONE, NULL},
    {"ListQueues", serve_queues, RPC_ORDINARY, RPC_ANYONE, NULL},
    {"ListWorkers", serve_workers, RPC_ORDINARY, RPC_ANYONE, NULL},
    {"Stats", serve_stats, RPC_ORDINARY, RPC_ANYONE, NULL},
    {0},
};

/* For pull clients. */
static void serve_register(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__RegisterResponse response = REEVE__V1__REGISTER_RESPONSE__INIT;

	(void)service;
	(void)message;
	response.incarnation = 1;
	rpc_call_reply(call, &response.base);
}

static void serve_leave(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	Reeve__V1__LeaveResponse response = REEVE__V1__LEAVE_RESPONSE__INIT;

	(void)service;
	(void)message;
	rpc_call_reply(call, &response.base);
}

static void give(Reeve__V1__Assignment *given, Reeve__V1__Task *task)
{
	task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_EXECUTING;
	given->task_id = task->id;
	given->token = clock_wall_us();
	given->queue = task->queue;
	given->type = task->type;
	given->details = task->details;
	given->attempt = 1;
	given->max_attempts = task->max_attempts;
	given->timeout_ms = task->timeout_ms;
	given->expires_in_ms = task->timeout_ms + 30000;
}

/* Assigns tasks that wait, up to four; to a Fetch that parks, the first. */
static void serve_fetch(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__FetchRequest *request = (const void *)message;
	struct fake_server *fake_server = service;
	Reeve__V1__FetchResponse response = REEVE__V1__FETCH_RESPONSE__INIT;
	Reeve__V1__Assignment given[4], *list[4];
	size_t most = request->wait_ms ? 1 : request->slots < 4 ? request->slots : 4;

	pthread_mutex_lock(&fake_server->host.lock);
	response.incarnation = request->incarnation;
	response.fetch_id = request->fetch_id;
	response.assignments = list;
	if (fake_server->unsure > 0) {
		fake_server->unsure--;
		response.retry_after_ms = 50;
		most = 0;
	}
	for (size_t i = 0; i < fake_server->n_tasks && response.n_assignments < most; i++) {
		if (fake_server->tasks[i]->status != REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED)
			continue;
		list[response.n_assignments] = &given[response.n_assignments];
		reeve__v1__assignment__init(list[response.n_assignments]);
		give(list[response.n_assignments++], fake_server->tasks[i]);
	}
	rpc_call_reply(call, &response.base);
	pthread_mutex_unlock(&fake_server->host.lock);
}

const struct rpc_entry fake_server_worker_methods[] = {
    {"Register", serve_register, RPC_ORDINARY, RPC_ANYONE, NULL},
    {"Fetch", serve_fetch, RPC_ORDINARY, RPC_ANYONE, NULL},
    {"Leave", serve_leave, RPC_ORDINARY, RPC_ANYONE, NULL},
    {0},
};
