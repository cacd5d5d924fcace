/*
 * Cancel, Discard, Retry and Update, for tasks selected by ids or by a filter. The answers of the four calls are different
 * messages with the same fields.
 */
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

_Static_assert(sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__DiscardResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__RetryResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__UpdateResponse),
    "the responses of changes have the same fields");

static struct reeve_changes *change(
    struct reeve_client *client, const char *method, ProtobufCMessage *request, struct reeve_failure *failure)
{
	ProtobufCMessage *message =
	    client_call(client, &reeve__v1__task_service__descriptor, method, request, NULL, 0, failure);
	const Reeve__V1__CancelResponse *response = (const Reeve__V1__CancelResponse *)message;
	struct changes_result *result;

	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = message;
	result->changes.count = response->n_tasks;
	result->changes.changes = allocate(response->n_tasks, sizeof *result->changes.changes);
	for (size_t i = 0; i < response->n_tasks; i++) {
		const Reeve__V1__ChangedTask *task = response->tasks[i];

		result->changes.changes[i] = (struct reeve_change){
		    .id = task->id,
		    .status = (enum reeve_task_status)task->status,
		    .changed = task->changed,
		    .note = task->note,
		    .wire = task,
		};
	}
	result->changes.not_found = response->not_found;
	result->changes.n_not_found = response->n_not_found;
	result->changes.next_after_id = response->next_after_id;
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

/* The tasks that a call selects. */
struct selection {
	const int64_t *ids;
	size_t count;
	const struct reeve_where *where; /* instead of ids */
	bool dry_run;
};

/* Fills in the fields of a request that select tasks; `room` must live as long as the request. */
#define SELECT(request, selection, room)                                                                               \
	do {                                                                                                           \
		(request)->ids = (int64_t *)(selection)->ids;                                                          \
		(request)->n_ids = (selection)->count;                                                                 \
		(request)->dry_run = (selection)->dry_run;                                                             \
		if ((selection)->where) {                                                                              \
			where_to_message(room, (selection)->where);                                                    \
			(request)->filter = &(room)->filter;                                                           \
		}                                                                                                      \
	} while (0)

static struct reeve_changes *cancel_tasks(struct reeve_client *client, const struct selection *selection, const char *reason,
    struct reeve_failure *failure)
{
	Reeve__V1__CancelRequest request = REEVE__V1__CANCEL_REQUEST__INIT;
	struct where_message room;

	SELECT(&request, selection, &room);
	if (reason)
		request.reason = reason;
	return change(client, "Cancel", &request.base, failure);
}

static struct reeve_changes *discard_tasks(struct reeve_client *client, const struct selection *selection, const char *reason,
    struct reeve_failure *failure)
{
	Reeve__V1__DiscardRequest request = REEVE__V1__DISCARD_REQUEST__INIT;
	struct where_message room;

	SELECT(&request, selection, &room);
	if (reason)
		request.reason = reason;
	return change(client, "Discard", &request.base, failure);
}

static struct reeve_changes *retry_tasks(struct reeve_client *client, const struct selection *selection, bool executing,
    struct reeve_failure *failure)
{
	Reeve__V1__RetryRequest request = REEVE__V1__RETRY_REQUEST__INIT;
	struct where_message room;

	SELECT(&request, selection, &room);
	request.executing = executing;
	return change(client, "Retry", &request.base, failure);
}

static struct reeve_changes *update_tasks(struct reeve_client *client, const struct selection *selection,
    const struct reeve_update *update, struct reeve_failure *failure)
{
	Reeve__V1__UpdateRequest request = REEVE__V1__UPDATE_REQUEST__INIT;
	Reeve__V1__NewPriority priority = REEVE__V1__NEW_PRIORITY__INIT;
	struct where_message room;

	SELECT(&request, selection, &room);
	if (update->set_priority) {
		priority.value = update->priority;
		request.priority = &priority;
	}
	request.run_at_us = update->run_at_us;
	request.max_attempts = update->max_attempts;
	return change(client, "Update", &request.base, failure);
}

struct reeve_changes *reeve_cancel(
    struct reeve_client *client, const int64_t *ids, size_t count, const char *reason, struct reeve_failure *failure)
{
	return count_fits(count, failure) ? cancel_tasks(client, &(struct selection){ids, count, NULL, false}, reason, failure)
	                                  : NULL;
}

struct reeve_changes *reeve_discard(
    struct reeve_client *client, const int64_t *ids, size_t count, const char *reason, struct reeve_failure *failure)
{
	return count_fits(count, failure) ? discard_tasks(client, &(struct selection){ids, count, NULL, false}, reason, failure)
	                                  : NULL;
}

struct reeve_changes *reeve_retry(
    struct reeve_client *client, const int64_t *ids, size_t count, struct reeve_failure *failure)
{
	return count_fits(count, failure) ? retry_tasks(client, &(struct selection){ids, count, NULL, false}, false, failure)
	                                  : NULL;
}

struct reeve_changes *reeve_restart(
    struct reeve_client *client, const int64_t *ids, size_t count, struct reeve_failure *failure)
{
	return count_fits(count, failure) ? retry_tasks(client, &(struct selection){ids, count, NULL, false}, true, failure)
	                                  : NULL;
}

struct reeve_changes *reeve_update(struct reeve_client *client, const int64_t *ids, size_t count,
    const struct reeve_update *update, struct reeve_failure *failure)
{
	return count_fits(count, failure)
	    ? update_tasks(client, &(struct selection){ids, count, NULL, false}, update, failure)
	    : NULL;
}

struct reeve_changes *reeve_cancel_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const char *reason, struct reeve_failure *failure)
{
	return cancel_tasks(client, &(struct selection){NULL, 0, where, dry_run}, reason, failure);
}

struct reeve_changes *reeve_discard_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const char *reason, struct reeve_failure *failure)
{
	return discard_tasks(client, &(struct selection){NULL, 0, where, dry_run}, reason, failure);
}

struct reeve_changes *reeve_retry_where(
    struct reeve_client *client, const struct reeve_where *where, bool dry_run, struct reeve_failure *failure)
{
	return retry_tasks(client, &(struct selection){NULL, 0, where, dry_run}, false, failure);
}

struct reeve_changes *reeve_update_where(struct reeve_client *client, const struct reeve_where *where, bool dry_run,
    const struct reeve_update *update, struct reeve_failure *failure)
{
	return update_tasks(client, &(struct selection){NULL, 0, where, dry_run}, update, failure);
}
