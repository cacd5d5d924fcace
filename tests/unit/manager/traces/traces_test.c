/* Spans go to a real collector on loopback; the clock of the jobs is the test's. */
#include "manager/traces/traces.h"

#include "common/mem.h"
#include "tests/unit/compare.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const char good[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

/* The collector keeps the last request. Without an answer it lets the client wait. */
static struct {
	struct evconnlistener *listener;
	struct bufferevent *connections[20], *connection; /* all, and that of the last request */
	int accepted, port, requests;
	const char *answer;
	char *path, *body;
} collector;

static struct event_base *base;
static struct jobs *jobs;
static struct traces *traces;
static int64_t now_ms, alarm_ms;
static int finished;

static void answer(const char *text)
{
	bufferevent_write(collector.connection, text, strlen(text));
}

static void on_read(struct bufferevent *connection, void *arg)
{
	struct evbuffer *input = bufferevent_get_input(connection);
	char *text = (char *)evbuffer_pullup(input, -1);
	size_t length = evbuffer_get_length(input);
	const char *head = memmem(text, length, "\r\n\r\n", 4), *size = memmem(text, length, "Content-Length: ", 16);
	(void)arg;
	if (!head || !size || length < (size_t)(head + 4 - text) + strtoul(size + 16, NULL, 10))
		return;
	free(collector.path);
	free(collector.body);
	collector.path = mem_strndup(text + 5, strcspn(text + 5, " ")); /* after "POST " */
	collector.body = mem_strndup(head + 4, length - (size_t)(head + 4 - text));
	collector.connection = connection;
	collector.requests++;
	evbuffer_drain(input, length);
	if (collector.answer)
		answer(collector.answer);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int length, void *arg)
{
	struct bufferevent *connection = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	(void)listener, (void)from, (void)length, (void)arg;
	bufferevent_setcb(connection, on_read, NULL, NULL, NULL);
	collector.connections[collector.accepted++] = connection;
	bufferevent_enable(connection, EV_READ | EV_WRITE);
}

static int64_t clock_now(void)
{
	return now_ms;
}

static void alarm_set(void *arg, int64_t at_ms)
{
	(void)arg;
	if (at_ms < alarm_ms)
		alarm_ms = at_ms;
}

static void listen_on_loopback(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	collector.listener = evconnlistener_new_bind(
	    base, on_accept, NULL, LEV_OPT_CLOSE_ON_FREE, -1, (struct sockaddr *)&address, sizeof address);
	cr_assert(ne(ptr, collector.listener, NULL));
	getsockname(evconnlistener_get_fd(collector.listener), (struct sockaddr *)&address, &length);
	collector.port = ntohs(address.sin_port);
}

static void begin(const char *path, double sample)
{
	static const struct jobs_host host = {.now_ms = clock_now, .alarm = alarm_set};
	struct reeve_error error;
	char url[100];
	base = event_base_new();
	listen_on_loopback();
	collector.answer = good;
	now_ms = 1000;
	alarm_ms = JOB_NEVER;
	jobs = jobs_create(manager_jobs, JOBS, &host);
	snprintf(url, sizeof url, "http://127.0.0.1:%d%s", collector.port, path);
	traces =
	    traces_create(base, jobs, &(struct traces_options){.url = url, .sample = sample, .manager = "tester"}, &error);
	cr_assert(ne(ptr, traces, NULL), "%s", error.message);
}

static void end(void)
{
	traces_destroy(traces);
	jobs_destroy(jobs);
	for (int i = 0; i < collector.accepted; i++)
		bufferevent_free(collector.connections[i]);
	if (collector.listener)
		evconnlistener_free(collector.listener);
	free(collector.path);
	free(collector.body);
	memset(&collector, 0, sizeof collector);
	event_base_free(base);
}

/* Lets time pass, and runs what is due. */
static void pass(int64_t ms)
{
	now_ms += ms;
	alarm_ms = JOB_NEVER;
	jobs_run(jobs);
}

/* Runs the loop until the collector has got so many requests. */
static void until_requests(int count)
{
	while (collector.requests < count)
		event_base_loop(base, EVLOOP_ONCE);
}

/* Runs the loop until the traces have got the answer while spans wait, so that they have set the time of the next
 * request. */
static void until_alarm(void)
{
	while (alarm_ms == JOB_NEVER)
		event_base_loop(base, EVLOOP_ONCE);
}

static void add(const char *problem)
{
	traces_add(traces,
	    &(struct span){.kind = SPAN_RUN,
	        .traceparent = "00-11111111111111111111111111111111-2222222222222222-01",
	        .task = 7,
	        .queue = "q",
	        .type = "t",
	        .attempt = 1,
	        .worker = 3,
	        .from_us = 1000000,
	        .to_us = 2000000,
	        .outcome = problem ? "failed" : "completed",
	        .problem = problem});
}

/* Returns the spans of the last request: a new array. */
static json_t *spans_of_request(void)
{
	json_t *body = json_loads(collector.body, 0, NULL), *spans = NULL;
	cr_assert(ne(ptr, body, NULL), "%s", collector.body);
	json_unpack(body, "{s[{s[{sO}]}]}", "resourceSpans", "scopeSpans", "spans", &spans);
	cr_assert(ne(ptr, spans, NULL), "%s", collector.body);
	json_decref(body);
	return spans;
}

static size_t count_of_request(void)
{
	json_t *spans = spans_of_request();
	size_t count = json_array_size(spans);
	json_decref(spans);
	return count;
}

Test(traces, spans_wait_for_a_second_and_for_the_request_before)
{
	begin("", 1);
	add(NULL);
	now_ms += 400;
	add(NULL);
	cr_expect(eq(i64, alarm_ms, 2000));
	pass(599);
	cr_expect(eq(i64, alarm_ms, 2000));
	collector.answer = NULL;
	pass(1);
	until_requests(1);
	cr_expect(eq(str, collector.path, "/v1/traces"));
	cr_expect(eq(sz, count_of_request(), 2));
	add(NULL); /* while it is in flight */
	pass(5000);
	cr_expect(eq(i64, alarm_ms, JOB_NEVER));
	answer(good);
	until_alarm();
	pass(0);
	until_requests(2);
	cr_expect(eq(sz, count_of_request(), 1));
	now_ms += 10;
	answer(good);
	add(NULL);
	until_alarm();
	cr_expect(eq(i64, alarm_ms, now_ms + 1000), "the next one waits again");
	end();
}

static void expect_pause(const char *text, int64_t pause_ms)
{
	int requests = collector.requests;
	collector.answer = text;
	add(NULL);
	pass(60000);
	until_requests(requests + 1);
	add(NULL);
	until_alarm();
	cr_expect(eq(i64, alarm_ms, now_ms + pause_ms), "%s", text);
	now_ms += 500; /* further spans do not shorten the pause */
	add("later");
	cr_expect(eq(i64, alarm_ms, now_ms - 500 + pause_ms), "%s", text);
}

/* A request goes where the URL says, however the collector answers, and the next one is not too early. */
Test(traces, a_collector_that_fails_gets_a_pause)
{
	char elsewhere[120];
	begin("/?key=secret", 1);
	snprintf(elsewhere, sizeof elsewhere,
	    "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%d/elsewhere\r\nContent-Length: 0\r\n\r\n",
	    collector.port);
	expect_pause("HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n", 1000);
	cr_expect(eq(str, collector.path, "/?key=secret"));
	expect_pause("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 7000);
	expect_pause("HTTP/1.1 429 Too Many\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n", 60000);
	expect_pause(elsewhere, 1000);
	cr_expect(eq(str, collector.path, "/?key=secret"));
	expect_pause("SSH-2.0-OpenSSH_9.2\r\n", 1000);
	expect_pause(good, 1000);
	end();
}

Test(traces, a_collector_that_is_down_gets_a_pause)
{
	begin("", 1);
	evconnlistener_free(collector.listener);
	collector.listener = NULL;
	add(NULL);
	pass(1000);
	add(NULL);
	until_alarm();
	cr_expect(eq(i64, alarm_ms, now_ms + 1000));
	end();
}

Test(traces, spans_that_wait_are_limited)
{
	char problem[1000];
	begin("", 1);
	memset(problem, 'x', sizeof problem - 1);
	problem[sizeof problem - 1] = 0;
	memcpy(problem + 199, "ä", 2); /* is not split */
	collector.answer = NULL;
	while (alarm_ms > now_ms) /* so many do not wait for the second */
		add(problem);
	pass(0);
	until_requests(1);
	cr_expect(lt(sz, strlen(collector.body), 300 << 10));
	json_t *spans = spans_of_request();
	const char *message = NULL;
	json_unpack(json_array_get(spans, 0), "{s{ss}}", "status", "message", &message);
	cr_assert(ne(ptr, (void *)message, NULL));
	cr_expect(eq(sz, strlen(message), 199));
	json_decref(spans);
	for (int i = 0; i < 20000; i++)
		add(problem);
	answer(good);
	until_alarm();
	pass(0);
	until_requests(2);
	cr_expect(lt(sz, strlen(collector.body), (4 << 20) + 2000));
	cr_expect(gt(sz, strlen(collector.body), (4 << 20) - 2000));
	end();
}

static void on_finished(void *arg)
{
	(void)arg;
	finished++;
	event_base_loopbreak(base);
}

Test(traces, what_waits_is_sent_at_the_end)
{
	begin("", 1);
	traces_finish(NULL, on_finished, NULL);
	traces_finish(traces, on_finished, NULL);
	cr_expect(eq(int, finished, 2));
	add(NULL);
	traces_finish(traces, on_finished, NULL);
	collector.answer = NULL;
	pass(0);
	until_requests(1);
	add(NULL);
	cr_expect(eq(int, finished, 2));
	answer(good);
	until_alarm();
	collector.answer = good;
	pass(0);
	event_base_dispatch(base);
	cr_expect(eq(int, finished, 3));
	cr_expect(eq(int, collector.requests, 2));
	add(NULL);
	collector.answer = "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n";
	traces_finish(traces, on_finished, NULL);
	pass(0);
	event_base_dispatch(base);
	cr_expect(eq(int, finished, 4));
	end();
}

Test(traces, traces_begin_by_chance)
{
	char traceparent[TRACEPARENT_BYTES];
	int begun = 0;
	begin("", 0.5);
	for (int i = 0; i < 10000; i++)
		if (traces_begin(traces, traceparent)) {
			begun++;
			cr_assert(eq(sz, strlen(traceparent), TRACEPARENT_BYTES - 1));
			cr_assert(eq(sz, strspn(traceparent, "0123456789abcdef-"), TRACEPARENT_BYTES - 1));
		}
	cr_expect(gt(int, begun, 4000));
	cr_expect(lt(int, begun, 6000));
	end();
	begin("", 0);
	for (int i = 0; i < 1000; i++)
		cr_assert(not(traces_begin(traces, traceparent)));
	end();
}
