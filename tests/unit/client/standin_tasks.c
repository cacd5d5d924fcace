/* The fake manager's tasks, and how they are submitted. */
#include "tests/unit/client/standin_internal.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

static char *copy(const char *text)
{
	return *text ? strdup(text) : (char *)protobuf_c_empty_string;
}

Reeve__V1__Task *standin_find_task(struct standin *standin, int64_t id)
{
	return id >= 1 && (size_t)id <= standin->n_tasks ? standin->tasks[id - 1] : NULL;
}

void standin_end_task(Reeve__V1__Task *task, int status, const char *text)
{
	int64_t now = clock_wall_us();

	task->status = (Reeve__V1__TaskStatus)status;
	task->attempt = 1;
	task->first_started_us = task->started_us = now - 1000;
	task->finished_us = now;
	if (task->worker != protobuf_c_empty_string) /* it has ended before */
		free((char *)task->worker);
	task->worker = strdup("standin/1");
	if (status == (int)REEVE__V1__TASK_STATUS__TASK_STATUS_COMPLETED) {
		task->result = copy(text);
	} else {
		task->last_error = copy(text);
		task->error_code = strdup("exit:65");
	}
}

static Reeve__V1__Task *find_key(struct standin *standin, const Reeve__V1__TaskSpec *spec)
{
	for (size_t i = 0; i < standin->n_tasks && *spec->key; i++) {
		if (strcmp(standin->tasks[i]->key, spec->key) == 0)
			return standin->tasks[i];
	}
	return NULL;
}

static Reeve__V1__Task *make_task(struct standin *standin, const Reeve__V1__TaskSpec *spec)
{
	Reeve__V1__Task *task = malloc(sizeof *task);

	if (standin->n_tasks == standin->capacity) {
		standin->capacity = standin->capacity ? 2 * standin->capacity : 64;
		standin->tasks = realloc(standin->tasks, standin->capacity * sizeof(Reeve__V1__Task *));
	}
	reeve__v1__task__init(task);
	standin->tasks[standin->n_tasks++] = task;
	task->id = (int64_t)standin->n_tasks;
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
	if (standin->end_as)
		standin_end_task(task, standin->end_as, spec->details);
	return task;
}

static void answer_submit(struct standin *standin, struct rpc_call *call, const Reeve__V1__SubmitRequest *request)
{
	Reeve__V1__SubmitResponse response = REEVE__V1__SUBMIT_RESPONSE__INIT;
	Reeve__V1__SubmittedTask *answers = calloc(request->n_tasks, sizeof *answers);

	response.tasks = calloc(request->n_tasks, sizeof *response.tasks);
	for (size_t i = 0; i < request->n_tasks; i++) {
		Reeve__V1__Task *known = find_key(standin, request->tasks[i]);

		reeve__v1__submitted_task__init(&answers[i]);
		answers[i].existing = known != NULL;
		answers[i].id = known ? known->id : make_task(standin, request->tasks[i])->id;
		response.tasks[response.n_tasks++] = &answers[i];
	}
	rpc_call_reply(call, &response.base);
	free(response.tasks);
	free(answers);
}

void standin_serve_submit(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct standin *standin = service;
	const Reeve__V1__SubmitRequest *request = (const void *)message;

	pthread_mutex_lock(&standin->lock);
	if (standin->n_submits < STANDIN_SUBMITS) {
		struct standin_submit *submit = &standin->submits[standin->n_submits++];

		if (rpc_call_request_id(call))
			memcpy(submit->request_id, rpc_call_request_id(call), UUID_BYTES);
		submit->count = request->n_tasks;
	}
	for (size_t i = 0; i < request->n_tasks && *standin->poison; i++) {
		if (strcmp(request->tasks[i]->type, standin->poison) != 0)
			continue;
		rpc_call_fail(call, STATUS(PERMISSION_DENIED), "as the test wants it");
		pthread_mutex_unlock(&standin->lock);
		return;
	}
	if (standin->fail_after > 0) {
		standin->fail_after--;
	} else if (standin->fail_count > 0) {
		standin->fail_count--;
		rpc_call_fail(call, standin->fail_code, "as the test wants it");
		pthread_mutex_unlock(&standin->lock);
		return;
	}
	if (standin->hold == 0) {
		answer_submit(standin, call, request);
	} else {
		standin->held[standin->n_held++] = (struct held){call, request};
		for (int i = standin->n_held; standin->n_held == standin->hold && i-- > 0;) {
			answer_submit(standin, standin->held[i].call, standin->held[i].request);
			if (i == 0)
				standin->n_held = 0;
		}
	}
	pthread_mutex_unlock(&standin->lock);
}
