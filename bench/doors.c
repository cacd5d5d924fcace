/*
 * Measures the ways by which calls reach a manager:
 *
 *	bench-doors NNG-URL HTTP-URL PID TASKS PARKED
 *
 * Unless TASKS is 0: submits by 64 connections, each with one call at a time, through nng, HTTP/1.1 with JSON and with
 * protobuf's bytes, and gRPC.
 *
 * Unless PARKED is 0: that many pull clients wait for tasks, each with a Fetch on an HTTP/1.1 connection. Measures what
 * that costs the manager (PID), and how long a task needs from its submit to a Fetch's answer.
 *
 * Prints lines "name value unit".
 */
#include "bench/http_line.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "common/json.h"

#include <reeve/v1/task.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNECTIONS = 64, BULK = 1000, IDLE_S = 5, STAMPS = 200, STAMP_PAUSE_MS = 20 };

static const char submit[] = "/reeve.v1.TaskService/Submit";

static struct event_base *base;
static const char *nng_url, *http_url;
static long manager;

/* A way, and what is sent through it. */
struct way {
	const char *name;
	int kind; /* enum http_line_kind; −1: nng */
};

static const struct way ways[] = {
    {"nng", -1}, {"http_json", HTTP_LINE_JSON}, {"http_binary", HTTP_LINE_BINARY}, {"grpc", HTTP_LINE_GRPC}};

/* A measurement. */
struct flow {
	const struct way *way;
	const Reeve__V1__SubmitRequest *request;
	uint8_t *bytes; /* the same */
	size_t length;
	int left; /* calls to be sent … */
	int open; /* … and answered */
};

struct sender {
	struct flow *flow;
	struct peer *peer;
	struct http_line *line;
};

static void send_next(struct sender *sender);

static void answered(struct sender *sender)
{
	struct flow *flow = sender->flow;

	flow->open--;
	send_next(sender);
	if (!flow->open)
		event_base_loopbreak(base);
}

static void on_peer(void *arg, uint32_t code, const uint8_t *bytes, size_t length)
{
	if (code)
		give_up("submitting: %.*s", (int)length, (const char *)bytes);
	answered(arg);
}

static void on_answered(void *arg, const uint8_t *bytes, size_t length)
{
	(void)bytes, (void)length;
	answered(arg);
}

static void send_next(struct sender *sender)
{
	struct flow *flow = sender->flow;

	if (!flow->left)
		return;
	flow->left--;
	flow->open++;
	if (sender->peer)
		peer_call(sender->peer, submit, &flow->request->base, on_peer, sender);
	else
		http_line_call(sender->line, submit, flow->bytes, flow->length, on_answered, sender);
}

static void on_ended(void *arg, const char *why)
{
	(void)arg;
	give_up("a connection has ended: %s", why);
}

static void make_bytes(struct flow *flow)
{
	const ProtobufCMessage *message = &flow->request->base;
	json_t *object;

	if (flow->way->kind == HTTP_LINE_JSON) {
		object = json_from_message_in(JSON_MAPPING, message);
		flow->bytes = (uint8_t *)json_dumps(object, JSON_COMPACT);
		flow->length = strlen((char *)flow->bytes);
		json_decref(object);
		return;
	}
	flow->bytes = malloc(protobuf_c_message_get_packed_size(message));
	flow->length = protobuf_c_message_pack(message, flow->bytes);
}

/* Submits `tasks` tasks, `batch` a call. */
static void measure(const struct way *way, const char *name, int tasks, int batch)
{
	Reeve__V1__TaskSpec *specs = calloc((size_t)batch, sizeof *specs), **all = calloc((size_t)batch, sizeof *all);
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	struct flow flow = {.way = way, .request = &request, .left = tasks / batch + 1};
	struct sender senders[CONNECTIONS];
	int calls = flow.left;
	char details[200], figure[64];
	int64_t t0;

	details_write(details, 1);
	for (int i = 0; i < batch; i++) {
		reeve__v1__task_spec__init(&specs[i]);
		specs[i].type = "doors";
		specs[i].details = details;
		all[i] = &specs[i];
	}
	request.tasks = all;
	request.n_tasks = (size_t)batch;
	make_bytes(&flow);
	for (int i = 0; i < CONNECTIONS; i++)
		senders[i] = (struct sender){
		    .flow = &flow,
		    .peer = way->kind < 0 ? peer_connect(base, nng_url, on_ended, NULL) : NULL,
		    .line = way->kind < 0 ? NULL : http_line_connect(base, http_url, (enum http_line_kind)way->kind),
		};
	t0 = now_ns();
	for (int i = 0; i < CONNECTIONS; i++)
		send_next(&senders[i]);
	event_base_dispatch(base);
	snprintf(figure, sizeof figure, "doors_%s_%s", way->name, name);
	report(figure, (double)calls * batch * 1e9 / (double)(now_ns() - t0), "tasks/s");
	for (int i = 0; i < CONNECTIONS; i++)
		if (senders[i].peer)
			peer_close(senders[i].peer);
		else
			http_line_close(senders[i].line);
	event_base_loop(base, EVLOOP_NONBLOCK);
	free(flow.bytes);
	free(specs);
	free(all);
}

/* --- parked Fetches --- */

/* A pull client that waits for a task. */
struct waiter {
	struct http_line *line;
	char incarnation[24];
	int fetches;
};

static int n_registered, n_stamps;
static int64_t stamp_ns, stamps[STAMPS];

/* Returns a number of a file of /proc/PID, behind `name`. */
static double proc_number(const char *file, const char *name, int field)
{
	char path[64], text[4096], *at;
	FILE *in;

	snprintf(path, sizeof path, "/proc/%ld/%s", manager, file);
	in = fopen(path, "r");
	if (!in)
		give_up("cannot read %s", path);
	text[fread(text, 1, sizeof text - 1, in)] = '\0';
	fclose(in);
	at = strstr(text, name);
	at = at ? at + strlen(name) : text;
	for (int i = 0; i < field; i++)
		at = strchr(at, ' ') + 1;
	return strtod(at, NULL);
}

static double memory_bytes(void)
{
	return proc_number("status", "VmRSS:", 0) * 1024;
}

static double cpu_seconds(void)
{
	return (proc_number("stat", ") ", 11) + proc_number("stat", ") ", 12)) / (double)sysconf(_SC_CLK_TCK);
}

static void on_fetched(void *arg, const uint8_t *bytes, size_t length);

static void fetch(struct waiter *waiter)
{
	char request[200];

	snprintf(request, sizeof request,
	    "{\"incarnation\":\"%s\",\"fetchId\":%d,\"slots\":1,\"types\":[\"parked\"],\"waitMs\":600000}",
	    waiter->incarnation, ++waiter->fetches);
	http_line_call(waiter->line, "/reeve.v1.WorkerService/Fetch", request, strlen(request), on_fetched, waiter);
}

/* A Fetch has got the task, or has waited for as long as the manager lets it. */
static void on_fetched(void *arg, const uint8_t *bytes, size_t length)
{
	if (!memmem(bytes, length, "taskId", 6)) {
		fetch(arg);
		return;
	}
	stamps[n_stamps++] = now_ns() - stamp_ns;
	event_base_loopbreak(base);
}

static void on_registered(void *arg, const uint8_t *bytes, size_t length)
{
	struct waiter *waiter = arg;
	struct reeve_error error;
	json_t *answer = json_read_text((const char *)bytes, length, 1 << 16, &error);

	snprintf(waiter->incarnation, sizeof waiter->incarnation, "%s",
	    json_string_value(json_object_get(answer, "incarnation")));
	json_decref(answer);
	fetch(waiter);
	n_registered++;
	event_base_loopbreak(base);
}

static void run_for(int64_t ms)
{
	const struct timeval wait = {ms / 1000, ms % 1000 * 1000};

	event_base_loopexit(base, &wait);
	event_base_dispatch(base);
}

static void park(int count)
{
	static const char request[] = "{\"name\":\"parked\",\"concurrency\":1,\"types\":[\"parked\"],\"manual\":true}";
	static struct waiter *waiters; /* their calls stay open until the end */

	waiters = calloc((size_t)count, sizeof *waiters);
	for (int i = 0; i < count; i++) {
		waiters[i].line = http_line_connect(base, http_url, HTTP_LINE_JSON);
		http_line_call(
		    waiters[i].line, "/reeve.v1.WorkerService/Register", request, strlen(request), on_registered, &waiters[i]);
		while (n_registered + CONNECTIONS <= i)
			event_base_dispatch(base);
	}
	while (n_registered < count)
		event_base_dispatch(base);
}

static void measure_parked(int count)
{
	static const char task[] = "{\"tasks\":[{\"type\":\"parked\"}]}";
	struct http_line *line;
	struct flow nothing = {.open = 2 * STAMPS};
	struct sender sender = {.flow = &nothing};
	double memory = memory_bytes(), cpu;

	park(count);
	run_for(1000);
	report("doors_parked_memory", (memory_bytes() - memory) / count, "bytes");
	cpu = cpu_seconds();
	run_for(IDLE_S * 1000);
	report("doors_parked_cpu", (cpu_seconds() - cpu) * 100 / IDLE_S, "%");
	line = http_line_connect(base, http_url, HTTP_LINE_JSON);
	for (int i = 0; i < STAMPS && i < count; i++) {
		stamp_ns = now_ns();
		http_line_call(line, submit, task, strlen(task), on_answered, &sender);
		while (n_stamps <= i)
			event_base_dispatch(base);
		run_for(STAMP_PAUSE_MS);
	}
	report_percentiles("doors_parked_latency", stamps, (size_t)n_stamps);
}

int main(int argc, char **argv)
{
	int tasks;

	if (argc != 6)
		give_up("usage: bench-doors NNG-URL HTTP-URL PID TASKS PARKED");
	nng_url = argv[1];
	http_url = argv[2];
	manager = atol(argv[3]);
	tasks = atoi(argv[4]);
	base = event_base_new();
	for (size_t i = 0; tasks && i < sizeof ways / sizeof *ways; i++) {
		measure(&ways[i], "single64", tasks / 4, 1);
		measure(&ways[i], "bulk64", tasks, BULK);
	}
	if (atoi(argv[5]))
		measure_parked(atoi(argv[5]));
	return 0;
}
