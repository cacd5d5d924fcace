/* Callbacks of batches: reading them. */
#include "client/lib/internal.h"

#include <reeve/v1/batch.pb-c.h>
#include <stdlib.h>

struct callbacks_result {
	struct reeve_callbacks callbacks;
	Reeve__V1__CallbacksResponse *response;
};

static void callback_from_message(struct reeve_callback *callback, const Reeve__V1__Callback *message)
{
	*callback = (struct reeve_callback){
	    .id = message->id,
	    .batch_id = message->batch_id,
	    .task_id = message->task_id,
	    .event = enum_word(&reeve__v1__callback_event__descriptor, message->event),
	    .url = message->url,
	    .state = enum_word(&reeve__v1__callback_state__descriptor, message->state),
	    .attempts = message->attempts,
	    .last_status = message->last_status,
	    .last_error = message->last_error,
	    .created_us = message->created_us,
	    .next_us = message->next_us,
	    .ended_us = message->ended_us,
	    .wire = message,
	};
}

struct reeve_callbacks *reeve_callbacks(
    struct reeve_client *client, const struct reeve_callback_filter *filter, struct reeve_failure *failure)
{
	Reeve__V1__CallbacksRequest request = REEVE__V1__CALLBACKS_REQUEST__INIT;
	Reeve__V1__CallbacksResponse *response;
	struct callbacks_result *result;

	request.batch_id = filter->batch_id;
	if (filter->state) {
		int state;

		if (!json_enum_number(&reeve__v1__callback_state__descriptor, filter->state, &state) || !state) {
			fail(failure, STATUS(INVALID_ARGUMENT), "state is \"%s\"; it must be waiting, delivered or given_up", filter->state);
			return NULL;
		}
		request.state = (Reeve__V1__CallbackState)state;
	}
	request.limit = filter->limit;
	request.before_id = filter->before_id;
	response = (Reeve__V1__CallbacksResponse *)client_call(
	    client, &reeve__v1__batch_service__descriptor, "Callbacks", &request.base, NULL, 0, failure);
	if (!response)
		return NULL;
	result = allocate(1, sizeof *result);
	result->response = response;
	result->callbacks.count = response->n_callbacks;
	result->callbacks.next_before_id = response->next_before_id;
	result->callbacks.callbacks = allocate(response->n_callbacks, sizeof *result->callbacks.callbacks);
	for (size_t i = 0; i < response->n_callbacks; i++)
		callback_from_message(&result->callbacks.callbacks[i], response->callbacks[i]);
	return &result->callbacks;
}

void reeve_callbacks_free(struct reeve_callbacks *callbacks)
{
	struct callbacks_result *result = (struct callbacks_result *)callbacks;

	if (!callbacks)
		return;
	reeve__v1__callbacks_response__free_unpacked(result->response, NULL);
	free(callbacks->callbacks);
	free(result);
}
