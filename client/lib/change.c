/* Cancel, Retry and Update: three calls whose answers have the same fields, in three messages. */
#include "client/lib/internal.h"

#include <stdlib.h>

struct changes_result {
	struct reeve_changes changes;
	ProtobufCMessage *response;
};

static bool count_fits(size_t count, struct reeve_failure *failure)
{
	if (count >= 1 && count <= REEVE_MAX_BATCH)
		return true;
	return fail(failure, STATUS(INVALID_ARGUMENT), "ids: 1 to %d may be given at once", REEVE_MAX_BATCH);
}

static struct reeve_changes *make_result(ProtobufCMessage *response, Reeve__V1__ChangedTask **tasks, size_t n_tasks,
    const int64_t *not_found, size_t n_not_found)
{
	struct changes_result *result = allocate(1, sizeof *result);

	result->response = response;
	result->changes.count = n_tasks;
	result->changes.changes = allocate(n_tasks, sizeof *result->changes.changes);
	for (size_t i = 0; i < n_tasks; i++) {
		result->changes.changes[i] = (struct reeve_change){
		    .id = tasks[i]->id,
		    .status = (enum reeve_task_status)tasks[i]->status,
		    .changed = tasks[i]->changed,
		    .note = tasks[i]->note,
		    .wire = tasks[i],
		};
	}
	result->changes.not_found = not_found;
	result->changes.n_not_found = n_not_found;
	return &result->changes;
}

void reeve_changes_free(struct reeve_changes *changes)
{
	struct changes_result *result = (struct changes_result *)changes;

	if (!changes)
		return;
	protobuf_c_message_free_unpacked(result->response, NULL);
	free(changes->changes);
	free(result);
}

struct reeve_changes *reeve_cancel(
    struct reeve_client *client, const int64_t *ids, size_t count, const char *reason, struct reeve_failure *failure)
{
	Reeve__V1__CancelRequest request = REEVE__V1__CANCEL_REQUEST__INIT;
	Reeve__V1__CancelResponse *response;

	if (!count_fits(count, failure))
		return NULL;
	request.n_ids = count;
	request.ids = (int64_t *)ids;
	if (reason)
		request.reason = (char *)reason;
	response = (Reeve__V1__CancelResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Cancel", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	return make_result(
	    &response->base, response->tasks, response->n_tasks, response->not_found, response->n_not_found);
}

struct reeve_changes *reeve_retry(
    struct reeve_client *client, const int64_t *ids, size_t count, struct reeve_failure *failure)
{
	Reeve__V1__RetryRequest request = REEVE__V1__RETRY_REQUEST__INIT;
	Reeve__V1__RetryResponse *response;

	if (!count_fits(count, failure))
		return NULL;
	request.n_ids = count;
	request.ids = (int64_t *)ids;
	response = (Reeve__V1__RetryResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Retry", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	return make_result(
	    &response->base, response->tasks, response->n_tasks, response->not_found, response->n_not_found);
}

struct reeve_changes *reeve_update(struct reeve_client *client, const int64_t *ids, size_t count,
    const struct reeve_update *update, struct reeve_failure *failure)
{
	Reeve__V1__UpdateRequest request = REEVE__V1__UPDATE_REQUEST__INIT;
	Reeve__V1__NewPriority priority = REEVE__V1__NEW_PRIORITY__INIT;
	Reeve__V1__UpdateResponse *response;

	if (!count_fits(count, failure))
		return NULL;
	request.n_ids = count;
	request.ids = (int64_t *)ids;
	if (update->set_priority) {
		priority.value = update->priority;
		request.priority = &priority;
	}
	request.run_at_us = update->run_at_us;
	request.max_attempts = update->max_attempts;
	response = (Reeve__V1__UpdateResponse *)client_call(
	    client, &reeve__v1__task_service__descriptor, "Update", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	return make_result(
	    &response->base, response->tasks, response->n_tasks, response->not_found, response->n_not_found);
}
