/* Creation and end of a client, its first contact, and the names of codes. */
#include "client/lib/internal.h"

#include "common/clock.h"
#include "common/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_TIMEOUT_MS = 5000, CALL_TIMEOUT_MS = 30000, ABSENT_MS = 2000 };

bool fail(struct reeve_failure *failure, reeve_status code, const char *format, ...)
{
	va_list arguments;
	char text[sizeof failure->message];

	if (!failure)
		return false;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	failure->code = (enum reeve_code)code;
	memcpy(failure->message, text, sizeof text);
	return false;
}

const char *reeve_code_name(enum reeve_code code)
{
	return status_name((reeve_status)code);
}

/* Writes the caller's name in a handler's program, "task 17", to `out` and returns it. Returns NULL in other programs,
 * or if the id is invalid. */
static const char *task_actor(char *out, size_t size)
{
	const char *id = getenv("REEVE_TASK_ID");

	if (!id || !*id || strlen(id) > 19 || id[strspn(id, "0123456789")])
		return NULL;
	snprintf(out, size, "task %s", id);
	return out;
}

struct reeve_client *reeve_client_create(const struct reeve_client_options *options, struct reeve_failure *failure)
{
	static const struct reeve_client_options defaults;
	const struct reeve_client_options *wanted = options ? options : &defaults;
	char task[32];
	struct rpc_client_options rpc_options = {
	    .urls = rpc_client_managers(wanted->managers),
	    .tls = {wanted->tls_cert, wanted->tls_key, wanted->tls_ca, wanted->tls_crl},
	    .actor = wanted->actor ? wanted->actor : task_actor(task, sizeof task),
	};
	struct reeve_error error = {0};
	pthread_condattr_t monotonic;
	struct token_source token;
	struct rpc_client *rpc;
	struct reeve_client *client;

	if (wanted->connect_timeout_ms < 0 || wanted->call_timeout_ms < 0) {
		fail(failure, STATUS(INVALID_ARGUMENT), "a client's timeouts must not be negative");
		return NULL;
	}
	token = token_source_find(wanted->token, wanted->token_file, rpc_options.urls);
	rpc_options.token_source = &token;
	rpc = rpc_client_create(&rpc_options, &error);
	token_source_free(&token);
	if (!rpc) {
		fail(failure, error.code, "%s", error.message);
		return NULL;
	}
	client = mem_calloc(1, sizeof *client);
	client->rpc = rpc;
	client->managers = mem_strdup(rpc_options.urls);
	client->connect_timeout_ms = wanted->connect_timeout_ms ? wanted->connect_timeout_ms : CONNECT_TIMEOUT_MS;
	client->call_timeout_ms = wanted->call_timeout_ms ? wanted->call_timeout_ms : CALL_TIMEOUT_MS;
	client->absent = wanted->absent;
	client->absent_arg = wanted->absent_arg;
	client->refused = wanted->refused;
	client->waiting = wanted->waiting;
	pthread_mutex_init(&client->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&client->interrupt, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return client;
}

void reeve_client_destroy(struct reeve_client *client)
{
	if (!client)
		return;
	rpc_client_destroy(client->rpc);
	pthread_cond_destroy(&client->interrupt);
	pthread_mutex_destroy(&client->lock);
	free(client->managers);
	free(client);
}

static bool is_interrupted(struct reeve_client *client)
{
	pthread_mutex_lock(&client->lock);
	bool interrupted = client->interrupted;
	pthread_mutex_unlock(&client->lock);
	return interrupted;
}

void client_poll(struct reeve_client *client, bool there)
{
	int64_t now_ms = clock_monotonic_ms();
	bool notify;

	pthread_mutex_lock(&client->lock);
	if (!there && !client->absent_ms)
		client->absent_ms = now_ms;
	notify = there ? client->absent_notified : !client->absent_notified && now_ms - client->absent_ms >= ABSENT_MS;
	client->absent_notified = there ? false : client->absent_notified || notify;
	if (there)
		client->absent_ms = 0;
	pthread_mutex_unlock(&client->lock);
	if (notify && client->absent)
		client->absent(client->absent_arg, there);
}

bool reeve_client_ready(struct reeve_client *client, struct reeve_failure *failure)
{
	/* A client that has reached a manager before waits for one to return for as long as a call may take. */
	int64_t timeout_ms = client->met ? client->call_timeout_ms : client->connect_timeout_ms;
	int64_t end = clock_monotonic_ms() + timeout_ms;
	char text[32], absence[300];

	for (;;) {
		int64_t left = end - clock_monotonic_ms();
		bool there;

		if (is_interrupted(client))
			return fail(failure, STATUS(CANCELLED), "interrupted");
		there = rpc_client_alive(client->rpc, left < 0 ? 0 : left < POLL_MS ? left : POLL_MS);
		client_poll(client, there);
		if (there) {
			client->met = true;
			return true;
		}
		if (left <= 0) {
			rpc_client_absence(client->rpc, absence, sizeof absence);
			return fail(failure, STATUS(UNAVAILABLE), "no manager reachable at %s (tried for %s): %s", client->managers,
			    duration_format(timeout_ms, text, sizeof text), absence);
		}
	}
}

int64_t reeve_client_now_us(struct reeve_client *client)
{
	return rpc_client_now_ms(client->rpc) * 1000;
}

size_t reeve_client_max_details(struct reeve_client *client)
{
	return rpc_client_max_details(client->rpc);
}

bool reeve_request_id(struct reeve_client *client, uint8_t request_id[REEVE_REQUEST_ID], struct reeve_failure *failure)
{
	/* The id contains the managers' time, which is known after the first answer. */
	if (!reeve_client_ready(client, failure))
		return false;
	uuid7_make(rpc_client_now_ms(client->rpc), request_id);
	return true;
}
