/* Queues: settings, status, actions. */
#include "client/lib/internal.h"

#include <stdio.h>
#include <stdlib.h>

static ProtobufCMessage *ask(
    struct reeve_client *client, const char *method, ProtobufCMessage *request, struct reeve_failure *failure)
{
	return client_call(client, &reeve__v1__queue_service__descriptor, method, request, NULL, 0, failure);
}

/* The fields' names, in the order of their bits. */
static const char *const field_names[] = {"retry_limit", "retry", "resting_ms", "waiting_ms", "autostart", "verbose",
    "batches", "callback_url", "callback_secret", "callback_tasks", "callback_type", "entry_type", "exit_type",
    "keep_completed_ms", "keep_dead_ms", "keep_cancelled_ms"};

enum { FIELDS = sizeof field_names / sizeof *field_names };

static void set(const char **field, const char *text)
{
	if (text)
		*field = text;
}

static bool is_default(const Reeve__V1__RetryPolicy *p)
{
	return !p->kind && !p->base_ms && !p->max_ms && !p->step_ms && p->exponent == 0 && !p->n_delays_ms && !p->jitter_percent;
}

static void settings_to_message(
    Reeve__V1__QueueSettings *message, Reeve__V1__RetryPolicy *retry, const struct reeve_queue_settings *settings)
{
	reeve__v1__queue_settings__init(message);
	message->retry_limit = settings->retry_limit;
	if (!is_default(&settings->retry)) {
		*retry = settings->retry;
		message->retry = retry;
	}
	message->resting_ms = settings->resting_ms;
	message->waiting_ms = settings->waiting_ms;
	message->autostart = settings->autostart;
	message->verbose = settings->verbose;
	message->batches = settings->batches;
	set(&message->callback_url, settings->callback_url);
	set(&message->callback_secret, settings->callback_secret);
	message->callback_tasks = settings->callback_tasks;
	set(&message->callback_type, settings->callback_type);
	set(&message->entry_type, settings->entry_type);
	set(&message->exit_type, settings->exit_type);
	message->keep_completed_ms = settings->keep_completed_ms;
	message->keep_dead_ms = settings->keep_dead_ms;
	message->keep_cancelled_ms = settings->keep_cancelled_ms;
}

static void settings_from_message(struct reeve_queue_settings *settings, const Reeve__V1__QueueSettings *message)
{
	*settings = (struct reeve_queue_settings){
	    .retry_limit = message->retry_limit,
	    .resting_ms = message->resting_ms,
	    .waiting_ms = message->waiting_ms,
	    .autostart = message->autostart,
	    .verbose = message->verbose,
	    .batches = message->batches,
	    .callback_url = message->callback_url,
	    .callback_secret = message->callback_secret,
	    .callback_tasks = message->callback_tasks,
	    .callback_type = message->callback_type,
	    .entry_type = message->entry_type,
	    .exit_type = message->exit_type,
	    .keep_completed_ms = message->keep_completed_ms,
	    .keep_dead_ms = message->keep_dead_ms,
	    .keep_cancelled_ms = message->keep_cancelled_ms,
	};
	if (message->retry)
		settings->retry = *message->retry;
}

bool reeve_queue_set(struct reeve_client *client, const char *queue, const struct reeve_queue_settings *settings,
    unsigned fields, struct reeve_failure *failure)
{
	Reeve__V1__SetQueueRequest request = REEVE__V1__SET_QUEUE_REQUEST__INIT;
	Reeve__V1__QueueSettings message;
	Reeve__V1__RetryPolicy retry;
	ProtobufCMessage *response;
	const char *names[FIELDS];

	settings_to_message(&message, &retry, settings);
	set(&request.queue, queue);
	request.settings = &message;
	request.fields = names;
	for (int i = 0; i < FIELDS; i++)
		if (fields & 1U << i)
			names[request.n_fields++] = field_names[i];
	response = ask(client, "Set", &request.base, failure);
	if (!response)
		return false;
	protobuf_c_message_free_unpacked(response, NULL);
	return true;
}

struct description_result {
	struct reeve_queue_description description;
	Reeve__V1__DescribeQueueResponse *response;
};

struct reeve_queue_description *reeve_queue_describe(
    struct reeve_client *client, const char *queue, struct reeve_failure *failure)
{
	Reeve__V1__DescribeQueueRequest request = REEVE__V1__DESCRIBE_QUEUE_REQUEST__INIT;
	Reeve__V1__DescribeQueueResponse *response;
	struct description_result *result;

	set(&request.queue, queue);
	response = (Reeve__V1__DescribeQueueResponse *)ask(client, "Describe", &request.base, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->description = (struct reeve_queue_description){
	    .queue = response->queue,
	    .is_set = response->is_set,
	    .has_secret = response->has_secret,
	    .state = enum_word(&reeve__v1__queue_state__descriptor, response->state),
	    .created_us = response->created_us,
	    .updated_us = response->updated_us,
	    .wire = response,
	};
	if (response->settings)
		settings_from_message(&result->description.settings, response->settings);
	return &result->description;
}

void reeve_queue_description_free(struct reeve_queue_description *description)
{
	struct description_result *result = (struct description_result *)description;

	if (!description)
		return;
	reeve__v1__describe_queue_response__free_unpacked(result->response, NULL);
	free(result);
}

struct status_result {
	struct reeve_queue_status status;
	struct reeve_batch batch;
	Reeve__V1__QueueStatusResponse *response;
};

struct reeve_queue_status *reeve_queue_status(
    struct reeve_client *client, const char *queue, struct reeve_failure *failure)
{
	Reeve__V1__QueueStatusRequest request = REEVE__V1__QUEUE_STATUS_REQUEST__INIT;
	Reeve__V1__QueueStatusResponse *response;
	struct status_result *result;

	set(&request.queue, queue);
	response = (Reeve__V1__QueueStatusResponse *)ask(client, "Status", &request.base, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->status = (struct reeve_queue_status){
	    .queue = response->queue,
	    .state = enum_word(&reeve__v1__queue_state__descriptor, response->state),
	    .since_us = response->since_us,
	    .waiting = response->waiting,
	    .running = response->running,
	    .finished = response->finished,
	    .open_batches = response->open_batches,
	    .n_workers = response->n_workers,
	    .workers = allocate(response->n_workers, sizeof *result->status.workers),
	    .more_workers = response->more_workers,
	    .wire = response,
	};
	if (response->batch) {
		batch_from_message(&result->batch, response->batch);
		result->status.batch = &result->batch;
	}
	for (size_t i = 0; i < response->n_workers; i++)
		worker_from_message(&result->status.workers[i], response->workers[i]);
	return &result->status;
}

void reeve_queue_status_free(struct reeve_queue_status *status)
{
	struct status_result *result = (struct status_result *)status;

	if (!status)
		return;
	reeve__v1__queue_status_response__free_unpacked(result->response, NULL);
	free(status->workers);
	free(result);
}

bool reeve_queue_control(struct reeve_client *client, const char *queue, enum reeve_queue_action action,
    struct reeve_queue_controlled *controlled, struct reeve_failure *failure)
{
	Reeve__V1__ControlQueueRequest request = REEVE__V1__CONTROL_QUEUE_REQUEST__INIT;
	Reeve__V1__ControlQueueResponse *response;

	set(&request.queue, queue);
	request.action = (Reeve__V1__QueueAction)action;
	response = (Reeve__V1__ControlQueueResponse *)ask(client, "Control", &request.base, failure);
	if (!response)
		return false;
	if (controlled) {
		*controlled = (struct reeve_queue_controlled){.tasks = response->tasks};
		snprintf(controlled->state, sizeof controlled->state, "%s", enum_word(&reeve__v1__queue_state__descriptor, response->state));
	}
	reeve__v1__control_queue_response__free_unpacked(response, NULL);
	return true;
}
