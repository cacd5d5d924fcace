/*
 * Calls in flight. Each is in the client's list from its start to its end, so that an interrupt can cancel it. The RPC
 * client's thread stores the answer in the call and signals the call's own condition.
 */
#include "client/lib/internal.h"

#include "common/clock.h"
#include "common/json.h"
#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <utlist.h>

enum {
	REFUSED_MS = 2000,
	WAITING_MS = 1000, /* how long it takes until the program is notified */
	LAST_TRY_MS = 250, /* with less time than this a refused call is not tried again: the outcome might stay unknown */
};

static void take_answer(void *arg, struct rpc_answer *answer)
{
	struct pending_call *call = arg;
	struct reeve_client *client = call->client;

	pthread_mutex_lock(&client->lock);
	call->answer = *answer;
	call->done = true;
	/* Signal with the lock held: once it is released, the waiting thread may free the call. */
	pthread_cond_signal(&call->changed);
	pthread_mutex_unlock(&client->lock);
}

void pending_start(struct pending_call *call, struct reeve_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const uint8_t *request_id, int64_t timeout_ms)
{
	struct rpc_call_options options = {.timeout_ms = timeout_ms, .request_id = request_id};
	pthread_condattr_t monotonic;
	rpc_call_id id;

	memset(call, 0, sizeof *call);
	call->client = client;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&call->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	id = rpc_client_start(client->rpc, service, method, request, &options, take_answer, call);

	pthread_mutex_lock(&client->lock);
	call->id = id;
	DL_APPEND(client->calls, call);
	bool interrupted = client->interrupted;
	pthread_mutex_unlock(&client->lock);
	if (interrupted)
		rpc_client_cancel(client->rpc, id);
}

/* Waits up to POLL_MS for the answer. Call with the lock held. Returns 0 if the call was signalled. */
static int wait_a_moment(struct pending_call *call)
{
	int64_t until_ms = clock_monotonic_ms() + POLL_MS;
	struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

	return pthread_cond_timedwait(&call->changed, &call->client->lock, &until);
}

/* Notifies the program if the call has waited too long for a manager that cannot answer. */
static void check_call(struct pending_call *call)
{
	struct reeve_client *client = call->client;
	int64_t now_ms = clock_monotonic_ms();
	char message[300];
	bool notify;

	if (!client->waiting || !rpc_client_obstacle(client->rpc, call->id, message, sizeof message))
		return;
	pthread_mutex_lock(&client->lock);
	if (!client->waiting_ms)
		client->waiting_ms = now_ms;
	notify = !client->waiting_notified && now_ms - client->waiting_ms >= WAITING_MS;
	client->waiting_notified |= notify;
	pthread_mutex_unlock(&client->lock);
	if (notify)
		client->waiting(client->absent_arg, message);
}

/* Checks whether a manager is reachable and what keeps the call. Call with the lock held; it is released in between. */
static void check_calls(struct pending_call *call)
{
	struct reeve_client *client = call->client;

	pthread_mutex_unlock(&client->lock);
	client_poll(client, rpc_client_alive(client->rpc, 0));
	check_call(call);
	pthread_mutex_lock(&client->lock);
}

struct rpc_answer pending_end(struct pending_call *call)
{
	struct reeve_client *client = call->client;

	pthread_mutex_lock(&client->lock);
	while (!call->done) {
		if (!client->absent && !client->waiting)
			pthread_cond_wait(&call->changed, &client->lock);
		else if (wait_a_moment(call) != 0)
			check_calls(call);
	}
	client->waiting_ms = 0;
	client->waiting_notified = false;
	DL_DELETE(client->calls, call);
	bool interrupted = client->interrupted;
	pthread_mutex_unlock(&client->lock);
	pthread_cond_destroy(&call->changed);
	if (interrupted && call->answer.code == STATUS(CANCELLED))
		strcpy(call->answer.message, "interrupted");
	return call->answer;
}

void reeve_client_interrupt(struct reeve_client *client)
{
	struct pending_call *call;
	rpc_call_id *ids;
	size_t count, i = 0;

	pthread_mutex_lock(&client->lock);
	client->interrupted = true;
	pthread_cond_broadcast(&client->interrupt);
	DL_COUNT(client->calls, call, count);
	ids = mem_calloc(count, sizeof *ids);
	DL_FOREACH (client->calls, call)
		ids[i++] = call->id;
	pthread_mutex_unlock(&client->lock);

	/* Without the lock, which the answers take. Ids are never reused: cancelling a call that has ended is harmless. */
	for (i = 0; i < count; i++)
		rpc_client_cancel(client->rpc, ids[i]);
	free(ids);
}

bool worth_another_try(struct reeve_client *client, const struct rpc_answer *answer)
{
	bool refused = answer->code == STATUS(RESOURCE_EXHAUSTED) || answer->code == STATUS(ABORTED);
	int64_t now_ms = clock_monotonic_ms();
	bool notify;

	pthread_mutex_lock(&client->lock);
	if (!refused || !client->refused_ms)
		client->refused_ms = refused ? now_ms : 0;
	notify = refused && !client->refused_notified && now_ms - client->refused_ms >= REFUSED_MS;
	client->refused_notified = refused && (client->refused_notified || notify);
	pthread_mutex_unlock(&client->lock);
	if (notify && client->refused)
		client->refused(client->absent_arg, answer->message);
	return refused;
}

int64_t retry_pause_ms(int tries)
{
	int64_t longest = INT64_C(25) << (tries < 6 ? tries : 6);
	uint16_t random = 0;

	if (getrandom(&random, sizeof random, 0) != sizeof random)
		random = 0;
	return longest / 2 + longest * random / 65536 / 2;
}

bool client_pause(struct reeve_client *client, int64_t ms)
{
	int64_t until_us = clock_monotonic_us() + ms * 1000;
	struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
	int over = 0;

	pthread_mutex_lock(&client->lock);
	while (!client->interrupted && !over)
		over = pthread_cond_timedwait(&client->interrupt, &client->lock, &until);
	bool interrupted = client->interrupted;
	pthread_mutex_unlock(&client->lock);
	return !interrupted;
}

ProtobufCMessage *client_call(struct reeve_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const uint8_t *request_id, int64_t timeout_ms,
    struct reeve_failure *failure)
{
	int64_t budget = timeout_ms ? timeout_ms : client->call_timeout_ms;
	uint8_t own_id[UUID_BYTES];
	struct rpc_answer answer;
	char refusal[sizeof answer.message] = "";
	int64_t end;

	message_complete(request, protobuf_c_service_descriptor_get_method_by_name(service, method)->input);
	if (!reeve_client_ready(client, failure))
		return NULL;
	if (!request_id) {
		uuid7_make(rpc_client_now_ms(client->rpc), own_id);
		request_id = own_id;
	}
	end = clock_monotonic_ms() + budget;
	for (int tries = 0;; tries++) {
		int64_t left = end - clock_monotonic_ms();
		int64_t pause = retry_pause_ms(tries);
		struct pending_call call;

		pending_start(&call, client, service, method, request, request_id, left > 1 ? left : 1);
		answer = pending_end(&call);
		bool again = worth_another_try(client, &answer);
		if (answer.code == STATUS(OK))
			return answer.response;
		if (!again || pause + LAST_TRY_MS >= end - clock_monotonic_ms())
			break;
		snprintf(refusal, sizeof refusal, "%s", answer.message);
		if (!client_pause(client, pause)) {
			fail(failure, STATUS(CANCELLED), "interrupted");
			return NULL;
		}
	}
	if (answer.code == STATUS(DEADLINE_EXCEEDED) && *refusal)
		fail(failure, answer.code, "%s; before that it was refused: %s", answer.message, refusal);
	else
		fail(failure, answer.code, "%s", answer.message);
	return NULL;
}

void message_complete(void *message, const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *base = message;

	if (!base->descriptor)
		base->descriptor = descriptor;
	for (unsigned i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		char *at = (char *)message + field->offset;

		if (field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (field->label != PROTOBUF_C_LABEL_REPEATED) {
			if (*(void **)at)
				message_complete(*(void **)at, field->descriptor);
			continue;
		}
		for (size_t j = 0; j < *(size_t *)((char *)message + field->quantifier_offset); j++)
			message_complete((*(void ***)at)[j], field->descriptor);
	}
}

ProtobufCMessage *reeve_call(struct reeve_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    void *request, const struct reeve_call_options *options, struct reeve_failure *failure)
{
	static const struct reeve_call_options defaults;

	if (!protobuf_c_service_descriptor_get_method_by_name(service, method)) {
		fail(failure, STATUS(INVALID_ARGUMENT), "%s has no method %s", service->name, method);
		return NULL;
	}
	if (!options)
		options = &defaults;
	return client_call(client, service, method, request, options->request_id, options->timeout_ms, failure);
}

void reeve_free(void *answer)
{
	protobuf_c_message_free_unpacked(answer, NULL);
}

char *reeve_json(const void *message)
{
	json_t *object = json_from_message(message);
	char *text = json_dumps(object, JSON_COMPACT);

	json_decref(object);
	mem_check(text != NULL);
	return text;
}
