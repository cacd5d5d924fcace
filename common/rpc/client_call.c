/*
 * The states of a call: packed, waiting for a manager, sent, perhaps moved to another manager, answered or ended. The
 * thread that removes a call from `calls` delivers its answer, so `done` runs once.
 */
#include "common/rpc/client_internal.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/rpc/wire.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	DEFAULT_TIMEOUT_MS = 30000,
	PAUSE_MIN_MS = 50, /* before a call that was answered UNAVAILABLE is sent again */
	PAUSE_MAX_MS = 200,
};

static struct envelope_request envelope_of(const struct call *call)
{
	const struct rpc_client *client = call->client;

	return (struct envelope_request){
	    .method = {(const uint8_t *)call->name, call->name_length},
	    .token = {(const uint8_t *)call->token->text, call->token->length},
	    .actor = {(const uint8_t *)client->actor, strlen(client->actor)},
	    .body = {call->body, call->body_length},
	    .request_id = call->request_id,
	};
}

static void pack(struct call *call, const ProtobufCMessage *request)
{
	size_t length = protobuf_c_message_get_packed_size(request);
	struct envelope_request envelope;

	call->body = mem_realloc(call->body, length ? length : 1);
	call->body_length = protobuf_c_message_pack(request, call->body);
	call->token = atomic_load(&call->client->token);
	envelope = envelope_of(call);
	call->size = envelope_request_size(&envelope);
}

static void call_free(struct call *call)
{
	free(call->body);
	free(call->message);
	free(call);
}

struct call *call_create(struct rpc_client *client, const ProtobufCServiceDescriptor *service, const char *method,
    ProtobufCMessage *request, const struct rpc_call_options *options, rpc_done *done, void *arg)
{
	static const struct rpc_call_options defaults;
	size_t name_length = strlen(service->name) + strlen(method) + 2;
	struct call *call = mem_calloc(1, sizeof *call + name_length + 1);

	if (!options)
		options = &defaults;
	call->client = client;
	call->method = protobuf_c_service_descriptor_get_method_by_name(service, method);
	assert(call->method && call->method->input == request->descriptor);
	call->name_length = name_length;
	sprintf(call->name, "/%s/%s", service->name, method);
	call->deadline_ms = clock_monotonic_ms() + (options->timeout_ms > 0 ? options->timeout_ms : DEFAULT_TIMEOUT_MS);
	call->request = options->before_resend ? request : NULL;
	call->before_resend = options->before_resend;
	call->parks = options->parks;
	call->done = done;
	call->arg = arg;
	if (options->request_id) {
		call->has_request_id = true;
		memcpy(call->request_id, options->request_id, UUID_BYTES);
	}
	pack(call, request);
	return call;
}

void call_finish(struct call *call)
{
	struct rpc_client *client = call->client;

	call->done(call->arg, &call->answer);
	call_free(call);
	client_lock(client);
	client->n_unfinished--;
	if (client->closing)
		client_wake_control(client);
	client_unlock(client);
}

/* Removes the call from its manager. */
static void leave_manager(struct call *call)
{
	struct manager *manager = call->manager;

	HASH_DELETE(hh_sent, manager->sent, call);
	manager->quick_calls -= !call->parks;
	manager->bytes_open -= call->size;
}

/* Removes an ended call from `calls`, so that no other thread finds it. */
static void remove_call(struct call *call)
{
	struct rpc_client *client = call->client;

	HASH_DEL(client->calls, call);
	deadlines_remove(&client->timers, &call->timer);
	call->state = CALL_ENDED;
}

/* Passes an ended call, with its answer set, to the background thread. */
static void pass_to_control(struct call *call)
{
	remove_call(call);
	DL_APPEND(call->client->ended, call);
	client_wake_control(call->client);
}

void call_end(struct call *call, reeve_status code, const char *format, ...)
{
	va_list args;

	if (call->answer.code != STATUS(OK))
		return;
	call->answer.code = code;
	va_start(args, format);
	vsnprintf(call->answer.message, sizeof call->answer.message, format, args);
	va_end(args);
	if (call->state == CALL_PREPARING)
		return;
	if (call->state == CALL_WAITING)
		DL_DELETE(call->client->waiting, call);
	if (call->state == CALL_SENT)
		leave_manager(call);
	pass_to_control(call);
}

void call_expire(struct call *call)
{
	char absence[300];

	client_absence(call->client, absence, sizeof absence);
	if (!call->manager)
		call_end(call, STATUS(UNAVAILABLE), "no manager could be reached in time: %s", absence);
	else if (!call->message)
		call_end(call, STATUS(DEADLINE_EXCEEDED), "no answer from %s in time", call->manager->url);
	else
		call_end(call, STATUS(DEADLINE_EXCEEDED), "not done in time; the last answer: %s", call->message);
}

void call_wait(struct call *call)
{
	call->state = CALL_WAITING;
	DL_APPEND(call->client->waiting, call);
	client_wake_control(call->client);
}

static void pause_call(struct call *call, int64_t ms)
{
	struct rpc_client *client = call->client;

	call->state = CALL_PAUSED;
	call->wake_ms = clock_monotonic_ms() + ms;
	deadlines_set(&client->timers, &call->timer, call->wake_ms < call->deadline_ms ? call->wake_ms : call->deadline_ms);
	if (call->timer.at_ms < client->sleep_until_ms)
		client_wake_control(client);
}

/* Packs the call for sending or resending. */
static struct frame *prepare(struct call *call)
{
	struct rpc_client *client = call->client;
	struct envelope_request envelope;
	int64_t left;

	if (call->manager && call->before_resend) {
		call->before_resend(call->request, call->arg);
		pack(call, call->request);
	}
	if (!call->has_request_id) {
		client_lock(client);
		uuid7_make(client_now_ms(client), call->request_id);
		client_unlock(client);
		call->has_request_id = true;
	}
	call->token = atomic_load(&client->token);
	envelope = envelope_of(call);
	call->size = envelope_request_size(&envelope);
	left = call->deadline_ms - clock_monotonic_ms();
	envelope.deadline_ms = left < 1 ? 1 : left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
	return envelope_write_request(&envelope);
}

/* Queues a prepared call on the manager. Call with the lock held. Returns false if the call takes another path; the
 * caller then keeps the frame. */
static bool send_prepared(struct call *call, struct manager *manager, struct frame *frame)
{
	if (call->answer.code != STATUS(OK)) {
		pass_to_control(call);
		return false;
	}
	if (!manager_alive(manager)) {
		call_wait(call);
		return false;
	}
	if (manager->max_message && call->size > manager->max_message) {
		/* Sending it would close the connection, and fail all calls on it. */
		call->state = CALL_PAUSED;
		call_end(call, STATUS(INVALID_ARGUMENT),
		    "the call is %zu bytes long; the manager accepts at most %u (--max-message)", call->size,
		    manager->max_message);
		return false;
	}
	call->frame_id = manager_queue(manager, frame);
	HASH_ADD(hh_sent, manager->sent, frame_id, sizeof call->frame_id, call);
	call->state = CALL_SENT;
	if (!call->parks)
		manager_ping_now(manager);
	call->manager = manager;
	call->avoid = false;
	call->answer.sends++;
	manager->bytes_open += call->size;
	deadlines_set(&call->client->timers, &call->timer, call->deadline_ms);
	return true;
}

void call_send(struct call *call, struct manager *manager)
{
	struct rpc_client *client = call->client;
	struct frame *frame = prepare(call);
	bool queued;

	client_lock(client);
	queued = send_prepared(call, manager, frame);
	client_unlock(client);
	if (queued)
		manager_flush(manager);
	else
		free(frame);
}

bool call_answered(struct call *call, const struct envelope_reply *reply)
{
	struct rpc_client *client = call->client;

	leave_manager(call);
	if (reply->code == STATUS(UNAUTHENTICATED) && call->token != atomic_load(&client->token)) {
		call_wait(call);
		return false;
	}
	if (reply->code != STATUS(UNAVAILABLE)) {
		remove_call(call);
		return true;
	}
	free(call->message);
	call->message = mem_strndup((const char *)reply->message.bytes, reply->message.length);
	call->avoid = true;
	call->manager->ping_due_ms = 0; /* check whether it has lost its database */
	call->manager->stable_ms = clock_monotonic_ms() + STABLE_PINGS * client->ping_interval_ms;
	/* Later calls also go to another manager, if there is one. */
	if (client->current == call->manager)
		client->current = choice_make(client, call->manager);
	pause_call(call, PAUSE_MIN_MS + client_random(client, PAUSE_MAX_MS - PAUSE_MIN_MS));
	return false;
}

void call_move(struct call *call)
{
	leave_manager(call);
	call_wait(call);
}

void call_deliver(struct call *call, const struct envelope_reply *reply)
{
	struct rpc_answer *answer = &call->answer;
	struct reeve_error error;

	answer->code = (reeve_status)reply->code;
	if (answer->code == STATUS(OK)) {
		answer->response = wire_unpack(call->method->output, reply->body.bytes, reply->body.length, &error);
		if (!answer->response) {
			answer->code = STATUS(INTERNAL);
			snprintf(answer->message, sizeof answer->message, "the manager's answer is broken: %.400s", error.message);
		}
	} else {
		snprintf(answer->message, sizeof answer->message, "%.*s", (int)reply->message.length,
		    (const char *)reply->message.bytes);
	}
	call_finish(call);
}
