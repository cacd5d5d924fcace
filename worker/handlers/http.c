/*
 * Handlers that are web services: each attempt is a POST of the task's details. The status of the answer decides about
 * the task, its body is the result.
 *
 * A call runs on the slot's thread, which waits for it and for the slot's eventfd. An attempt that must stop, or has
 * timed out, closes its connection. A worker that is frozen could not: so slots.c counts these handlers as functions,
 * and the watchdog kills the worker at the lease's end. Connections are kept open for the next calls.
 */
#include "common/clock.h"
#include "common/limits.h"
#include "common/mem.h"
#include "common/text.h"
#include "common/utf8.h"
#include "worker/attempt.h"
#include "worker/handler.h"
#include "worker/handlers/kinds.h"
#include "worker/lease.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	HEAD_MAX_BYTES = 64 * 1024,
	ERROR_BYTES = 4096, /* the first bytes of an answer that become the error */
	POLL_MAX_MS = 3600 * 1000,
};

/* What makes a call, and keeps its connection for the next one. */
struct caller {
	struct caller *next;
	CURLM *multi;
	CURL *easy;
};

struct http_handler {
	struct handler base;
	struct handler_spec spec;
	char *url, *socket; /* the socket's path; NULL: TCP */
	char *site;         /* for errors: the URL without its user, path and query, which may be secret */

	pthread_mutex_t lock;
	struct caller *idle; /* guarded by it */
};

/* A call. */
struct call {
	struct http_handler *handler;
	struct attempt *attempt;
	struct caller *caller;
	struct curl_slist *headers;
	size_t head_bytes;
	char *body;
	size_t length, size;
	bool too_long;
	char problem[CURL_ERROR_SIZE];
};

/* These limit the length of an answer. libcurl ends the call if they return anything but `length`. */
static size_t on_head(char *data, size_t size, size_t length, void *arg)
{
	struct call *call = arg;

	(void)data, (void)size;
	call->head_bytes += length;
	return call->head_bytes > HEAD_MAX_BYTES ? 0 : length;
}

static size_t on_body(char *data, size_t size, size_t length, void *arg)
{
	struct call *call = arg;

	(void)size;
	call->too_long = length > call->handler->spec.max_output_bytes - call->length;
	if (call->too_long)
		return 0;
	if (call->length + length + 1 > call->size) {
		call->size = 2 * call->size + length + 1;
		call->body = mem_realloc(call->body, call->size);
	}
	memcpy(call->body + call->length, data, length);
	call->length += length;
	call->body[call->length] = '\0';
	return length;
}

/* ---- callers ---- */

static void caller_free(struct caller *caller)
{
	curl_easy_cleanup(caller->easy);
	curl_multi_cleanup(caller->multi);
	free(caller);
}

static struct caller *take_caller(struct http_handler *handler)
{
	struct caller *caller;

	pthread_mutex_lock(&handler->lock);
	caller = handler->idle;
	if (caller)
		handler->idle = caller->next;
	pthread_mutex_unlock(&handler->lock);
	if (caller)
		return caller;
	caller = mem_calloc(1, sizeof *caller);
	caller->multi = curl_multi_init();
	caller->easy = curl_easy_init();
	mem_check(caller->multi && caller->easy);
	return caller;
}

static void put_caller(struct http_handler *handler, struct caller *caller)
{
	pthread_mutex_lock(&handler->lock);
	caller->next = handler->idle;
	handler->idle = caller;
	pthread_mutex_unlock(&handler->lock);
}

/* ---- a call ---- */

/* Adds a header with a value, unless that is empty. Names in Reeve have no control characters. */
static void add_header(struct call *call, const char *name, const char *value)
{
	char *line;

	if (!*value)
		return;
	line = mem_asprintf("%s: %s", name, value);
	call->headers = curl_slist_append(call->headers, line);
	mem_check(call->headers != NULL);
	free(line);
}

static void add_number(struct call *call, const char *name, int64_t value)
{
	char text[32];

	snprintf(text, sizeof text, "%lld", (long long)value);
	add_header(call, name, text);
}

static void add_headers(struct call *call)
{
	const struct reeve_attempt *attempt = &call->attempt->public;
	char token[REEVE_ATTEMPT_TOKEN_BYTES] = "";

	reeve_attempt_access_token(attempt, token);
	add_header(call, "Content-Type", "application/json");
	add_number(call, "Reeve-Task-Id", attempt->task_id);
	add_header(call, "Reeve-Task-Type", attempt->type);
	add_header(call, "Reeve-Queue", attempt->queue);
	add_header(call, "Reeve-Key", attempt->key);
	add_header(call, "Reeve-Stage", attempt->stage);
	add_number(call, "Reeve-Attempt", attempt->attempt);
	add_number(call, "Reeve-Token", attempt->token);
	add_header(call, "Reeve-Attempt-Access-Token", token);
	add_header(call, "Traceparent", attempt->traceparent);
	call->headers = curl_slist_append(call->headers, "Expect:"); /* some services never answer that header */
	mem_check(call->headers != NULL);
}

/* Opens a socket that programs do not inherit. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)arg, (void)purpose;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void prepare(struct call *call)
{
	const char *details = call->attempt->public.details;
	CURL *easy = call->caller->easy;

	curl_easy_reset(easy); /* keeps the connection */
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->problem);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for the thread that looks up a name */
	curl_easy_setopt(easy, CURLOPT_URL, call->handler->url);
	if (call->handler->socket)
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, call->handler->socket);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "Reeve/" REEVE_VERSION);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(details));
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, details);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
}

/* Waits until the call can go on, or the attempt may have to stop. */
static void await(const struct call *call, int event_fd)
{
	struct curl_waitfd event = {.fd = event_fd, .events = CURL_WAIT_POLLIN};
	int64_t until_ms = atomic_load(&call->attempt->timeout_at_ms),
	        stop_ms = atomic_load(&call->attempt->lease->stop_ms);
	int64_t left_ms = (until_ms < stop_ms ? until_ms : stop_ms) - clock_monotonic_ms();
	uint64_t count;

	left_ms = left_ms < 0 ? 0 : left_ms > POLL_MAX_MS ? POLL_MAX_MS : left_ms;
	curl_multi_poll(call->caller->multi, &event, 1, (int)left_ms, NULL);
	if (event.revents && read(event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
		abort();
}

/* Makes the call. False: the attempt must stop, and the connection is closed. */
static bool perform(struct call *call, int event_fd, CURLcode *code)
{
	CURLM *multi = call->caller->multi;
	CURLMsg *message;
	int left;

	mem_check(curl_multi_add_handle(multi, call->caller->easy) == CURLM_OK);
	while (!reeve_attempt_cancelled(&call->attempt->public)) {
		curl_multi_perform(multi, &left);
		message = curl_multi_info_read(multi, &left);
		if (message) {
			*code = message->data.result;
			curl_multi_remove_handle(multi, call->caller->easy);
			return true;
		}
		await(call, event_fd);
	}
	curl_multi_remove_handle(multi, call->caller->easy);
	return false;
}

/* ---- its outcome ---- */

/* Ends the attempt with what the service has written about its failure. */
static void fail(struct call *call, long status, Reeve__V1__Outcome outcome)
{
	const char *body = call->body ? call->body : "";
	char *text = utf8_repair(body, call->length > ERROR_BYTES ? utf8_cut(body, ERROR_BYTES) : call->length);
	size_t length = strlen(text);
	curl_off_t retry_after = 0;
	char code[32];

	while (length && strchr("\r\n", text[length - 1]))
		text[--length] = '\0';
	snprintf(code, sizeof code, "http:%ld", status);
	attempt_end(call->attempt, outcome, code, "the service answered %ld%s%s", status, *text ? ": " : "", text);
	free(text);
	curl_easy_getinfo(call->caller->easy, CURLINFO_RETRY_AFTER, &retry_after);
	if ((status == 429 || status == 503) && retry_after > 0)
		reeve_outcome_retry_in(&call->attempt->outcome,
		    retry_after < LIMIT_RETRY_DAYS * INT64_C(86400) ? retry_after * 1000 : DAYS_MS(LIMIT_RETRY_DAYS));
}

/* Completes the attempt with the answer's body. */
static void complete(struct call *call)
{
	attempt_complete(call->attempt, call->body, call->length);
	call->body = NULL;
}

static void set_outcome(struct call *call, CURLcode code)
{
	long status = 0;

	curl_easy_getinfo(call->caller->easy, CURLINFO_RESPONSE_CODE, &status);
	if (call->too_long)
		attempt_end(call->attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "output-too-long",
		    "the answer is longer than %zu bytes (max-output)", call->handler->spec.max_output_bytes);
	else if (call->head_bytes > HEAD_MAX_BYTES)
		attempt_end(
		    call->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "http", "the answer's head is longer than 64 KiB");
	else if (code != CURLE_OK)
		attempt_end(call->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "http", "%s: %s", call->handler->site,
		    *call->problem ? call->problem : curl_easy_strerror(code));
	else if (status / 100 == 2)
		complete(call);
	else if (status / 100 == 4 && status != 408 && status != 425 && status != 429)
		fail(call, status, REEVE__V1__OUTCOME__OUTCOME_FATAL);
	else
		fail(call, status, REEVE__V1__OUTCOME__OUTCOME_FAILED);
}

static void http_run(struct handler *base, const struct handler_context *context, struct attempt *attempt)
{
	struct http_handler *handler = (struct http_handler *)base;
	struct call call = {.handler = handler, .attempt = attempt, .caller = take_caller(handler)};
	enum stop_reason stop;
	CURLcode code;

	add_headers(&call);
	prepare(&call);
	if (perform(&call, context->event_fd, &code)) {
		set_outcome(&call, code);
	} else {
		stop = atomic_load(&attempt->stop);
		if (stop == STOP_NONE)
			attempt_end_late(attempt, "");
		else
			attempt_end_stopped(attempt, stop);
	}
	curl_slist_free_all(call.headers);
	free(call.body);
	put_caller(handler, call.caller);
}

static void free_places(struct http_handler *handler)
{
	free(handler->url);
	free(handler->socket);
	free(handler->site);
}

static void http_release(struct handler *base)
{
	struct http_handler *handler = (struct http_handler *)base;
	struct caller *caller, *next;

	for (caller = handler->idle; caller; caller = next) {
		next = caller->next;
		caller_free(caller);
	}
	pthread_mutex_destroy(&handler->lock);
	free_places(handler);
	handler_spec_clear(&handler->spec);
}

/* Reads the URL, or "http://unix:SOCKET:/PATH". False: *error has the reason. */
static bool read_url(struct http_handler *handler, const char *text, struct reeve_error *error)
{
	static const char local[] = "http://unix:";
	static const CURLUPart secret[] = {
	    CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_PATH, CURLUPART_QUERY, CURLUPART_FRAGMENT};
	const char *path = text + sizeof local - 1, *colon;
	char *scheme = NULL, *site = NULL;
	CURLU *url;
	bool valid;

	if (!strncmp(text, local, sizeof local - 1)) {
		colon = strchr(path, ':');
		if (*path != '/' || !colon || colon[1] != '/')
			return error_set(
			    error, STATUS(INVALID_ARGUMENT), "%.200s is not http://unix:SOCKET:/PATH, with an absolute path", text);
		handler->socket = mem_strndup(path, (size_t)(colon - path));
		handler->url = mem_asprintf("http://localhost%s", colon + 1);
	} else {
		handler->url = mem_strdup(text);
	}
	url = curl_url();
	mem_check(url != NULL);
	valid = curl_url_set(url, CURLUPART_URL, handler->url, 0) == CURLUE_OK &&
	    curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    (!strcmp(scheme, "http") || !strcmp(scheme, "https"));
	if (valid) {
		for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
			curl_url_set(url, secret[i], NULL, 0);
		mem_check(curl_url_get(url, CURLUPART_URL, &site, 0) == CURLUE_OK);
		handler->site = handler->socket ? mem_asprintf("%s%s", local, handler->socket) : mem_strdup(site);
	}
	curl_free(site);
	curl_free(scheme);
	curl_url_cleanup(url);
	return valid || error_set(error, STATUS(INVALID_ARGUMENT), "%.200s is not a URL with http:// or https://", text);
}

static struct handler *http_handler_create(const char *type, struct handler_spec *spec, struct reeve_error *error)
{
	struct http_handler *handler = mem_calloc(1, sizeof *handler);

	if (!read_url(handler, spec->command, error)) {
		free_places(handler);
		free(handler);
		return NULL;
	}
	handler_init(&handler->base, type);
	handler->base.timeout_ms = spec->timeout_ms;
	handler->base.run = http_run;
	handler->base.release = http_release;
	handler->spec = *spec;
	*spec = (struct handler_spec){0};
	pthread_mutex_init(&handler->lock, NULL);
	return &handler->base;
}

void http_handlers_enable(void)
{
	static struct handler_kind kind = {.key = "http", .create = http_handler_create};

	mem_check(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
	handler_kinds_add(&kind);
}
