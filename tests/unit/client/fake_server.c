#include "tests/unit/client/fake_server_internal.h"

#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { POLL_MS = 5 };

struct fake_server *fake_server_start(void)
{
	static const struct rpc_entry tasks[] = {
	    {"Submit", fake_server_serve_submit, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"SubmitAndWait", fake_server_serve_submit_and_wait, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Get", fake_server_serve_get, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"List", fake_server_serve_list, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Wait", fake_server_serve_wait, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Cancel", fake_server_serve_cancel, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Retry", fake_server_serve_retry, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Update", fake_server_serve_update, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Audit", fake_server_serve_audit, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {0},
	};
	struct rpc_server_options options = {
	    .max_message_bytes = 8 * 1024 * 1024, .max_open_calls = 1000, .max_connections = 100};
	struct fake_server *fake_server = calloc(1, sizeof *fake_server);

	fake_host_init(&fake_server->host);
	fake_host_open(&fake_server->host, &options);
	rpc_server_add(fake_server->host.server, &reeve__v1__task_service__descriptor, tasks, fake_server);
	rpc_server_add(
	    fake_server->host.server, &reeve__v1__admin_service__descriptor, fake_server_admin_methods, fake_server);
	rpc_server_add(
	    fake_server->host.server, &reeve__v1__worker_service__descriptor, fake_server_worker_methods, fake_server);
	fake_host_listen(&fake_server->host, "tcp://127.0.0.1:0");
	fake_host_repeat(&fake_server->host, POLL_MS, fake_server_answer_waits, fake_server);
	fake_host_run(&fake_server->host);
	return fake_server;
}

void fake_server_stop(struct fake_server *fake_server)
{
	struct waiting *waiting, *next;

	fake_host_free(&fake_server->host);
	DL_FOREACH_SAFE (fake_server->waits, waiting, next)
		free(waiting);
	for (size_t i = 0; i < fake_server->n_tasks; i++)
		reeve__v1__task__free_unpacked(fake_server->tasks[i], NULL);
	free(fake_server->tasks);
	free(fake_server);
}

const char *fake_server_url(const struct fake_server *fake_server)
{
	return fake_server->host.url;
}

void fake_server_fail_submits(struct fake_server *fake_server, int after, int count, reeve_status code)
{
	pthread_mutex_lock(&fake_server->host.lock);
	fake_server->fail_after = after;
	fake_server->fail_count = count;
	fake_server->fail_code = code;
	pthread_mutex_unlock(&fake_server->host.lock);
}

void fake_server_refuse_type(struct fake_server *fake_server, const char *type)
{
	pthread_mutex_lock(&fake_server->host.lock);
	snprintf(fake_server->poison, sizeof fake_server->poison, "%s", type);
	pthread_mutex_unlock(&fake_server->host.lock);
}

void fake_server_hold_submits(struct fake_server *fake_server, int count)
{
	pthread_mutex_lock(&fake_server->host.lock);
	fake_server->hold = count;
	pthread_mutex_unlock(&fake_server->host.lock);
}

void fake_server_end_tasks_as(struct fake_server *fake_server, int task_status)
{
	pthread_mutex_lock(&fake_server->host.lock);
	fake_server->end_as = task_status;
	pthread_mutex_unlock(&fake_server->host.lock);
}

void fake_server_know_later(struct fake_server *fake_server, int count)
{
	pthread_mutex_lock(&fake_server->host.lock);
	fake_server->unsure = count;
	pthread_mutex_unlock(&fake_server->host.lock);
}

void fake_server_end(struct fake_server *fake_server, int64_t id, int task_status, const char *text)
{
	pthread_mutex_lock(&fake_server->host.lock);
	fake_server_end_task(fake_server_find_task(fake_server, id), task_status, text);
	pthread_mutex_unlock(&fake_server->host.lock);
}

void fake_server_cut_waits(struct fake_server *fake_server, size_t most)
{
	pthread_mutex_lock(&fake_server->host.lock);
	fake_server->cut = most;
	pthread_mutex_unlock(&fake_server->host.lock);
}

size_t fake_server_submits(struct fake_server *fake_server, struct fake_server_submit submits[FAKE_SERVER_SUBMITS])
{
	pthread_mutex_lock(&fake_server->host.lock);
	size_t count = fake_server->n_submits;
	memcpy(submits, fake_server->submits, sizeof fake_server->submits);
	pthread_mutex_unlock(&fake_server->host.lock);
	return count;
}

size_t fake_server_tasks(struct fake_server *fake_server)
{
	pthread_mutex_lock(&fake_server->host.lock);
	size_t count = fake_server->n_tasks;
	pthread_mutex_unlock(&fake_server->host.lock);
	return count;
}

size_t fake_server_waits(struct fake_server *fake_server, size_t *max_ids)
{
	pthread_mutex_lock(&fake_server->host.lock);
	size_t count = fake_server->n_waits;
	*max_ids = fake_server->max_ids;
	pthread_mutex_unlock(&fake_server->host.lock);
	return count;
}

const char *fake_server_details(struct fake_server *fake_server, int64_t id)
{
	pthread_mutex_lock(&fake_server->host.lock);
	const Reeve__V1__Task *task = fake_server_find_task(fake_server, id);
	pthread_mutex_unlock(&fake_server->host.lock);
	return task ? task->details : NULL;
}

const char *fake_server_reason(struct fake_server *fake_server)
{
	return fake_server->reason;
}
