/* The fake manager's methods that read tasks and events: Get, List, Wait, Audit. */
#include "tests/unit/client/fake_server_internal.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

void fake_server_serve_get(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	int64_t id = ((const Reeve__V1__GetRequest *)message)->id;

	pthread_mutex_lock(&fake_server->host.lock);
	response.task = fake_server_find_task(fake_server, id);
	if (response.task)
		rpc_call_reply(call, &response.base);
	else
		rpc_call_fail(call, STATUS(NOT_FOUND), "there is no task %lld", (long long)id);
	pthread_mutex_unlock(&fake_server->host.lock);
}

static bool matches(const Reeve__V1__Task *task, const Reeve__V1__ListRequest *request)
{
	return (!request->status || task->status == request->status) &&
	    (!*request->queue || strcmp(task->queue, request->queue) == 0) &&
	    (!*request->type || strcmp(task->type, request->type) == 0) &&
	    (!request->before_id || task->id < request->before_id);
}

void fake_server_serve_list(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	const Reeve__V1__ListRequest *request = (const void *)message;
	Reeve__V1__ListResponse response = REEVE__V1__LIST_RESPONSE__INIT;
	uint32_t limit = request->limit ? request->limit : 100;

	pthread_mutex_lock(&fake_server->host.lock);
	response.tasks = calloc(fake_server->n_tasks + 1, sizeof *response.tasks);
	for (size_t i = fake_server->n_tasks; i-- > 0 && !response.next_before_id;) {
		if (!matches(fake_server->tasks[i], request))
			continue;
		if (response.n_tasks == limit)
			response.next_before_id = response.tasks[limit - 1]->id;
		else
			response.tasks[response.n_tasks++] = fake_server->tasks[i];
	}
	rpc_call_reply(call, &response.base);
	free(response.tasks);
	pthread_mutex_unlock(&fake_server->host.lock);
}

/* Answers a Wait if all its tasks have ended, or if `anyway`. */
static bool answer_wait(
    struct fake_server *fake_server, struct rpc_call *call, const Reeve__V1__WaitRequest *request, bool anyway)
{
	Reeve__V1__WaitResponse response = REEVE__V1__WAIT_RESPONSE__INIT;
	size_t n_ended = 0;

	response.ended = calloc(request->n_ids + 1, sizeof *response.ended);
	for (size_t i = 0; i < request->n_ids; i++) {
		Reeve__V1__Task *task = fake_server_find_task(fake_server, request->ids[i]);

		if (task->status < ENDED_FIRST)
			continue;
		n_ended++;
		if (fake_server->cut == 0 || response.n_ended < fake_server->cut)
			response.ended[response.n_ended++] = task;
	}
	response.pending = (uint32_t)(request->n_ids - response.n_ended);
	response.more = n_ended > response.n_ended;
	bool answers = anyway || n_ended == request->n_ids;
	if (answers)
		rpc_call_reply(call, &response.base);
	free(response.ended);
	return answers;
}

void fake_server_serve_wait(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	const Reeve__V1__WaitRequest *request = (const void *)message;

	pthread_mutex_lock(&fake_server->host.lock);
	fake_server->n_waits++;
	if (request->n_ids > fake_server->max_ids)
		fake_server->max_ids = request->n_ids;
	for (size_t i = 0; i < request->n_ids; i++) {
		if (fake_server_find_task(fake_server, request->ids[i]))
			continue;
		rpc_call_fail(call, STATUS(NOT_FOUND), "there is no task %lld", (long long)request->ids[i]);
		pthread_mutex_unlock(&fake_server->host.lock);
		return;
	}
	if (!answer_wait(fake_server, call, request, request->wait_ms == 0)) {
		struct waiting *waiting = calloc(1, sizeof *waiting);

		waiting->call = call;
		waiting->request = request;
		waiting->end_ms = clock_monotonic_ms() + request->wait_ms;
		DL_APPEND(fake_server->waits, waiting);
	}
	pthread_mutex_unlock(&fake_server->host.lock);
}

void fake_server_answer_waits(void *arg)
{
	struct fake_server *fake_server = arg;
	struct waiting *waiting, *next;

	pthread_mutex_lock(&fake_server->host.lock);
	DL_FOREACH_SAFE (fake_server->waits, waiting, next) {
		bool over = clock_monotonic_ms() >= waiting->end_ms;

		if (answer_wait(fake_server, waiting->call, waiting->request, over)) {
			DL_DELETE(fake_server->waits, waiting);
			free(waiting);
		}
	}
	pthread_mutex_unlock(&fake_server->host.lock);
}

enum { EVENTS_A_PAGE = 3 };

/* Serves one event for each submitted task. */
void fake_server_serve_audit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	const Reeve__V1__AuditRequest *request = (const void *)message;
	Reeve__V1__AuditResponse response = REEVE__V1__AUDIT_RESPONSE__INIT;
	uint32_t limit = request->limit ? request->limit : 1000;
	size_t begin = strtoul(request->page, NULL, 10);
	Reeve__V1__AuditEvent *events;
	char page[24];

	pthread_mutex_lock(&fake_server->host.lock);
	events = calloc(fake_server->n_tasks + 1, sizeof *events);
	response.events = calloc(fake_server->n_tasks + 1, sizeof *response.events);
	if (request->newest) { /* the position of the newest, and one more */
		begin = fake_server->n_tasks > limit && !request->task_id ? fake_server->n_tasks - limit - 1 : 0;
		limit = 0;
	}
	for (size_t i = begin; i < fake_server->n_tasks; i++) {
		const Reeve__V1__Task *task = fake_server->tasks[i];
		Reeve__V1__AuditEvent *event = &events[response.n_events];

		if ((request->task_id && task->id != request->task_id) || task->created_us < request->since_us ||
		    (request->until_us && task->created_us >= request->until_us))
			continue;
		if (response.n_events == limit || response.n_events == EVENTS_A_PAGE) {
			snprintf(page, sizeof page, "%zu", i);
			response.next_page = page;
			response.more = true;
			break;
		}
		reeve__v1__audit_event__init(event);
		event->at_us = task->created_us;
		event->task_id = task->id;
		event->token = task->created_us;
		event->event = REEVE__V1__AUDIT_EVENT_KIND__AUDIT_EVENT_KIND_SUBMITTED;
		event->actor = (char *)rpc_call_actor(call);
		event->note = (char *)"by the test";
		response.events[response.n_events++] = event;
	}
	rpc_call_reply(call, &response.base);
	free(response.events);
	free(events);
	pthread_mutex_unlock(&fake_server->host.lock);
}
