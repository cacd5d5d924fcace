/* At most one request is in flight. Spans wait as text, so that a request costs no more than copying them. */
#include "manager/traces/traces.h"

#include "common/log.h"
#include "common/mem.h"
#include "common/text.h"
#include "manager/callbacks/http.h"
#include "manager/callbacks/url.h"

#include <jansson.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	WAITING_MAX = 4 << 20, /* bytes of spans that wait; the last one may exceed it */
	SEND_FROM = 256 << 10, /* so many do not wait any longer */
	WAIT_MS = 1000,        /* how long spans wait for others; and after a failure, at least */
	HELD_MAX_MS = 60000,   /* how long a collector can ask for */
	TIMEOUT_MS = 10000,
	PROBLEM_BYTES = 200,
};

struct traces {
	struct jobs *jobs;
	struct http *http;
	char *url, *resource;           /* the manager, as JSON */
	char site[CALLBACK_SITE_BYTES]; /* the collector in the log: its path may be secret */
	double sample;
	char *spans; /* that wait, each after a comma */
	size_t length, size;
	int count;
	int64_t first_ms; /* since when the first of them waits */
	int64_t held_ms;  /* after a failure: no request before this time */
	int sent;         /* spans in flight; 0: no request is */
	struct traces_counts counts;
	int64_t lost_logged; /* spans lost, according to the log */
	int64_t logged_ms;   /* when that was */
	traces_done *done;   /* or NULL: the end is not awaited */
	void *done_arg;
};

/* --- spans ----------------------------------------------------------------------------------------------------------
 */

static void random_hex(size_t count, char *out)
{
	uint8_t bytes[16] = {0};

	RAND_bytes(bytes, (int)count);
	bytes[0] |= 1; /* an id of zeros is invalid */
	text_hex(bytes, count, out);
}

bool traces_begin(struct traces *t, char traceparent[TRACEPARENT_BYTES])
{
	char trace[33], span[17];
	uint32_t random = 0;

	RAND_bytes((uint8_t *)&random, sizeof random);
	if ((double)random >= t->sample * 4294967296.0)
		return false;
	random_hex(16, trace);
	random_hex(8, span);
	snprintf(traceparent, TRACEPARENT_BYTES, "00-%s-%s-01", trace, span);
	return true;
}

static void add_text(json_t *attributes, const char *key, const char *value)
{
	json_array_append_new(attributes, json_pack("{ss s{ss?}}", "key", key, "value", "stringValue", value));
}

static void add_number(json_t *attributes, const char *key, int64_t value)
{
	json_array_append_new(
	    attributes, json_pack("{ss s{so}}", "key", key, "value", "intValue", json_sprintf("%lld", (long long)value)));
}

static json_t *attributes_of(const struct span *span)
{
	json_t *attributes = json_array();
	char id[24];

	snprintf(id, sizeof id, "%lld", (long long)span->task);
	add_text(attributes, "messaging.system", "reeve");
	add_text(attributes, "messaging.destination.name", span->queue);
	add_text(attributes, "messaging.message.id", id);
	add_text(attributes, "reeve.type", span->type);
	if (span->kind != SPAN_SUBMIT)
		add_number(attributes, "reeve.attempt", span->attempt);
	if (span->kind == SPAN_RUN) {
		add_number(attributes, "reeve.worker", span->worker);
		add_text(attributes, "reeve.outcome", span->outcome);
	}
	if (span->error_code)
		add_text(attributes, "error.type", span->error_code);
	return attributes;
}

static json_t *nanoseconds(int64_t us)
{
	return json_sprintf("%lld000", (long long)us);
}

static json_t *span_json(const struct span *span)
{
	static const char *const words[] = {[SPAN_SUBMIT] = "submit", [SPAN_WAIT] = "wait", [SPAN_RUN] = "run"};
	static const int kinds[] = {[SPAN_SUBMIT] = 4, [SPAN_WAIT] = 1, [SPAN_RUN] = 5}; /* producer, internal, consumer */
	char trace[33], parent[17], own[17];
	json_t *object;

	snprintf(trace, sizeof trace, "%.32s", span->traceparent + 3);
	snprintf(parent, sizeof parent, "%.16s", span->traceparent + 36);
	if (span->root)
		memcpy(own, parent, sizeof own);
	else
		random_hex(8, own);
	object = json_pack("{ss ss so si so so so}", "traceId", trace, "spanId", own, "name",
	    json_sprintf("%s %s", words[span->kind], span->type), "kind", kinds[span->kind], "startTimeUnixNano",
	    nanoseconds(span->from_us), "endTimeUnixNano", nanoseconds(span->to_us), "attributes", attributes_of(span));
	if (!span->root)
		json_object_set_new(object, "parentSpanId", json_string(parent));
	if (span->problem)
		json_object_set_new(object, "status",
		    json_pack("{si ss%}", "code", 2, "message", span->problem,
		        utf8_cut(span->problem, strnlen(span->problem, PROBLEM_BYTES))));
	return object;
}

/* --- sending --------------------------------------------------------------------------------------------------------
 */

/* Sets the time of the next request. */
static void schedule(struct traces *t)
{
	int64_t at_ms = t->done || t->length >= SEND_FROM ? 0 : t->first_ms + WAIT_MS;
	if (t->count && !t->sent)
		jobs_at(t->jobs, JOB_TRACES, at_ms > t->held_ms ? at_ms : t->held_ms);
}

void traces_add(struct traces *t, const struct span *span)
{
	json_t *object = t->length < WAITING_MAX ? span_json(span) : NULL;
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	size_t length = text ? strlen(text) + 1 : 0; /* with the comma */

	json_decref(object);
	if (!text) {
		t->counts.lost++;
		return;
	}
	if (t->length + length >= t->size) {
		t->size = 2 * (t->length + length);
		t->spans = mem_realloc(t->spans, t->size);
	}
	if (!t->count++)
		t->first_ms = jobs_now(t->jobs);
	snprintf(t->spans + t->length, t->size - t->length, ",%s", text);
	t->length += length;
	free(text);
	schedule(t);
}

static void on_sent(void *arg, const struct http_answer *answer)
{
	struct traces *t = arg;
	int64_t now_ms = jobs_now(t->jobs), wait_ms = answer->retry_after_ms;
	bool good = answer->status >= 200 && answer->status < 300;
	int64_t lost;

	if (!good) {
		wait_ms = wait_ms > HELD_MAX_MS ? HELD_MAX_MS : wait_ms < WAIT_MS ? WAIT_MS : wait_ms;
		t->held_ms = now_ms + wait_ms;
		t->counts.lost += t->sent;
	} else {
		t->counts.sent += t->sent;
	}
	lost = t->counts.lost - t->lost_logged;
	if (lost && log_again(&t->logged_ms, now_ms)) {
		if (good)
			log_warn("traces", "%s is too slow; spans lost: %lld", t->site, (long long)lost);
		else if (answer->status)
			log_warn("traces", "%s answered with HTTP status %d; spans lost: %lld", t->site, answer->status,
			    (long long)lost);
		else
			log_warn("traces", "%s: %s; spans lost: %lld", t->site, answer->problem, (long long)lost);
		t->lost_logged = t->counts.lost;
	}
	t->sent = 0;
	if (t->done && (!good || !t->count)) {
		traces_done *done = t->done;
		t->done = NULL;
		done(t->done_arg);
	} else {
		schedule(t);
	}
}

static bool send_spans(void *arg)
{
	static const char *const headers[] = {"Content-Type: application/json", NULL};
	struct traces *t = arg;
	char *body;

	if (t->sent || !t->count)
		return false;
	body = mem_asprintf(
	    "{\"resourceSpans\":[{\"resource\":%s,\"scopeSpans\":[{\"scope\":{\"name\":\"reeve-manager\"},\"spans\":"
	    "[%s]}]}]}",
	    t->resource, t->spans + 1);
	t->sent = t->count;
	free(t->spans);
	t->spans = NULL;
	t->length = t->size = 0;
	t->count = 0;
	http_post(t->http, t->url, headers, body, strlen(body), on_sent, t);
	free(body);
	return false;
}

struct traces_counts traces_counts(const struct traces *t)
{
	return t->counts;
}

void traces_finish(struct traces *t, traces_done *done, void *arg)
{
	if (!t || (!t->count && !t->sent)) {
		done(arg);
		return;
	}
	t->done = done;
	t->done_arg = arg;
	schedule(t);
}

/* Returns the URL of the requests: one without a path gets the standard's. */
static char *url_with_path(const char *url)
{
	size_t host = strcspn(strstr(url, "://") + 3, "/?#") + (size_t)(strstr(url, "://") + 3 - url);
	bool none = !url[host] || (url[host] == '/' && !url[host + 1]);
	return none ? mem_asprintf("%.*s/v1/traces", (int)host, url) : mem_strdup(url);
}

static char *resource_of(const char *manager)
{
	json_t *attributes = json_array(), *resource = json_pack("{sO}", "attributes", attributes);
	char *text;

	add_text(attributes, "service.name", "reeve");
	add_text(attributes, "service.instance.id", manager);
	add_text(attributes, "service.version", REEVE_VERSION);
	text = json_dumps(resource, JSON_COMPACT);
	json_decref(attributes);
	json_decref(resource);
	return text;
}

struct traces *traces_create(
    struct event_base *base, struct jobs *jobs, const struct traces_options *options, struct reeve_error *error)
{
	const struct http_options http = {
	    .timeout_ms = TIMEOUT_MS, .ca_file = options->ca_file, .connections = 1, .private = true};
	const char *problem = callback_url_problem(options->url);
	struct http *client;
	struct traces *t;

	if (problem) {
		error_set(error, STATUS(INVALID_ARGUMENT), "--traces %s: it %s", options->url, problem);
		return NULL;
	}
	client = http_create(base, &http, error);
	if (!client)
		return NULL;
	t = mem_calloc(1, sizeof *t);
	t->jobs = jobs;
	t->http = client;
	t->sample = options->sample;
	t->url = url_with_path(options->url);
	t->resource = resource_of(options->manager);
	callback_url_site(options->url, t->site);
	jobs_bind(jobs, JOB_TRACES, send_spans, t);
	return t;
}

void traces_destroy(struct traces *t)
{
	if (!t)
		return;
	http_destroy(t->http);
	free(t->spans);
	free(t->url);
	free(t->resource);
	free(t);
}
