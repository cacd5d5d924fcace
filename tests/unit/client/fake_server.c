/* A thread runs the fake's loop; one lock guards all tasks and the tests' settings. */
#include "tests/unit/client/fake_server_internal.h"

#include <criterion/criterion.h>
#include <event2/thread.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { POLL_MS = 5 };

static void look(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	fake_server_answer_waits(arg);
}

/* Runs on the loop's own thread: a loop that has not begun forgets a break. */
static void stop(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	event_base_loopbreak(((struct fake_server *)arg)->base);
}

static void *run(void *arg)
{
	struct fake_server *fake_server = arg;

	event_base_loop(fake_server->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

struct fake_server *fake_server_start(void)
{
	static const struct rpc_entry tasks[] = {
	    {"Submit", fake_server_serve_submit, RPC_ORDINARY, RPC_ANYONE, NULL},
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
	struct timeval often = {.tv_usec = POLL_MS * 1000};
	struct reeve_error error = {0};
	struct fake_server *fake_server = calloc(1, sizeof *fake_server);

	evthread_use_pthreads();
	pthread_mutex_init(&fake_server->lock, NULL);
	fake_server->base = event_base_new();
	fake_server->server = rpc_server_create(fake_server->base, &options);
	rpc_server_add(fake_server->server, &reeve__v1__task_service__descriptor, tasks, fake_server);
	rpc_server_add(fake_server->server, &reeve__v1__admin_service__descriptor, fake_server_admin_methods, fake_server);
	rpc_server_add(
	    fake_server->server, &reeve__v1__worker_service__descriptor, fake_server_worker_methods, fake_server);
	cr_assert(rpc_server_listen(fake_server->server, "tcp://127.0.0.1:0", &error), "%s", error.message);
	snprintf(fake_server->url, sizeof fake_server->url, "%s", rpc_server_url(fake_server->server));
	fake_server->look = event_new(fake_server->base, -1, EV_PERSIST, look, fake_server);
	event_add(fake_server->look, &often);
	fake_server->stop = event_new(fake_server->base, -1, 0, stop, fake_server);
	pthread_create(&fake_server->thread, NULL, run, fake_server);
	return fake_server;
}

void fake_server_stop(struct fake_server *fake_server)
{
	struct waiting *waiting, *next;

	event_active(fake_server->stop, EV_TIMEOUT, 0);
	pthread_join(fake_server->thread, NULL);
	rpc_server_destroy(fake_server->server);
	event_free(fake_server->look);
	event_free(fake_server->stop);
	event_base_free(fake_server->base);
	DL_FOREACH_SAFE (fake_server->waits, waiting, next)
		free(waiting);
	for (size_t i = 0; i < fake_server->n_tasks; i++)
		reeve__v1__task__free_unpacked(fake_server->tasks[i], NULL);
	free(fake_server->tasks);
	pthread_mutex_destroy(&fake_server->lock);
	free(fake_server);
}

const char *fake_server_url(const struct fake_server *fake_server)
{
	return fake_server->url;
}

void fake_server_fail_submits(struct fake_server *fake_server, int after, int count, reeve_status code)
{
	pthread_mutex_lock(&fake_server->lock);
	fake_server->fail_after = after;
	fake_server->fail_count = count;
	fake_server->fail_code = code;
	pthread_mutex_unlock(&fake_server->lock);
}

void fake_server_refuse_type(struct fake_server *fake_server, const char *type)
{
	pthread_mutex_lock(&fake_server->lock);
	snprintf(fake_server->poison, sizeof fake_server->poison, "%s", type);
	pthread_mutex_unlock(&fake_server->lock);
}

void fake_server_hold_submits(struct fake_server *fake_server, int count)
{
	pthread_mutex_lock(&fake_server->lock);
	fake_server->hold = count;
	pthread_mutex_unlock(&fake_server->lock);
}

void fake_server_end_tasks_as(struct fake_server *fake_server, int task_status)
{
	pthread_mutex_lock(&fake_server->lock);
	fake_server->end_as = task_status;
	pthread_mutex_unlock(&fake_server->lock);
}

void fake_server_know_later(struct fake_server *fake_server, int count)
{
	pthread_mutex_lock(&fake_server->lock);
	fake_server->unsure = count;
	pthread_mutex_unlock(&fake_server->lock);
}

void fake_server_end(struct fake_server *fake_server, int64_t id, int task_status, const char *text)
{
	pthread_mutex_lock(&fake_server->lock);
	fake_server_end_task(fake_server_find_task(fake_server, id), task_status, text);
	pthread_mutex_unlock(&fake_server->lock);
}

void fake_server_cut_waits(struct fake_server *fake_server, size_t most)
{
	pthread_mutex_lock(&fake_server->lock);
	fake_server->cut = most;
	pthread_mutex_unlock(&fake_server->lock);
}

size_t fake_server_submits(struct fake_server *fake_server, struct fake_server_submit submits[FAKE_SERVER_SUBMITS])
{
	pthread_mutex_lock(&fake_server->lock);
	size_t count = fake_server->n_submits;
	memcpy(submits, fake_server->submits, sizeof fake_server->submits);
	pthread_mutex_unlock(&fake_server->lock);
	return count;
}

size_t fake_server_tasks(struct fake_server *fake_server)
{
	pthread_mutex_lock(&fake_server->lock);
	size_t count = fake_server->n_tasks;
	pthread_mutex_unlock(&fake_server->lock);
	return count;
}

size_t fake_server_waits(struct fake_server *fake_server, size_t *max_ids)
{
	pthread_mutex_lock(&fake_server->lock);
	size_t count = fake_server->n_waits;
	*max_ids = fake_server->max_ids;
	pthread_mutex_unlock(&fake_server->lock);
	return count;
}

const char *fake_server_details(struct fake_server *fake_server, int64_t id)
{
	pthread_mutex_lock(&fake_server->lock);
	const Reeve__V1__Task *task = fake_server_find_task(fake_server, id);
	pthread_mutex_unlock(&fake_server->lock);
	return task ? task->details : NULL;
}

const char *fake_server_reason(struct fake_server *fake_server)
{
	return fake_server->reason;
}
