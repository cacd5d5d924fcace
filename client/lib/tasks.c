/* Reading and cancelling tasks. */
#include "client/lib/internal.h"

#include "common/mem.h"
#include "common/result_text.h"

#include <stdlib.h>
#include <string.h>

static const char *const status_names[] = {
    [TASK_STATUS(UNSPECIFIED)] = "",
    [TASK_STATUS(QUEUED)] = "queued",
    [TASK_STATUS(EXECUTING)] = "executing",
    [TASK_STATUS(FAILED)] = "failed",
    [TASK_STATUS(COMPLETED)] = "completed",
    [TASK_STATUS(DEAD)] = "dead",
    [TASK_STATUS(CANCELLED)] = "cancelled",
};

const char *reeve_task_status_name(Reeve__V1__TaskStatus status)
{
	return (unsigned)status < sizeof status_names / sizeof *status_names ? status_names[status] : "";
}

bool reeve_task_status_ended(Reeve__V1__TaskStatus status)
{
	return status == TASK_STATUS(COMPLETED) || status == TASK_STATUS(DEAD) || status == TASK_STATUS(CANCELLED);
}

Reeve__V1__Task *reeve_get(struct reeve_client *client, int64_t id, struct reeve_failure *failure)
{
	Reeve__V1__GetResponse *response = reeve_task_get(client, &(Reeve__V1__GetRequest){.id = id}, NULL, failure);
	Reeve__V1__Task *task = response ? response->task : NULL;

	if (response && !task)
		fail(failure, STATUS(INTERNAL), "the manager answered without the task");
	if (response)
		response->task = NULL;
	reeve_free(response);
	return task;
}

char *reeve_result_encode(const void *result, size_t length)
{
	char *text = result_encode(result, length);

	return text ? text : mem_strndup(result, length);
}

char *reeve_result_decode(const char *text, size_t *length)
{
	char *bytes = result_decode(text, length);

	if (bytes)
		return bytes;
	*length = strlen(text);
	return mem_strdup(text);
}

Reeve__V1__CancelResponse *reeve_cancel(
    struct reeve_client *client, const int64_t *ids, size_t count, const char *reason, struct reeve_failure *failure)
{
	Reeve__V1__CancelRequest request = {.n_ids = count, .ids = (int64_t *)ids, .reason = reason};

	if (count >= 1 && count <= REEVE_MAX_BATCH)
		return reeve_task_cancel(client, &request, NULL, failure);
	fail(failure, STATUS(INVALID_ARGUMENT), "ids: 1 to %d may be given at once", REEVE_MAX_BATCH);
	return NULL;
}
