/* The fake manager's tasks, and how they are submitted. */
#include "tests/unit/client/fake_server_internal.h"

#include "common/clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *copy(const char *text)
{
	return *text ? strdup(text) : (char *)protobuf_c_empty_string;
}

Reeve__V1__Task *fake_server_find_task(struct fake_server *fake_server, int64_t id)
{
	return id >= 1 && (size_t)id <= fake_server->n_tasks ? fake_server->tasks[id - 1] : NULL;
}

void fake_server_end_task(Reeve__V1__Task *task, int status, const char *text)
{
	int64_t now = clock_wall_us();

	task->status = (Reeve__V1__TaskStatus)status;
	task->attempt = 1;
	task->first_started_us = task->started_us = now - 1000;
	task->ended_us = now;
	if (task->worker != protobuf_c_empty_string) /* it has ended before */
		free((char *)task->worker);
	task->worker = strdup("fake/1");
	if (status == (int)REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED) {
		task->result = copy(text);
	} else {
		task->last_error = copy(text);
		task->error_code = strdup("exit:65");
	}
}

static Reeve__V1__Task *find_key(struct fake_server *fake_server, const Reeve__V1__TaskSpec *spec)
{
	for (size_t i = 0; i < fake_server->n_tasks && *spec->key; i++) {
		if (strcmp(fake_server->tasks[i]->key, spec->key) == 0)
			return fake_server->tasks[i];
	}
	return NULL;
}

static Reeve__V1__Task *make_task(struct fake_server *fake_server, const Reeve__V1__TaskSpec *spec)
{
	Reeve__V1__Task *task = malloc(sizeof *task);

	if (fake_server->n_tasks == fake_server->capacity) {
		fake_server->capacity = fake_server->capacity ? 2 * fake_server->capacity : 64;
		fake_server->tasks = realloc(fake_server->tasks, fake_server->capacity * sizeof(Reeve__V1__Task *));
	}
	reeve__v1__task__init(task);
	fake_server->tasks[fake_server->n_tasks++] = task;
	task->id = (int64_t)fake_server->n_tasks;
	task->queue = strdup(*spec->queue ? spec->queue : "default");
	task->type = strdup(spec->type);
	task->key = copy(spec->key);
	task->source = copy(spec->source);
	task->details = copy(spec->details);
	task->priority = spec->priority;
	task->max_attempts = spec->max_attempts ? spec->max_attempts : 5;
	task->timeout_ms = spec->timeout_ms ? spec->timeout_ms : 60000;
	task->created_us = clock_wall_us();
	task->run_at_us = spec->run_at_us ? spec->run_at_us : task->created_us + spec->delay_ms * 1000;
	task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED;
	if (fake_server->end_as)
		fake_server_end_task(task, fake_server->end_as, spec->details);
	return task;
}

static void answer_submit(
    struct fake_server *fake_server, struct rpc_call *call, const Reeve__V1__SubmitRequest *request)
{
	Reeve__V1__SubmitResponse response = REEVE__V1__SUBMIT_RESPONSE__INIT;
	Reeve__V1__SubmittedTask *answers = calloc(request->n_tasks, sizeof *answers);

	response.tasks = calloc(request->n_tasks, sizeof *response.tasks);
	for (size_t i = 0; i < request->n_tasks; i++) {
		Reeve__V1__Task *known = find_key(fake_server, request->tasks[i]);

		reeve__v1__submitted_task__init(&answers[i]);
		answers[i].existing = known != NULL;
		answers[i].id = known ? known->id : make_task(fake_server, request->tasks[i])->id;
		response.tasks[response.n_tasks++] = &answers[i];
	}
	rpc_call_reply(call, &response.base);
	free(response.tasks);
	free(answers);
}

/* Answers at once, whatever wait_ms is. */
void fake_server_serve_submit_and_wait(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	const Reeve__V1__SubmitAndWaitRequest *request = (const void *)message;
	Reeve__V1__SubmitAndWaitResponse response = REEVE__V1__SUBMIT_AND_WAIT_RESPONSE__INIT;
	Reeve__V1__SubmittedTask *answers = calloc(request->n_tasks, sizeof *answers);

	response.tasks = calloc(request->n_tasks, sizeof *response.tasks);
	response.ended = calloc(request->n_tasks, sizeof *response.ended);
	pthread_mutex_lock(&fake_server->host.lock);
	for (size_t i = 0; i < request->n_tasks; i++) {
		Reeve__V1__Task *task = make_task(fake_server, request->tasks[i]);

		reeve__v1__submitted_task__init(&answers[i]);
		answers[i].id = task->id;
		response.tasks[response.n_tasks++] = &answers[i];
		if (task->ended_us)
			response.ended[response.n_ended++] = task;
		else
			response.pending++;
	}
	rpc_call_reply(call, &response.base);
	pthread_mutex_unlock(&fake_server->host.lock);
	free(response.tasks);
	free(response.ended);
	free(answers);
}

void fake_server_serve_submit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	const Reeve__V1__SubmitRequest *request = (const void *)message;

	pthread_mutex_lock(&fake_server->host.lock);
	if (fake_server->n_submits < FAKE_SERVER_SUBMITS) {
		struct fake_server_submit *submit = &fake_server->submits[fake_server->n_submits++];

		if (rpc_call_request_id(call))
			memcpy(submit->request_id, rpc_call_request_id(call), UUID_BYTES);
		submit->count = request->n_tasks;
	}
	for (size_t i = 0; i < request->n_tasks && *fake_server->poison; i++) {
		if (strcmp(request->tasks[i]->type, fake_server->poison) != 0)
			continue;
		rpc_call_fail(call, STATUS(PERMISSION_DENIED), "as the test wants it");
		pthread_mutex_unlock(&fake_server->host.lock);
		return;
	}
	if (fake_server->fail_after > 0) {
		fake_server->fail_after--;
	} else if (fake_server->fail_count > 0) {
		fake_server->fail_count--;
		rpc_call_fail(call, fake_server->fail_code, "as the test wants it");
		pthread_mutex_unlock(&fake_server->host.lock);
		return;
	}
	if (fake_server->hold == 0) {
		answer_submit(fake_server, call, request);
	} else {
		fake_server->held[fake_server->n_held++] = (struct held){call, request};
		for (int i = fake_server->n_held; fake_server->n_held == fake_server->hold && i-- > 0;) {
			answer_submit(fake_server, fake_server->held[i].call, fake_server->held[i].request);
			if (i == 0)
				fake_server->n_held = 0;
		}
	}
	pthread_mutex_unlock(&fake_server->host.lock);
}
