/* A thread runs the fake's loop; one lock guards all tasks and the tests' settings. */
#include "tests/unit/client/standin_internal.h"

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
	standin_answer_waits(arg);
}

/* Runs on the loop's own thread: a loop that has not begun forgets a break. */
static void stop(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	event_base_loopbreak(((struct standin *)arg)->base);
}

static void *run(void *arg)
{
	struct standin *standin = arg;

	event_base_loop(standin->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

struct standin *standin_start(void)
{
	static const struct rpc_entry tasks[] = {
	    {"Submit", standin_serve_submit, RPC_ORDINARY, NULL},
	    {"Get", standin_serve_get, RPC_ORDINARY, NULL},
	    {"List", standin_serve_list, RPC_ORDINARY, NULL},
	    {"Wait", standin_serve_wait, RPC_ORDINARY, NULL},
	    {"Cancel", standin_serve_cancel, RPC_ORDINARY, NULL},
	    {"Retry", standin_serve_retry, RPC_ORDINARY, NULL},
	    {"Update", standin_serve_update, RPC_ORDINARY, NULL},
	    {"Audit", standin_serve_audit, RPC_ORDINARY, NULL},
	    {0},
	};
	struct rpc_server_options options = {
	    .max_message_bytes = 8 * 1024 * 1024, .max_open_calls = 1000, .max_connections = 100};
	struct timeval often = {.tv_usec = POLL_MS * 1000};
	struct reeve_error error = {0};
	struct standin *standin = calloc(1, sizeof *standin);

	evthread_use_pthreads();
	pthread_mutex_init(&standin->lock, NULL);
	standin->base = event_base_new();
	standin->server = rpc_server_create(standin->base, &options);
	rpc_server_add(standin->server, &reeve__v1__task_service__descriptor, tasks, standin);
	rpc_server_add(standin->server, &reeve__v1__admin_service__descriptor, standin_admin_methods, standin);
	rpc_server_add(standin->server, &reeve__v1__worker_service__descriptor, standin_worker_methods, standin);
	cr_assert(rpc_server_listen(standin->server, "tcp://127.0.0.1:0", &error), "%s", error.message);
	snprintf(standin->url, sizeof standin->url, "%s", rpc_server_url(standin->server));
	standin->look = event_new(standin->base, -1, EV_PERSIST, look, standin);
	event_add(standin->look, &often);
	standin->stop = event_new(standin->base, -1, 0, stop, standin);
	pthread_create(&standin->thread, NULL, run, standin);
	return standin;
}

void standin_stop(struct standin *standin)
{
	struct waiting *waiting, *next;

	event_active(standin->stop, EV_TIMEOUT, 0);
	pthread_join(standin->thread, NULL);
	rpc_server_destroy(standin->server);
	event_free(standin->look);
	event_free(standin->stop);
	event_base_free(standin->base);
	DL_FOREACH_SAFE (standin->waits, waiting, next)
		free(waiting);
	for (size_t i = 0; i < standin->n_tasks; i++)
		reeve__v1__task__free_unpacked(standin->tasks[i], NULL);
	free(standin->tasks);
	pthread_mutex_destroy(&standin->lock);
	free(standin);
}

const char *standin_url(const struct standin *standin)
{
	return standin->url;
}

void standin_fail_submits(struct standin *standin, int after, int count, reeve_status code)
{
	pthread_mutex_lock(&standin->lock);
	standin->fail_after = after;
	standin->fail_count = count;
	standin->fail_code = code;
	pthread_mutex_unlock(&standin->lock);
}

void standin_refuse_type(struct standin *standin, const char *type)
{
	pthread_mutex_lock(&standin->lock);
	snprintf(standin->poison, sizeof standin->poison, "%s", type);
	pthread_mutex_unlock(&standin->lock);
}

void standin_hold_submits(struct standin *standin, int count)
{
	pthread_mutex_lock(&standin->lock);
	standin->hold = count;
	pthread_mutex_unlock(&standin->lock);
}

void standin_end_tasks_as(struct standin *standin, int task_status)
{
	pthread_mutex_lock(&standin->lock);
	standin->end_as = task_status;
	pthread_mutex_unlock(&standin->lock);
}

void standin_know_later(struct standin *standin, int count)
{
	pthread_mutex_lock(&standin->lock);
	standin->unsure = count;
	pthread_mutex_unlock(&standin->lock);
}

void standin_end(struct standin *standin, int64_t id, int task_status, const char *text)
{
	pthread_mutex_lock(&standin->lock);
	standin_end_task(standin_find_task(standin, id), task_status, text);
	pthread_mutex_unlock(&standin->lock);
}

void standin_cut_waits(struct standin *standin, size_t most)
{
	pthread_mutex_lock(&standin->lock);
	standin->cut = most;
	pthread_mutex_unlock(&standin->lock);
}

size_t standin_submits(struct standin *standin, struct standin_submit submits[STANDIN_SUBMITS])
{
	pthread_mutex_lock(&standin->lock);
	size_t count = standin->n_submits;
	memcpy(submits, standin->submits, sizeof standin->submits);
	pthread_mutex_unlock(&standin->lock);
	return count;
}

size_t standin_tasks(struct standin *standin)
{
	pthread_mutex_lock(&standin->lock);
	size_t count = standin->n_tasks;
	pthread_mutex_unlock(&standin->lock);
	return count;
}

size_t standin_waits(struct standin *standin, size_t *max_ids)
{
	pthread_mutex_lock(&standin->lock);
	size_t count = standin->n_waits;
	*max_ids = standin->max_ids;
	pthread_mutex_unlock(&standin->lock);
	return count;
}

const char *standin_details(struct standin *standin, int64_t id)
{
	pthread_mutex_lock(&standin->lock);
	const Reeve__V1__Task *task = standin_find_task(standin, id);
	pthread_mutex_unlock(&standin->lock);
	return task ? task->details : NULL;
}

const char *standin_reason(struct standin *standin)
{
	return standin->reason;
}
