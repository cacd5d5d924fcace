/*
 * A rep0 socket with a pool of contexts. A context goes round: it receives, its message is queued for the loop, it is an
 * open call until it is answered, it sends, and it receives again, or rests if enough others do. The pool grows while
 * calls stay open, so that somebody always receives, if only to refuse.
 *
 * nng's threads run message_arrived and reply_sent; both do nothing but move the context to its next list. Everything
 * they share with the loop stands behind `lock`.
 */
#include "common/rpc/server.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/rpc/arena.h"
#include "common/rpc/envelope.h"
#include "common/rpc/wire.h"
#include "common/text.h"
#include "common/uuid.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

enum {
	DEFAULT_MESSAGE_BYTES = 8 << 20,
	DEFAULT_OPEN_CALLS = 20000,
	DEFAULT_PIPES = 10000,
	RECEIVERS_LEAST = 64,  /* contexts that receive, topped up after each batch */
	RECEIVERS_MOST = 256,  /* beyond it contexts rest: what has arrived and is not yet looked at is bounded by it */
	SPARE_CONTEXTS = 4096, /* above max_open_calls: those that carry refusals and answers on their way */
	HELD_MESSAGES = 64,    /* open calls hold at most so many of the longest messages in memory */
	SEND_TIMEOUT_MS = 10000, /* a peer that does not take an answer for so long is cut off */
	CLOSE_GRACE_MS = 1000,   /* how long answers given before a destroy may take to leave */
};

enum call_state { CALL_RESTING, CALL_RECEIVING, CALL_ARRIVED, CALL_OPEN, CALL_SENDING };

struct method {
	char *name; /* "/reeve.v1.TaskService/Submit" */
	const ProtobufCMessageDescriptor *input, *output;
	rpc_method *serve;
	void *service;
	UT_hash_handle hh;
};

struct rpc_call {
	struct rpc_server *server;
	enum call_state state; /* behind the lock */
	nng_ctx ctx;
	nng_aio *aio;
	struct rpc_call *prev, *next; /* in one of the server's lists */
	struct rpc_call *next_made;   /* in `made` */

	/* Of a call that has arrived. */
	nng_msg *msg;
	nng_pipe pipe;
	int64_t arrived_ms;
	uint32_t deadline_ms;
	const struct method *method;
	struct arena arena;
	size_t held; /* bytes counted in the server's `held` */
	uint8_t request_id[UUID_BYTES];
	bool has_request_id;
	char *texts; /* actor and token, one after the other */
	const char *token;
	void (*closed)(void *arg);
	void *closed_arg;
};

struct rpc_server {
	struct event_base *base;
	struct event *wake;
	int wake_fd;
	struct rpc_server_options options;
	nng_socket socket;
	bool socket_open;
	char *url;
	struct method *methods;

	struct rpc_call *made; /* all contexts */
	int n_made;
	struct rpc_call *open;
	int n_open;
	size_t held;
	int64_t n_calls;

	atomic_int n_pipes;
	pthread_mutex_t lock;
	pthread_cond_t sent; /* a reply has left while `closing` */
	/* Behind the lock. */
	bool closing;
	struct rpc_call *arrived, *resting;
	int n_receiving, n_sending;
};

/* Behind the lock. The context is then receiving as soon as begin_receive is called without it. */
static void note_receiving(struct rpc_call *call)
{
	call->state = CALL_RECEIVING;
	call->server->n_receiving++;
}

static void begin_receive(struct rpc_call *call)
{
	nng_aio_set_timeout(call->aio, NNG_DURATION_INFINITE);
	nng_ctx_recv(call->ctx, call->aio);
}

/* On nng's threads. */
static void message_arrived(struct rpc_call *call)
{
	struct rpc_server *server = call->server;
	bool first = false;
	int result = nng_aio_result(call->aio);

	pthread_mutex_lock(&server->lock);
	server->n_receiving--;
	if (result == 0) {
		call->msg = nng_aio_get_msg(call->aio);
		nng_aio_set_msg(call->aio, NULL);
		call->arrived_ms = clock_monotonic_ms();
		call->state = CALL_ARRIVED;
		first = !server->arrived;
		DL_APPEND(server->arrived, call);
	} else {
		/* The socket is closing, or there is no memory: the loop tries again with the next batch. */
		call->state = CALL_RESTING;
		LL_PREPEND(server->resting, call);
	}
	pthread_mutex_unlock(&server->lock);
	if (first)
		eventfd_write(server->wake_fd, 1);
}

/* On nng's threads. */
static void reply_sent(struct rpc_call *call)
{
	struct rpc_server *server = call->server;
	int result = nng_aio_result(call->aio);
	bool receive;

	if (result != 0) {
		nng_msg_free(nng_aio_get_msg(call->aio));
		nng_aio_set_msg(call->aio, NULL);
		if (result == NNG_ETIMEDOUT)
			nng_pipe_close(call->pipe);
	}
	pthread_mutex_lock(&server->lock);
	server->n_sending--;
	receive = !server->closing && server->n_receiving < RECEIVERS_MOST;
	if (receive) {
		note_receiving(call);
	} else {
		call->state = CALL_RESTING;
		LL_PREPEND(server->resting, call);
	}
	if (server->closing)
		pthread_cond_signal(&server->sent);
	pthread_mutex_unlock(&server->lock);
	if (receive)
		begin_receive(call);
}

static void aio_done(void *arg)
{
	struct rpc_call *call = arg;

	/* Written before the operation was begun, so nobody else touches it now. */
	if (call->state == CALL_SENDING)
		reply_sent(call);
	else
		message_arrived(call);
}

/* Makes a context. NULL: no memory. */
static struct rpc_call *make_context(struct rpc_server *server)
{
	struct rpc_call *call = calloc(1, sizeof *call);

	if (!call)
		return NULL;
	call->server = server;
	if (nng_ctx_open(&call->ctx, server->socket) != 0) {
		free(call);
		return NULL;
	}
	if (nng_aio_alloc(&call->aio, aio_done, call) != 0) {
		nng_ctx_close(call->ctx);
		free(call);
		return NULL;
	}
	LL_PREPEND2(server->made, call, next_made);
	server->n_made++;
	return call;
}

/* Every context is taken, most by answers that some peer does not read: cuts off the one with the most. */
static void close_worst_pipe(struct rpc_server *server)
{
	struct tally {
		int id, count;
		nng_pipe pipe;
		UT_hash_handle hh;
	} *tallies = NULL, *tally, *next, *worst = NULL;
	struct rpc_call *call;
	nng_pipe pipe;

	pthread_mutex_lock(&server->lock);
	LL_FOREACH2 (server->made, call, next_made) {
		int id = nng_pipe_id(call->pipe);

		if (call->state != CALL_SENDING)
			continue;
		HASH_FIND_INT(tallies, &id, tally);
		if (!tally) {
			tally = calloc(1, sizeof *tally);
			if (!tally)
				break;
			tally->id = id;
			tally->pipe = call->pipe;
			HASH_ADD_INT(tallies, id, tally);
		}
		tally->count++;
		if (!worst || tally->count > worst->count)
			worst = tally;
	}
	pthread_mutex_unlock(&server->lock);
	if (worst) {
		pipe = worst->pipe;
		log_warn("rpc", "closing connection %d: %d answers wait for a peer that does not read them", worst->id,
		    worst->count);
	}
	HASH_ITER (hh, tallies, tally, next) {
		HASH_DEL(tallies, tally);
		if (tally != worst)
			free(tally);
	}
	free(worst);
	if (worst)
		nng_pipe_close(pipe);
}

/* Sees to it that enough contexts receive. */
static void top_up(struct rpc_server *server)
{
	int limit = server->options.max_open_calls + SPARE_CONTEXTS;

	for (;;) {
		struct rpc_call *call;
		bool enough, starved;

		pthread_mutex_lock(&server->lock);
		enough = server->n_receiving >= RECEIVERS_LEAST;
		starved = server->n_receiving == 0 && !server->arrived;
		call = enough ? NULL : server->resting;
		if (call) {
			LL_DELETE(server->resting, call);
			note_receiving(call);
		}
		pthread_mutex_unlock(&server->lock);
		if (enough)
			return;
		if (!call) {
			if (server->n_made >= limit) {
				if (starved)
					close_worst_pipe(server);
				return;
			}
			call = make_context(server);
			if (!call)
				return;
			pthread_mutex_lock(&server->lock);
			note_receiving(call);
			pthread_mutex_unlock(&server->lock);
		}
		begin_receive(call);
	}
}

/* Takes an answered call out of everything and sends the reply; without one (no memory) the caller hears nothing. */
static void send_reply(struct rpc_call *call, nng_msg *reply)
{
	struct rpc_server *server = call->server;

	DL_DELETE(server->open, call);
	server->n_open--;
	server->held -= call->held;
	call->held = 0;
	arena_clear(&call->arena);
	free(call->texts);
	call->texts = NULL;
	call->closed = NULL;
	call->closed_arg = NULL;
	pthread_mutex_lock(&server->lock);
	if (reply) {
		call->state = CALL_SENDING;
		server->n_sending++;
	} else {
		call->state = CALL_RESTING;
		LL_PREPEND(server->resting, call);
	}
	pthread_mutex_unlock(&server->lock);
	if (!reply) {
		log_error("rpc", "no memory to answer a call");
		nng_pipe_close(call->pipe);
		return;
	}
	nng_aio_set_msg(call->aio, reply);
	nng_aio_set_timeout(call->aio, SEND_TIMEOUT_MS);
	nng_ctx_send(call->ctx, call->aio);
}

static void fail_text(struct rpc_call *call, reeve_status code, const char *text)
{
	char *repaired = utf8_valid(text, strlen(text)) ? NULL : utf8_repair(text, strlen(text));
	nng_msg *reply;

	assert(call->state == CALL_OPEN && code != STATUS(OK));
	reply = envelope_write_error(code, repaired ? repaired : text);
	free(repaired);
	send_reply(call, reply);
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
	nng_msg *reply;

	assert(call->state == CALL_OPEN && response->descriptor == call->method->output);
	reply = envelope_write_response(response, call->server->options.max_message_bytes, &error);
	if (reply)
		send_reply(call, reply);
	else
		rpc_call_fail_error(call, &error);
}

const uint8_t *rpc_call_request_id(const struct rpc_call *call)
{
	return call->has_request_id ? call->request_id : NULL;
}

const char *rpc_call_actor(const struct rpc_call *call)
{
	return call->texts;
}

const char *rpc_call_token(const struct rpc_call *call)
{
	return call->token;
}

int64_t rpc_call_remaining_ms(const struct rpc_call *call)
{
	int64_t left = call->arrived_ms + call->deadline_ms - clock_monotonic_ms();

	if (call->deadline_ms == 0)
		return INT64_MAX;
	return left > 0 ? left : 0;
}

void rpc_call_on_closed(struct rpc_call *call, void (*closed)(void *arg), void *arg)
{
	call->closed = closed;
	call->closed_arg = arg;
}

int rpc_server_open_calls(const struct rpc_server *server)
{
	return server->n_open;
}

int64_t rpc_server_calls(const struct rpc_server *server)
{
	return server->n_calls;
}

/* Writes a view as a string and returns the place after it. */
static char *copy_text(char *out, struct envelope_view text)
{
	if (text.length)
		memcpy(out, text.bytes, text.length);
	out[text.length] = 0;
	return out + text.length + 1;
}

/* Copies what the accessors tell out of the message. False: no memory. */
static bool keep_envelope(struct rpc_call *call, const struct envelope_request *envelope)
{
	char *token;

	call->deadline_ms = envelope->deadline_ms;
	call->has_request_id = envelope->request_id;
	if (envelope->request_id)
		memcpy(call->request_id, envelope->request_id, UUID_BYTES);
	call->texts = malloc(envelope->actor.length + envelope->token.length + 2);
	if (!call->texts)
		return false;
	token = copy_text(call->texts, envelope->actor);
	copy_text(token, envelope->token);
	call->token = token;
	return true;
}

/* Finds out what is asked for, as a whole message, or fails the call: then it is gone. */
static const ProtobufCMessage *read_call(struct rpc_call *call, nng_msg *msg)
{
	struct rpc_server *server = call->server;
	struct envelope_request envelope;
	struct reeve_error error = {0};
	ProtobufCMessage *request;
	struct method *method;

	if (server->n_open > server->options.max_open_calls ||
	    server->held > HELD_MESSAGES * server->options.max_message_bytes) {
		rpc_call_fail(call, STATUS(RESOURCE_EXHAUSTED), "too many calls are open; come back later");
		return NULL;
	}
	if (!envelope_read_request(nng_msg_body(msg), nng_msg_len(msg), &envelope, &error)) {
		rpc_call_fail(call, error.code, "call envelope: %s", error.message);
		return NULL;
	}
	if (!keep_envelope(call, &envelope)) {
		rpc_call_fail(call, STATUS(RESOURCE_EXHAUSTED), "no memory for the call");
		return NULL;
	}
	if (name_problem(call->texts, true)) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT), "actor %s", name_problem(call->texts, true));
		return NULL;
	}
	HASH_FIND(hh, server->methods, envelope.method.bytes, envelope.method.length, method);
	if (!method) {
		rpc_call_fail(call, STATUS(UNIMPLEMENTED), "no method \"%.*s\"",
		    (int)(envelope.method.length < 200 ? envelope.method.length : 200),
		    (const char *)envelope.method.bytes);
		return NULL;
	}
	call->method = method;
	if (rpc_call_remaining_ms(call) == 0) {
		rpc_call_fail(call, STATUS(DEADLINE_EXCEEDED), "the call waited for its whole deadline");
		return NULL;
	}
	if (!wire_check(method->input, envelope.body.bytes, envelope.body.length, &error)) {
		rpc_call_fail_error(call, &error);
		return NULL;
	}
	request = arena_unpack(&call->arena, method->input, envelope.body.bytes, envelope.body.length);
	if (!request) {
		rpc_call_fail(call, STATUS(INVALID_ARGUMENT), "the message is not a well-formed %s",
		    method->input->short_name);
		return NULL;
	}
	call->held = call->arena.total;
	server->held += call->held;
	return request;
}

static void dispatch(struct rpc_call *call)
{
	struct rpc_server *server = call->server;
	nng_msg *msg = call->msg;
	const ProtobufCMessage *request;

	call->state = CALL_OPEN;
	call->msg = NULL;
	call->pipe = nng_msg_get_pipe(msg);
	call->token = "";
	DL_APPEND(server->open, call);
	server->n_open++;
	server->n_calls++;
	request = read_call(call, msg);
	/* All that is needed of the message has been copied. */
	nng_msg_free(msg);
	if (request)
		call->method->serve(call->method->service, call, request);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct rpc_server *server = arg;
	struct rpc_call *arrived, *call, *next;
	eventfd_t count;

	(void)what;
	eventfd_read(fd, &count);
	pthread_mutex_lock(&server->lock);
	arrived = server->arrived;
	server->arrived = NULL;
	pthread_mutex_unlock(&server->lock);
	/* Before the calls are served, so that messages come in meanwhile. */
	top_up(server);
	DL_FOREACH_SAFE (arrived, call, next) {
		DL_DELETE(arrived, call);
		dispatch(call);
	}
	top_up(server);
}

/* On nng's threads. */
static void pipe_event(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	struct rpc_server *server = arg;

	if (event == NNG_PIPE_EV_REM_POST)
		atomic_fetch_sub(&server->n_pipes, 1);
	else if (atomic_fetch_add(&server->n_pipes, 1) >= server->options.max_pipes)
		nng_pipe_close(pipe);
}

/* Every connection is a file descriptor: takes as many as the system gives. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* Turns an error of nng's into one of ours: "tcp://…:7171: address in use". */
static bool nng_failed(struct reeve_error *error, const char *what, int result)
{
	reeve_status code = STATUS(UNAVAILABLE);
	char text[128];

	snprintf(text, sizeof text, "%s", nng_strerror(result));
	text[0] = (char)tolower((unsigned char)text[0]);
	if (result == NNG_EADDRINVAL || result == NNG_ENOTSUP || result == NNG_EINVAL)
		code = STATUS(INVALID_ARGUMENT);
	else if (result == NNG_EPERM)
		code = STATUS(PERMISSION_DENIED);
	return error_set(error, code, "%s: %s", what, text);
}

struct rpc_server *rpc_server_create(
    struct event_base *base, const struct rpc_server_options *options, struct reeve_error *error)
{
	struct rpc_server *server = calloc(1, sizeof *server);
	int result;

	if (!server) {
		error_set(error, STATUS(RESOURCE_EXHAUSTED), "no memory for a server");
		return NULL;
	}
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->sent, NULL);
	server->base = base;
	server->options = *options;
	if (!server->options.max_message_bytes)
		server->options.max_message_bytes = DEFAULT_MESSAGE_BYTES;
	if (!server->options.max_open_calls)
		server->options.max_open_calls = DEFAULT_OPEN_CALLS;
	if (!server->options.max_pipes)
		server->options.max_pipes = DEFAULT_PIPES;
	raise_file_limit();
	server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (server->wake_fd < 0) {
		error_set(error, STATUS(UNAVAILABLE), "no eventfd: %s", strerror(errno));
		goto failed;
	}
	server->wake = event_new(base, server->wake_fd, EV_READ | EV_PERSIST, on_wake, server);
	if (!server->wake || event_add(server->wake, NULL) != 0) {
		error_set(error, STATUS(RESOURCE_EXHAUSTED), "no memory for an event");
		goto failed;
	}
	result = nng_rep0_open(&server->socket);
	if (result != 0) {
		nng_failed(error, "nng socket", result);
		goto failed;
	}
	server->socket_open = true;
	result = nng_socket_set_size(
	    server->socket, NNG_OPT_RECVMAXSZ, server->options.max_message_bytes + ENVELOPE_SLACK);
	if (result == 0)
		result = nng_pipe_notify(server->socket, NNG_PIPE_EV_ADD_PRE, pipe_event, server);
	if (result == 0)
		result = nng_pipe_notify(server->socket, NNG_PIPE_EV_REM_POST, pipe_event, server);
	if (result != 0) {
		nng_failed(error, "nng socket", result);
		goto failed;
	}
	top_up(server);
	return server;

failed:
	rpc_server_destroy(server);
	return NULL;
}

/* Lets answers that were given before leave, for a moment. */
static void drain(struct rpc_server *server)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CLOSE_GRACE_MS / 1000;
	pthread_mutex_lock(&server->lock);
	server->closing = true;
	while (server->n_sending > 0 && pthread_cond_timedwait(&server->sent, &server->lock, &until) == 0)
		;
	pthread_mutex_unlock(&server->lock);
}

void rpc_server_destroy(struct rpc_server *server)
{
	struct rpc_call *call, *next;
	struct method *method, *next_method;

	if (!server)
		return;
	if (server->wake)
		event_free(server->wake);
	DL_FOREACH (server->open, call) {
		if (call->closed)
			call->closed(call->closed_arg);
	}
	if (server->socket_open) {
		drain(server);
		nng_close(server->socket);
	}
	LL_FOREACH_SAFE2 (server->made, call, next, next_made) {
		nng_aio_stop(call->aio);
		nng_aio_free(call->aio);
		nng_msg_free(call->msg);
		arena_clear(&call->arena);
		free(call->texts);
		free(call);
	}
	if (server->wake_fd >= 0)
		close(server->wake_fd);
	HASH_ITER (hh, server->methods, method, next_method) {
		HASH_DEL(server->methods, method);
		free(method->name);
		free(method);
	}
	pthread_cond_destroy(&server->sent);
	pthread_mutex_destroy(&server->lock);
	free(server->url);
	free(server);
}

void rpc_server_add(struct rpc_server *server, const ProtobufCServiceDescriptor *descriptor, rpc_method *const *methods,
    void *service)
{
	for (unsigned i = 0; i < descriptor->n_methods; i++) {
		struct method *method = calloc(1, sizeof *method);
		int length;

		assert(method && methods[i]);
		length = asprintf(&method->name, "/%s/%s", descriptor->name, descriptor->methods[i].name);
		assert(length > 0);
		method->input = descriptor->methods[i].input;
		method->output = descriptor->methods[i].output;
		method->serve = methods[i];
		method->service = service;
		HASH_ADD_KEYPTR(hh, server->methods, method->name, length, method);
	}
}

/* The listener's URL, a port of 0 replaced by the one taken. */
static char *real_url(nng_listener listener, const char *url)
{
	nng_url *parsed;
	char *real = NULL;
	int port;

	if (nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port) != 0 || nng_url_parse(&parsed, url) != 0)
		return strdup(url);
	if (asprintf(&real, "%s://%s:%d", parsed->u_scheme, *parsed->u_hostname ? parsed->u_hostname : "0.0.0.0", port) < 0)
		real = NULL;
	nng_url_free(parsed);
	return real;
}

bool rpc_server_listen(struct rpc_server *server, const char *url, struct reeve_error *error)
{
	nng_listener listener;
	int result = nng_listen(server->socket, url, &listener, 0);

	if (result != 0)
		return nng_failed(error, url, result);
	free(server->url);
	server->url = real_url(listener, url);
	return server->url || error_set(error, STATUS(RESOURCE_EXHAUSTED), "no memory for a listener");
}

const char *rpc_server_url(const struct rpc_server *server)
{
	return server->url;
}
