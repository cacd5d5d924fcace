/* Batches: opening, closing, listing, reporting. */
#include "client/lib/internal.h"

#include <stdlib.h>

static ProtobufCMessage *ask(struct reeve_client *client, const char *method, ProtobufCMessage *request,
    const uint8_t *request_id, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__batch_service__descriptor, method, request, request_id, 0, failure);
}

void batch_from_message(struct reeve_batch *batch, const Reeve__V1__Batch *message)
{
	*batch = (struct reeve_batch){
	    .id = message->id,
	    .name = message->name,
	    .queue = message->queue,
	    .implicit = message->implicit,
	    .state = enum_word(&reeve__v1__batch_state__descriptor, message->state),
	    .phase = enum_word(&reeve__v1__batch_phase__descriptor, message->phase),
	    .submitted = message->submitted,
	    .pending = message->pending,
	    .succeeded = message->succeeded,
	    .failed = message->failed,
	    .created_us = message->created_us,
	    .started_us = message->started_us,
	    .closed_us = message->closed_us,
	    .ended_us = message->ended_us,
	    .duration_ms = message->duration_ms,
	    .remaining_ms = message->remaining_ms,
	    .entry_id = message->entry_id,
	    .exit_id = message->exit_id,
	    .entry_status = enum_word(&reeve__v1__task_status__descriptor, message->entry_status),
	    .exit_status = enum_word(&reeve__v1__task_status__descriptor, message->exit_status),
	    .source = message->source,
	    .callbacks_waiting = message->callbacks_waiting,
	    .callbacks_given_up = message->callbacks_given_up,
	    .wire = message,
	};
	if (message->first_waiting)
		batch->first_waiting = (struct reeve_waiting_task){
		    .id = message->first_waiting->id,
		    .run_at_us = message->first_waiting->run_at_us,
		    .attempt = message->first_waiting->attempt,
		    .waiting = waiting_from_message(message->first_waiting->waiting),
		};
}

static void set(const char **field, const char *text)
{
	if (text)
		*field = text;
}

bool reeve_batch_open(struct reeve_client *client, const struct reeve_batch_spec *spec, const uint8_t *request_id,
    int64_t *id, struct reeve_failure *failure)
{
	Reeve__V1__OpenBatchRequest request = REEVE__V1__OPEN_BATCH_REQUEST__INIT;
	Reeve__V1__OpenBatchResponse *response;

	set(&request.name, spec->name);
	set(&request.queue, spec->queue);
	set(&request.callback_url, spec->callback_url);
	set(&request.callback_secret, spec->callback_secret);
	set(&request.callback_type, spec->callback_type);
	set(&request.entry_type, spec->entry_type);
	set(&request.exit_type, spec->exit_type);
	request.callback_tasks = spec->callback_tasks;
	response = (Reeve__V1__OpenBatchResponse *)ask(client, "Open", &request.base, request_id, failure);
	if (!response)
		return false;
	*id = response->id;
	reeve__v1__open_batch_response__free_unpacked(response, NULL);
	return true;
}

struct batch_result {
	struct reeve_batch batch;
	Reeve__V1__CloseBatchResponse *response;
};

struct reeve_batch *reeve_batch_close(struct reeve_client *client, int64_t id, struct reeve_failure *failure)
{
	Reeve__V1__CloseBatchRequest request = REEVE__V1__CLOSE_BATCH_REQUEST__INIT;
	Reeve__V1__CloseBatchResponse *response;
	struct batch_result *result;

	request.id = id;
	response = (Reeve__V1__CloseBatchResponse *)ask(client, "Close", &request.base, NULL, failure);
	if (!response)
		return NULL;
	if (!response->batch) {
		fail(failure, STATUS(INTERNAL), "the manager answered without the batch");
		reeve__v1__close_batch_response__free_unpacked(response, NULL);
		return NULL;
	}
	result = allocate(1, sizeof *result);
	result->response = response;
	batch_from_message(&result->batch, response->batch);
	return &result->batch;
}

void reeve_batch_free(struct reeve_batch *batch)
{
	struct batch_result *result = (struct batch_result *)batch;

	if (!batch)
		return;
	reeve__v1__close_batch_response__free_unpacked(result->response, NULL);
	free(result);
}

struct batches_result {
	struct reeve_batches batches;
	Reeve__V1__ListBatchesResponse *response;
};

struct reeve_batches *reeve_batch_list(
    struct reeve_client *client, const struct reeve_batch_filter *filter, struct reeve_failure *failure)
{
	Reeve__V1__ListBatchesRequest request = REEVE__V1__LIST_BATCHES_REQUEST__INIT;
	Reeve__V1__ListBatchesResponse *response;
	struct batches_result *result;

	set(&request.queue, filter->queue);
	request.open_only = filter->open_only;
	request.limit = filter->limit;
	request.before_id = filter->before_id;
	response = (Reeve__V1__ListBatchesResponse *)ask(client, "List", &request.base, NULL, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->batches.count = response->n_batches;
	result->batches.next_before_id = response->next_before_id;
	result->batches.batches = allocate(response->n_batches, sizeof *result->batches.batches);
	for (size_t i = 0; i < response->n_batches; i++)
		batch_from_message(&result->batches.batches[i], response->batches[i]);
	return &result->batches;
}

void reeve_batches_free(struct reeve_batches *batches)
{
	struct batches_result *result = (struct batches_result *)batches;

	if (!batches)
		return;
	reeve__v1__list_batches_response__free_unpacked(result->response, NULL);
	free(batches->batches);
	free(result);
}

struct report_result {
	struct reeve_batch_report report;
	Reeve__V1__BatchReportResponse *response;
};

struct reeve_batch_report *reeve_batch_report(struct reeve_client *client, int64_t id, int64_t after_id, uint32_t limit,
    struct reeve_failure *failure)
{
	Reeve__V1__BatchReportRequest request = REEVE__V1__BATCH_REPORT_REQUEST__INIT;
	Reeve__V1__BatchReportResponse *response;
	struct report_result *result;

	request.id = id;
	request.after_id = after_id;
	request.limit = limit;
	response = (Reeve__V1__BatchReportResponse *)ask(client, "Report", &request.base, NULL, failure);
	if (!response)
		return NULL;
	if (!response->batch) {
		fail(failure, STATUS(INTERNAL), "the manager answered without the batch");
		reeve__v1__batch_report_response__free_unpacked(response, NULL);
		return NULL;
	}
	result = allocate(1, sizeof *result);
	result->response = response;
	batch_from_message(&result->report.batch, response->batch);
	result->report.more = response->more;
	result->report.count = response->n_tasks;
	result->report.tasks = allocate(response->n_tasks, sizeof *result->report.tasks);
	for (size_t i = 0; i < response->n_tasks; i++) {
		task_from_message(&result->report.tasks[i], response->tasks[i]);
		leave_out(&response->tasks[i]->details);
		leave_out(&response->tasks[i]->result);
		leave_out(&response->tasks[i]->stack_trace);
	}
	return &result->report;
}

void reeve_batch_report_free(struct reeve_batch_report *report)
{
	struct report_result *result = (struct report_result *)report;

	if (!report)
		return;
	reeve__v1__batch_report_response__free_unpacked(result->response, NULL);
	free(report->tasks);
	free(result);
}
