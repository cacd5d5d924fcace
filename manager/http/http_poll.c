/*
 * The dashboard's long poll: one request for all reads that a page makes at a time. It waits until the next multiple of
 * the page's interval, the same moment for all tabs. Then it makes its reads as calls of the same caller, which share
 * their answers with those of other tabs (server_share.c), and is answered when all are.
 */
#include "common/mem.h"
#include "common/text.h"
#include "manager/http/http_internal.h"

#include <manager/http/poll.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	READS_MAX = 32,
	EVERY_MAX_MS = 3600000,
	PARK_MAX_MS = 25000, /* proxies give up requests that take longer than 30 or 60 seconds */
	LATE_MS = 10,        /* the loop's clock is a little behind at times */
	PATH_BYTES = 128,
	READ_BYTES = 1024, /* what is around an answer, or an error instead of it */
};

struct read {
	struct rpc_nested nested; /* first: `done` finds the read by it */
	struct poll *poll;
	Reeve__V1__PollAnswer answer;
	char *text; /* of it: the answer, or the message of an error */
	char code[JSON_NAME_BYTES];
};

struct poll {
	struct http_api *api;
	struct rpc_call *call; /* NULL: it has been answered */
	const Reeve__V1__PollRequest *request;
	struct event *moment; /* it waits until then; or NULL */
	bool early;           /* that is before the moment of its reads, which is too far away */
	size_t undone;        /* reads without an answer, once they have begun */
	size_t bytes;         /* of its own answer */
	size_t n_reads;
	struct read reads[];
};

static void free_poll(struct poll *poll)
{
	if (poll->moment)
		event_free(poll->moment);
	for (size_t i = 0; i < poll->n_reads; i++)
		free(poll->reads[i].text);
	free(poll);
}

/* Answers a poll with the first `count` reads, and frees it. */
static void answer(struct poll *poll, size_t count)
{
	Reeve__V1__PollAnswer *answers[READS_MAX];
	Reeve__V1__PollResponse response = REEVE__V1__POLL_RESPONSE__INIT;

	for (size_t i = 0; i < count; i++)
		answers[i] = &poll->reads[i].answer;
	response.answers = answers;
	response.n_answers = count;
	if (poll->call)
		rpc_call_reply(poll->call, &response.base);
	free_poll(poll);
}

static void fail(struct read *read, const struct reeve_error *error)
{
	const char *text = error->message; /* perhaps cut within a character */
	size_t length = strlen(text);

	read->answer.code = http_code_name(error->code, read->code);
	read->answer.message = read->text = utf8_valid(text, length) ? mem_strdup(text) : utf8_repair(text, length);
}

/* Keeps the answer to a read, within the limits. */
static void keep(struct read *read, const ProtobufCMessage *response)
{
	struct poll *poll = read->poll;
	struct reeve_error error;
	size_t length;
	char *text = http_json_write(response, &length);

	poll->bytes += length;
	if (poll->bytes <= poll->api->options.max_message_bytes && rpc_call_hold(poll->call, length, &error)) {
		read->answer.answer = read->text = text;
		return;
	}
	free(text);
	if (poll->bytes > poll->api->options.max_message_bytes)
		error_set(&error, STATUS(OUT_OF_RANGE), "the answers together are longer than --max-message");
	fail(read, &error);
}

/* A read has its answer. */
static void end_read(struct poll *poll)
{
	if (--poll->undone == 0)
		answer(poll, poll->n_reads);
}

static void on_done(struct rpc_nested *nested, const ProtobufCMessage *response, const struct reeve_error *error)
{
	struct read *read = (struct read *)nested;
	struct poll *poll = read->poll;

	if (poll->call && response)
		keep(read, response);
	else if (poll->call)
		fail(read, error);
	end_read(poll);
}

/* Writes the path of a read's method. */
static const char *path_of(const Reeve__V1__PollRead *read, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "/reeve.v1.%s", read->method);
	return path;
}

static void make(struct read *read, const Reeve__V1__PollRead *wanted)
{
	struct poll *poll = read->poll;
	struct reeve_error error;
	char path[PATH_BYTES];
	size_t length;
	uint8_t *request = http_json_pack(wanted->request, strlen(wanted->request),
	    rpc_server_input(poll->api->server, path_of(wanted, path)), poll->api->options.max_message_bytes, &length,
	    &error);

	if (request)
		rpc_call_nest(poll->call, &read->nested, path, request, length, poll->request->max_age_ms);
	else
		on_done(&read->nested, NULL, &error);
	free(request);
}

/* Makes the reads. */
static void begin(struct poll *poll)
{
	poll->undone = poll->n_reads + 1; /* none of them is the last one before all have begun */
	for (size_t i = 0; i < poll->n_reads; i++)
		make(&poll->reads[i], poll->request->reads[i]);
	end_read(poll);
}

static void on_moment(evutil_socket_t fd, short what, void *arg)
{
	struct poll *poll = arg;

	(void)fd, (void)what;
	event_free(poll->moment);
	poll->moment = NULL;
	if (poll->early)
		answer(poll, 0);
	else
		begin(poll);
}

/* Waits for the next moment. */
static void park(struct poll *poll)
{
	struct http_api *api = poll->api;
	int64_t every_ms = poll->request->every_ms, now_ms = api->options.now_us(api->options.arg) / 1000;
	int64_t ms = every_ms - now_ms % every_ms + LATE_MS;

	poll->early = ms > PARK_MAX_MS;
	ms = poll->early ? PARK_MAX_MS : ms;
	poll->moment = event_new(api->options.base, -1, 0, on_moment, poll);
	mem_check(poll->moment);
	event_add(poll->moment, &(struct timeval){ms / 1000, ms % 1000 * 1000});
}

/* The caller has left, or the manager stops. */
static void on_closed(void *arg)
{
	struct poll *poll = arg;
	struct rpc_call *call = poll->call;

	poll->call = NULL;
	for (size_t i = 0; i < poll->n_reads; i++)
		rpc_call_give_up(&poll->reads[i].nested);
	if (!poll->undone)
		free_poll(poll);
	rpc_call_fail(call, STATUS(UNAVAILABLE), "the manager stops");
}

/* Checks what can be checked before a poll waits. */
static bool check(const struct http_api *api, const Reeve__V1__PollRequest *request, struct reeve_error *error)
{
	char path[PATH_BYTES];

	if (request->n_reads == 0 || request->n_reads > READS_MAX)
		return error_set(
		    error, STATUS(INVALID_ARGUMENT), "reads must be 1 to %d, not %zu", READS_MAX, request->n_reads);
	if (request->every_ms < 0 || request->every_ms > EVERY_MAX_MS)
		return error_set(error, STATUS(INVALID_ARGUMENT), "every_ms must be 0 to %d", EVERY_MAX_MS);
	for (size_t i = 0; i < request->n_reads; i++) {
		path_of(request->reads[i], path);
		if (!http_is_read(path, strlen(path)) || !rpc_server_input(api->server, path))
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "reads: \"%.100s\" is no method that changes nothing and does not wait", request->reads[i]->method);
	}
	return true;
}

static void serve_poll(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
	const Reeve__V1__PollRequest *request = (const Reeve__V1__PollRequest *)message;
	struct reeve_error error;
	struct poll *poll;

	if (!check(service, request, &error) ||
	    !rpc_call_hold(call, sizeof *poll + request->n_reads * sizeof *poll->reads, &error)) {
		rpc_call_fail_error(call, &error);
		return;
	}
	poll = mem_calloc(1, sizeof *poll + request->n_reads * sizeof *poll->reads);
	*poll = (struct poll){.api = service, .call = call, .request = request, .n_reads = request->n_reads};
	poll->bytes = poll->n_reads * READ_BYTES;
	for (size_t i = 0; i < poll->n_reads; i++) {
		reeve__v1__poll_answer__init(&poll->reads[i].answer);
		poll->reads[i].poll = poll;
		poll->reads[i].nested.done = on_done;
	}
	rpc_call_on_closed(call, on_closed, poll);
	if (request->every_ms)
		park(poll);
	else
		begin(poll);
}

bool http_is_poll(const char *path, size_t length)
{
	static const char poll[] = "/reeve.v1.WebService/Poll";

	return length == sizeof poll - 1 && !memcmp(path, poll, length);
}

/* Each identity may poll: it needs the roles of what it reads. */
const struct rpc_entry http_poll_methods[] = {
    {.name = "Poll", .serve = serve_poll, .class = RPC_WAITING, .roles = ~RPC_ANYONE},
    {0},
};
