/* The steps of a delivery: take, report (unless it has a payload), call, finish. Then there is room for another one, so
 * the job runs again. */
#include "manager/callbacks/callbacks.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "manager/callbacks/http.h"
#include "manager/callbacks/signature.h"
#include "manager/callbacks/url.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <utlist.h>

enum { AT_ONCE = 16, AT_ONE_SITE = 4, GONE = 410, REPORT_MS = 10000, SETTLE_MS = 5000 };

/* The retry delay after the n-th try: 1 s, 4 s, 16 s, 64 s, … up to 6 hours, minus up to a quarter at random. Twelve
 * tries take about a day. */
enum { PAUSE_MS = 1000, PAUSE_FACTOR = 4, PAUSE_MAX_MS = 6 * 3600 * 1000, PAUSE_JITTER = 4 };

struct delivery {
	struct callbacks *callbacks;
	int64_t id, batch_id, task_id;
	char *event, *url, *site, *secret, *payload; /* secret and payload may be NULL */
	int32_t attempt, take;
	char *problem; /* why the try failed */
	struct store_callback_report report;
	struct store_callback_finish finish;
	struct delivery *prev, *next;
};

struct callbacks {
	struct store *store;
	struct jobs *jobs;
	struct callbacks_options options;
	struct callbacks_counters counters;
	struct http *http;
	struct delivery *deliveries; /* utlist: in flight */
	int count;
	struct store_callbacks_take take;
	struct store_site sites[AT_ONCE]; /* for `take`; the names are copies */
};

static char *copy(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

static void delivery_free(struct delivery *d)
{
	DL_DELETE(d->callbacks->deliveries, d);
	d->callbacks->count--;
	free(d->event);
	free(d->url);
	free(d->site);
	free(d->secret);
	free(d->payload);
	free(d->problem);
	free(d);
}

/* Sets d->problem. It may contain any bytes from servers and certificates, so invalid UTF-8 is replaced. */
static void problem_set(struct delivery *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void problem_set(struct delivery *d, const char *format, ...)
{
	char text[400];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	free(d->problem);
	d->problem = utf8_repair(text, strlen(text));
}

static int64_t pause_ms(int32_t attempt)
{
	int64_t pause = PAUSE_MS;
	while (--attempt > 0 && pause < PAUSE_MAX_MS)
		pause *= PAUSE_FACTOR;
	if (pause > PAUSE_MAX_MS)
		pause = PAUSE_MAX_MS;
	uint32_t chance = 0;
	if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance)
		chance = 0;
	return pause - chance % (pause / PAUSE_JITTER);
}

static void on_finished(struct store_op *op, const struct reeve_error *error)
{
	struct delivery *d = (struct delivery *)((char *)op - offsetof(struct delivery, finish));
	struct callbacks *c = d->callbacks;
	if (!error && d->finish.changed) {
		c->counters.delivered += d->finish.delivered;
		c->counters.given_up += d->finish.over;
		if (d->finish.over) {
			char site[CALLBACK_SITE_BYTES];
			log_warn(NULL, "callback %lld (%s of batch %lld) to %s is given up after %d %s: %s", (long long)d->id,
			    d->event, (long long)d->batch_id, callback_url_site(d->url, site), (int)d->attempt,
			    d->attempt == 1 ? "try" : "tries", d->problem);
		}
	}
	delivery_free(d);
	if (!error)
		jobs_ask(c->jobs, JOB_CALLBACKS); /* there is room for another */
}

static void finish(struct delivery *d, bool delivered, bool over, int status, int64_t min_pause_ms)
{
	struct callbacks *c = d->callbacks;
	int64_t pause = pause_ms(d->attempt);
	c->counters.failed += !delivered;
	if (pause < min_pause_ms)
		pause = min_pause_ms < PAUSE_MAX_MS ? min_pause_ms : PAUSE_MAX_MS;
	d->finish = (struct store_callback_finish){
	    .op.done = on_finished,
	    .id = d->id,
	    .take = d->take,
	    .attempts = d->attempt,
	    .delivered = delivered,
	    .over = !delivered && (over || d->attempt >= c->options.attempts),
	    .pause_ms = pause,
	    .status = status,
	    .error = delivered ? NULL : d->problem,
	};
	store_callback_finish(c->store, &d->finish);
}

static void on_answered(void *arg, const struct http_answer *answer)
{
	struct delivery *d = arg;
	bool delivered = answer->status >= 200 && answer->status < 300;
	if (answer->status >= 300 && answer->status < 400)
		problem_set(d, "HTTP status %d; redirects are not followed", answer->status);
	else if (answer->status)
		problem_set(d, "HTTP status %d", answer->status);
	else
		problem_set(d, "%s", answer->problem);
	finish(d, delivered, answer->status == GONE, answer->status, answer->retry_after_ms);
}

static void call(struct delivery *d, const char *body)
{
	char id[40], id_line[64], time_line[64], signature[CALLBACK_SIGNATURE_BYTES], signature_line[128];
	int64_t now = clock_wall_us() / 1000000; /* wall clock: receivers reject old calls by their own clocks */
	size_t length = strlen(body);
	const char *headers[] = {"Content-Type: application/json", id_line, time_line, NULL, NULL};
	snprintf(id, sizeof id, "cb_%lld", (long long)d->id);
	snprintf(id_line, sizeof id_line, "webhook-id: %s", id);
	snprintf(time_line, sizeof time_line, "webhook-timestamp: %lld", (long long)now);
	if (text_given(d->secret)) {
		snprintf(signature_line, sizeof signature_line, "webhook-signature: %s",
		    callback_sign(d->secret, id, now, body, length, signature));
		headers[3] = signature_line;
	}
	http_post(d->callbacks->http, d->url, headers, body, length, on_answered, d);
}

static void on_reported(struct store_op *op, const struct reeve_error *error)
{
	struct delivery *d = (struct delivery *)((char *)op - offsetof(struct delivery, report));
	if (error) {
		problem_set(d, "its report could not be made: %s", error->message);
		finish(d, false, false, 0, 0);
	} else if (!d->report.body) {
		problem_set(d, "the batch is not there any more");
		finish(d, false, true, 0, 0);
	} else {
		call(d, d->report.body);
	}
}

static void deliver(struct delivery *d)
{
	struct callbacks *c = d->callbacks;
	const char *problem = callback_url_problem(d->url);
	if (problem) {
		problem_set(d, "the URL %s", problem);
		finish(d, false, true, 0, 0);
	} else if (!callback_url_allowed(d->url, c->options.hosts)) {
		problem_set(d, "the URL's host is none of those that --callback-hosts allows");
		finish(d, false, true, 0, 0);
	} else if (d->attempt > c->options.attempts) {
		d->attempt--; /* this try is not made */
		problem_set(d, "it has been tried as often as --callback-tries says");
		finish(d, false, true, 0, 0);
	} else if (d->payload) {
		call(d, d->payload);
	} else {
		d->report = (struct store_callback_report){.op.done = on_reported, .batch_id = d->batch_id, .event = d->event};
		store_callback_report(c->store, &d->report);
	}
}

static void on_taken(struct store_op *op, const struct reeve_error *error)
{
	struct callbacks *c = (struct callbacks *)((char *)op - offsetof(struct callbacks, take));
	jobs_done(c->jobs, JOB_CALLBACKS, error, false);
	for (int i = 0; i < c->take.site_count; i++)
		free((char *)c->sites[i].site);
	if (error)
		return;
	for (int i = 0; i < c->take.count; i++) {
		const struct store_callback *taken = &c->take.callbacks[i];
		struct delivery *d = mem_calloc(1, sizeof *d);
		d->callbacks = c;
		d->id = taken->id;
		d->batch_id = taken->batch_id;
		d->task_id = taken->task_id;
		d->event = copy(taken->event);
		d->url = copy(taken->url);
		d->site = copy(taken->site);
		d->secret = copy(taken->secret);
		d->payload = copy(taken->payload);
		d->attempt = taken->attempt;
		d->take = taken->take;
		DL_APPEND(c->deliveries, d);
		c->count++;
		deliver(d);
	}
}

/* Counts the deliveries in flight to each site into c->sites and returns the number of sites. The caller frees the
 * names. */
static int count_sites(struct callbacks *c)
{
	const struct delivery *d;
	int n = 0, i;
	DL_FOREACH (c->deliveries, d) {
		for (i = 0; i < n && strcmp(c->sites[i].site, d->site) != 0; i++) {
		}
		if (i == n)
			c->sites[n++] = (struct store_site){mem_strdup(d->site), 0};
		c->sites[i].count++;
	}
	return n;
}

static bool take(void *arg)
{
	struct callbacks *c = arg;
	if (c->count >= AT_ONCE)
		return false;
	c->take = (struct store_callbacks_take){
	    .op.done = on_taken,
	    .limit = AT_ONCE - c->count,
	    .site_limit = AT_ONE_SITE,
	    .lease_ms = c->options.timeout_ms + REPORT_MS + SETTLE_MS,
	    .now_us = c->options.database_us(c->options.arg),
	    .site_count = count_sites(c),
	    .sites = c->sites,
	};
	store_callbacks_take(c->store, &c->take);
	return true;
}

struct callbacks *callbacks_create(struct event_base *base, struct store *store, struct jobs *jobs,
    const struct callbacks_options *options, struct reeve_error *error)
{
	const struct http_options http_options = {
	    .timeout_ms = options->timeout_ms,
	    .ca_file = options->ca_file,
	    .connections = AT_ONCE,
	    .private = options->private,
	};
	struct http *http = http_create(base, &http_options, error);
	if (!http)
		return NULL;
	struct callbacks *c = mem_calloc(1, sizeof *c);
	c->store = store;
	c->options = *options;
	c->http = http;
	c->jobs = jobs;
	jobs_bind(jobs, JOB_CALLBACKS, take, c);
	return c;
}

void callbacks_destroy(struct callbacks *c)
{
	struct delivery *d, *tmp;
	if (!c)
		return;
	http_destroy(c->http);
	DL_FOREACH_SAFE (c->deliveries, d, tmp)
		delivery_free(d);
	free(c);
}

const struct callbacks_counters *callbacks_counters(const struct callbacks *c)
{
	return &c->counters;
}
