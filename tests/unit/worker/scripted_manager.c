#include "scripted_internal.h"

#include <assert.h>
#include <reeve/v1/admin.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void script_lock(struct script *script)
{
	pthread_mutex_lock(&script->host.lock);
}

void script_unlock(struct script *script)
{
	pthread_mutex_unlock(&script->host.lock);
}

/* Answers the delayed report once delay_reports is false. */
static void script_answer_delayed(struct script *script)
{
	struct rpc_call *call;
	Reeve__V1__ReportRequest *request;

	script_lock(script);
	call = script->delay_reports ? NULL : script->delayed_call;
	request = script->delayed;
	if (call)
		script->delayed_call = NULL;
	script_unlock(script);
	if (!call)
		return;
	script_report(script, call, &request->base);
	reeve__v1__report_request__free_unpacked(request, NULL);
}

/* Answers the delayed heartbeat, as if before any command, once delay_heartbeats is false. */
static void script_answer_heartbeat(struct script *script)
{
	Reeve__V1__HeartbeatResponse response = REEVE__V1__HEARTBEAT_RESPONSE__INIT;
	struct rpc_call *call;

	script_lock(script);
	call = script->delay_heartbeats ? NULL : script->delayed_heartbeat;
	if (call)
		script->delayed_heartbeat = NULL;
	script_unlock(script);
	if (call)
		rpc_call_reply(call, &response.base);
}

/* Every 2 ms: answers parked Fetches for which there are tasks or worker commands, or whose wait is over. */
static void script_on_timer(void *arg)
{
	struct script *script = arg;
	int64_t now_ms = clock_monotonic_ms();

	for (int i = 0; i < SCRIPT_CALLS_MAX; i++) {
		struct script_parked *parked = &script->parked[i];
		struct rpc_call *call = NULL;
		struct script_answer answer = {0};

		script_lock(script);
		if (parked->call && !script->hold_fetches) {
			script_answer_fetch(script, parked->incarnation, parked->fetch_id, parked->slots, false, &answer);
			if (answer.response.n_assignments || answer.response.n_commands || now_ms >= parked->until_ms) {
				call = parked->call;
				parked->call = NULL;
				script->parked_now--;
			}
		}
		script_unlock(script);
		if (call)
			rpc_call_reply(call, &answer.response.base);
		script_answer_free(&answer);
	}
	script_answer_delayed(script);
	script_answer_heartbeat(script);
}

void script_init(struct script *script)
{
	free(script->tasks);
	memset(script, 0, sizeof *script);
	script->tasks = calloc(SCRIPT_TASKS_MAX + 1, sizeof *script->tasks);
	fake_host_init(&script->host);
	snprintf(script->directory, sizeof script->directory, "/tmp/reeve-script-XXXXXX");
	if (!mkdtemp(script->directory))
		abort();
	snprintf(script->url, sizeof script->url, "ipc://%s/manager", script->directory);
	script->lease_ms = 15000;
	script->heartbeat_ms = 4000;
	script->max_result_bytes = 1 << 20;
	script->progress_status = REEVE__V1__RESULT_STATUS__RESULT_STATUS_ACCEPTED;
}

void script_start(struct script *script)
{
	static const struct rpc_entry worker_methods[] = {
	    {"Register", script_register, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Fetch", script_fetch, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Report", script_report, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Heartbeat", script_heartbeat, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Leave", script_leave, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Extend", script_extend, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Progress", script_progress, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {0},
	};
	static const struct rpc_entry admin_methods[] = {
	    {"Ping", script_ping, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"ListQueues", script_admin, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"ListWorkers", script_admin, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Stats", script_admin, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"ControlWorkers", script_admin, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Check", script_admin, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {0},
	};
	struct rpc_server_options options = {.max_message_bytes = 8 << 20, .max_open_calls = 10000, .max_connections = 100};

	fake_host_open(&script->host, &options);
	rpc_server_add(script->host.server, &reeve__v1__worker_service__descriptor, worker_methods, script);
	rpc_server_add(script->host.server, &reeve__v1__admin_service__descriptor, admin_methods, script);
	fake_host_listen(&script->host, script->url);
	fake_host_repeat(&script->host, 2, script_on_timer, script);
	fake_host_run(&script->host);
}

void script_stop(struct script *script)
{
	fake_host_close(&script->host);
	memset(script->parked, 0, sizeof script->parked);
	script->parked_now = 0;
	script->n_held_calls = 0;
}

void script_free(struct script *script)
{
	char path[160];

	script_stop(script);
	for (int id = 1; id <= script->n_tasks; id++) {
		free(script->tasks[id].details);
		free(script->tasks[id].result);
		free(script->tasks[id].error);
		free(script->tasks[id].remark);
		free(script->tasks[id].logged);
		free(script->tasks[id].stack);
		free(script->tasks[id].seen);
	}
	snprintf(path, sizeof path, "%s/manager", script->directory);
	unlink(path);
	rmdir(script->directory);
	fake_host_free(&script->host);
}

int64_t script_add(struct script *script, const char *type, const char *details)
{
	struct script_task *task;
	int64_t id;

	script_lock(script);
	assert(script->n_tasks < SCRIPT_TASKS_MAX);
	id = ++script->n_tasks;
	task = &script->tasks[id];
	snprintf(task->type, sizeof task->type, "%s", type);
	snprintf(task->queue, sizeof task->queue, "default");
	task->details = strdup(details);
	task->timeout_ms = 60 * 1000;
	task->expires_in_ms = 90 * 1000;
	script_unlock(script);
	return id;
}

void script_command(struct script *script, Reeve__V1__WorkerCommandKind kind, int64_t task_id, uint32_t value)
{
	Reeve__V1__WorkerCommand order = REEVE__V1__WORKER_COMMAND__INIT;

	order.kind = kind;
	order.task_id = task_id;
	order.token = task_id ? task_id + SCRIPT_TOKEN : 0;
	order.value = value;
	script_lock(script);
	assert(script->n_commands < SCRIPT_COMMANDS_MAX);
	script->commands[script->n_commands++] = order;
	script_unlock(script);
}
