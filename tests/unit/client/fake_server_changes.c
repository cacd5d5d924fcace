/* The fake manager's methods that change tasks: Cancel, Retry, Update. */
#include "tests/unit/client/fake_server_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Applies Cancel, Retry or Update to a task. Returns NULL if that changed it, otherwise the reason why not. */
static const char *change_task(Reeve__V1__Task *task, const char *method, const ProtobufCMessage *message)
{
	bool ended = task->status >= ENDED_FIRST;

	if (strcmp(method, "Cancel") == 0) {
		if (ended)
			return "it has ended";
		task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_CANCELLED;
		return NULL;
	}
	if (strcmp(method, "Retry") == 0) {
		task->status = REEVE__V1__TASK_STATUS__TASK_STATUS_QUEUED;
		return NULL;
	}
	const Reeve__V1__UpdateRequest *update = (const void *)message;
	if (ended)
		return "it has ended";
	if (update->priority)
		task->priority = update->priority->value;
	if (update->run_at_us)
		task->run_at_us = update->run_at_us;
	if (update->max_attempts)
		task->max_attempts = update->max_attempts;
	return NULL;
}

/* The three responses have the same fields with the same numbers, so that one of them serves for all on the wire. */
static void serve_change(struct fake_server *fake_server, struct rpc_call *call, const char *method, const int64_t *ids,
    size_t n_ids, const ProtobufCMessage *message)
{
	Reeve__V1__CancelResponse cancel = REEVE__V1__CANCEL_RESPONSE__INIT;
	Reeve__V1__RetryResponse retry = REEVE__V1__RETRY_RESPONSE__INIT;
	Reeve__V1__UpdateResponse update = REEVE__V1__UPDATE_RESPONSE__INIT;
	Reeve__V1__ChangedTask *changes = calloc(n_ids, sizeof *changes), **list = calloc(n_ids, sizeof(void *));
	int64_t *missing = calloc(n_ids, sizeof *missing);
	size_t n_list = 0, n_missing = 0;

	pthread_mutex_lock(&fake_server->host.lock);
	for (size_t i = 0; i < n_ids; i++) {
		Reeve__V1__Task *task = fake_server_find_task(fake_server, ids[i]);
		const char *note;

		if (!task) {
			missing[n_missing++] = ids[i];
			continue;
		}
		note = change_task(task, method, message);
		reeve__v1__changed_task__init(&changes[n_list]);
		changes[n_list].id = ids[i];
		changes[n_list].status = task->status;
		changes[n_list].changed = !note;
		if (note)
			changes[n_list].note = (char *)note;
		list[n_list] = &changes[n_list];
		n_list++;
	}
	cancel.n_tasks = retry.n_tasks = update.n_tasks = n_list;
	cancel.tasks = retry.tasks = update.tasks = list;
	cancel.n_not_found = retry.n_not_found = update.n_not_found = n_missing;
	cancel.not_found = retry.not_found = update.not_found = missing;
	if (n_list == 0)
		rpc_call_fail(call, STATUS(NOT_FOUND), "there is no task %lld", (long long)ids[0]);
	else
		rpc_call_reply(call, *method == 'C' ? &cancel.base : *method == 'R' ? &retry.base : &update.base);
	pthread_mutex_unlock(&fake_server->host.lock);
	free(changes);
	free(list);
	free(missing);
}

void fake_server_serve_cancel(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	struct fake_server *fake_server = service;
	const Reeve__V1__CancelRequest *request = (const void *)message;

	pthread_mutex_lock(&fake_server->host.lock);
	snprintf(fake_server->reason, sizeof fake_server->reason, "%s", request->reason);
	pthread_mutex_unlock(&fake_server->host.lock);
	serve_change(fake_server, call, "Cancel", request->ids, request->n_ids, message);
}

void fake_server_serve_retry(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__RetryRequest *request = (const void *)message;

	serve_change(service, call, "Retry", request->ids, request->n_ids, message);
}

void fake_server_serve_update(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__UpdateRequest *request = (const void *)message;

	serve_change(service, call, "Update", request->ids, request->n_ids, message);
}
