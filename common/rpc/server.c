/*
 * Calls, from the frame of a request through the service's method to the reply. Listeners are in server_listen.c,
 * connections in server_peers.c.
 */
#include "common/rpc/server_internal.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rpc/wire.h"
#include "common/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	DEFAULT_MESSAGE_BYTES = 8 << 20,
	DEFAULT_OPEN_CALLS = 20000,
	DEFAULT_CONNECTIONS = 10000,
	DEFAULT_QUIET_MS = 300000, /* Reeve's clients send more often */
	SWEEP_MS = 1000,
	TOKEN_MAX_BYTES = 4096,
	MEMORY_MESSAGES = 4,     /* maximum memory of an unpacked message: this many longest messages */
	MEMORY_PARTS = 16 << 20, /* plus this many bytes */
	BUDGET_MESSAGES =
	    32, /* memory for unprocessed messages, and as much for unread answers: this many longest messages */
	BUDGET_MIN = 64 << 20, /* the minimum of that memory */
	IDLE_PINGS_A_SECOND = 1000,
	IDLE_PING_MAX_MS = 15000,
};

/* Sends a call's reply, if it has one, and frees the call. */
static void finish(struct rpc_call *call, struct frame *reply)
{
	struct peer *peer = call->peer;

	share_leave(call);
	nest_fail(call, STATUS(UNAVAILABLE), "the manager has no answer; try again"); /* it was dropped */
	guesses_forget(call);
	DL_DELETE(call->server->open, call);
	if (peer->walk == call) /* perhaps only since nest_fail has ended the call before it */
		peer->walk = call->next_of_peer;
	DL_DELETE2(peer->calls, call, prev_of_peer, next_of_peer);
	limits_leave(call);
	guard_forget_call(call);
	expire_remove(call);
	if (reply)
		peers_reply(peer, reply);
	arena_clear(&call->arena);
	free(call->traceparent);
	free(call->key);
	free(call);
	peers_release(peer);
}

void server_drop_call(struct rpc_call *call)
{
	finish(call, NULL);
}

/* Counts and logs a refused call. A caller that was turned away has already been logged. */
static void note_refusal(const struct rpc_call *call, const char *text)
{
	struct rpc_server *server = call->server;

	server->n_refused++;
	if (!call->peer->refusal && log_again(&server->refused_logged_ms, clock_monotonic_ms()))
		log_warn("rpc", "refusing a call (logged at most every 10 s): %s", text);
}

/* Writes the reply of a call that has failed. */
static struct frame *refuse(const struct rpc_call *call, reeve_status code, const char *text)
{
	return call->peer->transport->refuse(call->peer->transport_arg, call->id, call->form, code, text);
}

static void fail_text(struct rpc_call *call, reeve_status code, const char *text)
{
	char *repaired = utf8_valid(text, strlen(text)) ? NULL : utf8_repair(text, strlen(text));
	const char *said = repaired ? repaired : text;

	assert(code != STATUS(OK));
	if (code == STATUS(RESOURCE_EXHAUSTED))
		note_refusal(call, text);
	share_fail(call, code, text);
	finish(call, call->answered || nest_fail(call, code, said) ? NULL : refuse(call, code, said));
	free(repaired);
}

void server_answer_early(struct rpc_call *call, reeve_status code, const char *text)
{
	call->answered = true;
	if (!nest_fail(call, code, text))
		peers_reply(call->peer, refuse(call, code, text));
	server_notify_closed(call);
}

void rpc_call_fail(struct rpc_call *call, reeve_status code, const char *format, ...)
{
	struct reeve_error error;
	va_list args;

	va_start(args, format);
	vsnprintf(error.message, sizeof error.message, format, args);
	va_end(args);
	error.message[utf8_cut(error.message, strlen(error.message))] = 0;
	fail_text(call, code, error.message);
}

void rpc_call_fail_error(struct rpc_call *call, const struct reeve_error *error)
{
	fail_text(call, error->code, error->message);
}

void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *response)
{
	struct reeve_error error;
	struct frame *reply;

	assert(call->method && response->descriptor == call->method->output);
	share_reply(call, response);
	if (call->answered || nest_answer(call, response, NULL)) {
		finish(call, NULL);
		return;
	}
	reply = call->peer->transport->respond(
	    call->peer->transport_arg, call->id, call->form, response, call->server->options.max_message_bytes, &error);
	if (reply)
		finish(call, reply);
	else
		rpc_call_fail_error(call, &error);
}

const uint8_t *rpc_call_request_id(const struct rpc_call *call)
{
	return call->has_request_id ? call->request_id : NULL;
}

const char *rpc_call_traceparent(const struct rpc_call *call)
{
	return call->traceparent;
}

const char *rpc_call_method(const struct rpc_call *call)
{
	return call->method->name;
}

const void *rpc_call_declared(const struct rpc_call *call)
{
	return call->method->declared;
}

const char *rpc_call_actor(const struct rpc_call *call)
{
	return call->actor;
}

uint64_t rpc_call_origin(const struct rpc_call *call)
{
	return call->peer->number;
}

bool rpc_call_backlogged(const struct rpc_call *call, size_t max)
{
	return call->peer->conn && rpc_conn_heavy(call->peer->conn, max);
}

bool rpc_call_hold(struct rpc_call *call, size_t bytes, struct reeve_error *error)
{
	return limits_hold(call, bytes, error);
}

int64_t rpc_call_remaining_ms(const struct rpc_call *call)
{
	int64_t left = call->arrived_ms + call->deadline_ms - clock_monotonic_ms();

	if (call->deadline_ms == 0)
		return INT64_MAX;
	return left > 0 ? left : 0;
}

struct rpc_server_memory rpc_server_memory(const struct rpc_server *server)
{
	return (struct rpc_server_memory){
	    .incoming = atomic_load(&server->budget.incoming),
	    .held = (size_t)limits_used(server, BYTES),
	    .unsent = atomic_load(&server->budget.unsent),
	};
}

int rpc_server_connections(const struct rpc_server *server)
{
	return server->n_peers;
}

int64_t rpc_server_idle_ping_ms(const struct rpc_server *server)
{
	int64_t ms = server->n_peers * INT64_C(1000) / IDLE_PINGS_A_SECOND;

	return ms < IDLE_PING_MAX_MS ? ms : IDLE_PING_MAX_MS;
}

int rpc_server_open_calls(const struct rpc_server *server)
{
	return (int)limits_used(server, CALLS);
}

int64_t rpc_server_calls(const struct rpc_server *server)
{
	return server->n_calls;
}

int64_t rpc_server_refused(const struct rpc_server *server)
{
	return server->n_refused;
}

struct rpc_call *server_open_call(
    struct rpc_server *server, struct peer *peer, int64_t arrived_ms, const struct rpc_message *message)
{
	const struct envelope_request *envelope = &message->envelope;
	struct rpc_call *call = mem_malloc(sizeof *call + envelope->actor.length + 1);

	*call = (struct rpc_call){
	    .server = server,
	    .peer = peer,
	    .id = message->id,
	    .form = message->form,
	    .deadline_ms = envelope->deadline_ms,
	    .arrived_ms = arrived_ms,
	    .traceparent = message->traceparent ? mem_strdup(message->traceparent) : NULL,
	    .actor = call->texts,
	    .has_request_id = envelope->request_id,
	};
	memcpy(call->texts, envelope->actor.bytes, envelope->actor.length);
	call->texts[envelope->actor.length] = 0;
	if (envelope->request_id)
		memcpy(call->request_id, envelope->request_id, UUID_BYTES);
	DL_APPEND(server->open, call);
	DL_APPEND2(peer->calls, call, prev_of_peer, next_of_peer);
	peers_keep(peer);
	if (peer->transport->expires && call->deadline_ms)
		expire_add(call);
	return call;
}

/* Refuses a call of a program with another version of the contract. Always returns false. */
static bool refuse_contract(struct rpc_call *call, uint32_t contract, struct reeve_error *error)
{
	char problem[256];

	envelope_contract_problem(contract, REEVE__V1__CONTRACT__CONTRACT_CURRENT, problem, sizeof problem);
	if (log_again(&call->server->contract_logged_ms, clock_monotonic_ms()))
		log_warn("rpc", "refusing the calls of %s (logged at most every 10 s), with the message: %s",
		    *call->actor && !name_problem(call->actor, true) ? call->actor : "an unknown caller", problem);
	return error_set(error, STATUS(UNIMPLEMENTED), "%s", problem);
}

bool server_unpack(struct rpc_call *call, const struct envelope_request *envelope, struct reeve_error *error)
{
	size_t max = MEMORY_MESSAGES * call->server->options.max_message_bytes + MEMORY_PARTS, memory;

	if (!wire_measure(call->method->input, envelope->body.bytes, envelope->body.length, &memory, error))
		return false;
	if (memory > max)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "the message would take %zu bytes of memory; the maximum is %zu", memory, max);
	if (!limits_hold(call, sizeof *call + envelope->actor.length + memory, error))
		return false;
	call->request =
	    arena_unpack(&call->arena, call->method->input, envelope->body.bytes, envelope->body.length, memory);
	return call->request ||
	    error_set(
	        error, STATUS(INVALID_ARGUMENT), "the message is not a well-formed %s", call->method->input->short_name);
}

/* Finds the method and, if the caller may call it, takes the request, within the limits. Returns false with *error set
 * if it cannot. *made: memory of the request, to be freed. */
static bool take_call(struct rpc_call *call, struct rpc_message *message, uint8_t **made, struct reeve_error *error)
{
	struct rpc_server *server = call->server;
	const struct envelope_request *envelope = &message->envelope;
	const struct rpc_transport *transport = call->peer->transport;
	const char *problem = name_problem(call->actor, true);
	size_t max = server->options.max_message_bytes;

	HASH_FIND(hh, server->methods, envelope->method.bytes, envelope->method.length, call->method);
	if (call->peer->refusal)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "the manager cannot serve this caller now: %s; try again later", call->peer->refusal);
	if (envelope->contract != REEVE__V1__CONTRACT__CONTRACT_CURRENT)
		return refuse_contract(call, envelope->contract, error);
	if (!guard_admit(call, &envelope->token, error) || !limits_enter(call, error))
		return false;
	if (problem)
		return error_set(error, STATUS(INVALID_ARGUMENT), "actor %s", problem);
	if (!call->method)
		return error_set(error, STATUS(UNIMPLEMENTED), "no method \"%.*s\"",
		    (int)(envelope->method.length < 200 ? envelope->method.length : 200), (const char *)envelope->method.bytes);
	call->peer->called |= call->identity != NULL;
	if (rpc_call_remaining_ms(call) == 0)
		return error_set(error, STATUS(DEADLINE_EXCEEDED), "the call waited for its full deadline");
	if (!call->identity && max > RPC_STRANGER_BYTES)
		max = RPC_STRANGER_BYTES;
	return (!transport->decode || transport->decode(message, call->method->input, max, made, error)) &&
	    server_unpack(call, envelope, error);
}

/* Checks the lengths of an envelope's texts. */
static bool check_lengths(const struct envelope_request *envelope, struct reeve_error *error)
{
	if (envelope->token.length > TOKEN_MAX_BYTES)
		return error_set(error, STATUS(INVALID_ARGUMENT), "token has %zu bytes; at most %d are allowed",
		    envelope->token.length, TOKEN_MAX_BYTES);
	if (envelope->actor.length > LIMIT_NAME_BYTES)
		return error_set(error, STATUS(INVALID_ARGUMENT), "actor is longer than %d bytes", LIMIT_NAME_BYTES);
	return true;
}

bool server_dispatch(struct rpc_server *server, struct peer *peer, struct frame *frame)
{
	static const struct envelope_view nothing = {(const uint8_t *)"", 0};
	const struct rpc_transport *transport = peer->transport;
	struct rpc_message message = {0};
	struct frame *reply;
	struct reeve_error error = {0};
	struct rpc_call *call;
	uint8_t *made = NULL;
	bool good;

	if (transport->wants_answer && !transport->wants_answer(peer->conn, frame))
		return true;
	reply = transport->serve ? transport->serve(peer->transport_arg, frame) : NULL;
	if (reply) {
		peers_reply(peer, reply);
		return true;
	}
	good = transport->read(peer->transport_arg, frame, &message, &error) && check_lengths(&message.envelope, &error);
	if (!good)
		message.envelope.token = message.envelope.actor = nothing;
	call = server_open_call(server, peer, frame->at_ms, &message);
	server->n_calls++;
	peer->guessed = false;
	if (good)
		good = take_call(call, &message, &made, &error);
	if (peer->identifying) {
		server->n_calls--;
		server_drop_call(call);
	} else if (!good && peer->guessed)
		guesses_hold(call, &error);
	else if (!good)
		rpc_call_fail_error(call, &error);
	else
		server_begin_call(call, &message);
	free(made);
	return !peer->identifying;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	peers_take(arg);
}

void rpc_server_flush(struct rpc_server *server)
{
	peers_flush(server);
}

/* Runs after the events that were already pending, so that all their answers leave together. */
static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	peers_flush(arg);
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	peers_sweep(arg);
	share_sweep(arg);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	server_accept_more(arg);
}

/* Returns the limit for unprocessed messages, and for unread answers, in bytes. */
static size_t budget_of(const struct rpc_server_options *options)
{
	size_t bytes = BUDGET_MESSAGES * options->max_message_bytes;

	return bytes > BUDGET_MIN ? bytes : BUDGET_MIN;
}

struct rpc_server *rpc_server_create(struct event_base *base, const struct rpc_server_options *options)
{
	struct rpc_server *server = mem_calloc(1, sizeof *server);
	const struct timeval sweep = {SWEEP_MS / 1000, 0};

	server->base = base;
	server->options = *options;
	if (!server->options.max_message_bytes)
		server->options.max_message_bytes = DEFAULT_MESSAGE_BYTES;
	if (!server->options.max_open_calls)
		server->options.max_open_calls = DEFAULT_OPEN_CALLS;
	if (!server->options.max_connections)
		server->options.max_connections = DEFAULT_CONNECTIONS;
	if (!server->options.connection_percent)
		server->options.connection_percent = 100;
	if (!server->options.address_percent)
		server->options.address_percent = 100;
	if (!server->options.quiet_ms)
		server->options.quiet_ms = DEFAULT_QUIET_MS;
	if (!server->options.socket_mode)
		server->options.socket_mode = 0600;
	server->budget.incoming_max = budget_of(&server->options);
	server->budget.unsent_max = budget_of(&server->options);
	server_fit_files(server);
	server->wake = event_new(base, -1, 0, on_wake, server);
	server->flush = event_new(base, -1, 0, on_flush, server);
	server->sweep = event_new(base, -1, EV_PERSIST, on_sweep, server);
	server->again = event_new(base, -1, 0, on_again, server);
	mem_check(server->wake && server->flush && server->again && server->sweep);
	mem_check(event_add(server->sweep, &sweep) == 0);
	expire_open(server);
	return server;
}

void rpc_server_destroy(struct rpc_server *server)
{
	struct method *method, *next_method;

	if (!server)
		return;
	expire_all(server);
	peers_destroy(server);
	guesses_forget_all(server);
	event_free(server->wake);
	event_free(server->flush);
	event_free(server->sweep);
	event_free(server->again);
	expire_close(server);
	HASH_ITER (hh, server->methods, method, next_method) {
		HASH_DEL(server->methods, method);
		free(method->name);
		free(method);
	}
	free(server);
}

void rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *descriptor,
    const struct rpc_entry *methods, void *service)
{
	for (const struct rpc_entry *entry = methods; entry->name; entry++) {
		const ProtobufCMethodDescriptor *described =
		    protobuf_c_service_descriptor_get_method_by_name(descriptor, entry->name);
		struct method *method = mem_calloc(1, sizeof *method);

		assert(described && entry->serve);
		method->name = mem_asprintf("/%s/%s", descriptor->name, entry->name);
		method->input = described->input;
		method->output = described->output;
		method->serve = entry->serve;
		method->class = entry->class;
		method->roles = entry->roles;
		method->declared = entry->declared;
		method->service = service;
		HASH_ADD_KEYPTR(hh, server->methods, method->name, strlen(method->name), method);
	}
}
