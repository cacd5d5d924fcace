/*
 * Fuzzes HTTP/1.1 and HTTP/2: the bytes of an input come on a connection of a server with a api, as a caller sends
 * them. The server may answer whatever it likes, but when the connection has ended it has no call, no connection and no
 * memory left.
 *
 * The first byte of an input says how many bytes arrive at once (the lower half), and how the caller behaves: 16: it
 * reads no answer before it has sent everything; 32: it closes without reading; 64: it ends its direction first, and
 * reads what comes.
 */
#include "common/clock.h"
#include "common/rpc/server_internal.h"
#include "manager/http/http.h"
#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <reeve/v1/task.pb-c.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MESSAGE_MAX = 1 << 16,
	PUMPS = 4,        /* iterations of the loop after each piece */
	PUMPS_MAX = 5000, /* … until a connection has ended */
	LATE = 16,
	RUDE = 32,
	HALF = 64,
};

static struct event_base *base;
static struct rpc_server *server;

static int64_t now_us(void *arg)
{
	(void)arg;
	return clock_wall_us();
}

static const char *no_problem(void *arg)
{
	(void)arg;
	return NULL;
}

/* Answers with a task whose details are as long as its number says. */
static void serve_get(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	Reeve__V1__GetResponse response = REEVE__V1__GET_RESPONSE__INIT;
	Reeve__V1__Task task = REEVE__V1__TASK__INIT;
	size_t length = (uint64_t)((const Reeve__V1__GetRequest *)request)->id % (2 * MESSAGE_MAX);
	char *details = malloc(length + 1);

	(void)arg;
	memset(details, 'x', length);
	details[length] = '\0';
	task.details = details;
	response.task = &task;
	rpc_call_reply(call, &response.base);
	free(details);
}

static void serve_submit(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	Reeve__V1__SubmitResponse response = REEVE__V1__SUBMIT_RESPONSE__INIT;

	(void)arg, (void)request;
	rpc_call_reply(call, &response.base);
}

static void end_wait(void *arg)
{
	rpc_call_fail(arg, STATUS(CANCELLED), "the caller has gone");
}

/* Is never answered. */
static void serve_wait(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
	(void)arg, (void)request;
	rpc_call_on_closed(call, end_wait, call);
}

static void start(void)
{
	static const struct rpc_entry tasks[] = {
	    {"Get", serve_get, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Submit", serve_submit, RPC_ORDINARY, RPC_ANYONE, NULL},
	    {"Wait", serve_wait, RPC_WAITING, RPC_ANYONE, NULL},
	    {0},
	};
	const struct rpc_server_options options = {.max_message_bytes = MESSAGE_MAX};
	struct http_options http = {
	    .origins = "https://a.example", .max_message_bytes = MESSAGE_MAX, .now_us = now_us, .problem = no_problem};
	struct reeve_error error = {0};
	struct http_api *api;

	http.base = base = event_base_new();
	api = http_api_create(&http, &error);
	server = rpc_server_create(base, &options);
	rpc_server_add(server, &reeve__v1__task_service__descriptor, tasks, NULL);
	FUZZ_CHECK(api && http_api_listen(api, server, "http://127.0.0.1:0", &error), "%s", error.message);
}

/* Makes a connection whose other end is the result. */
static int connect_caller(void)
{
	const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int ends[2];

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
	rpc_conn_start(peers_add(server->listeners, ends[1], (const struct sockaddr *)&from)->conn);
	return ends[0];
}

static void run_loop(int iterations)
{
	for (int i = 0; i < iterations; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

static void read_answers(int fd)
{
	char bytes[1 << 14];

	while (recv(fd, bytes, sizeof bytes, 0) > 0)
		;
}

/* Sends the input in pieces. */
static void send_input(int fd, uint8_t behaviour, const uint8_t *bytes, size_t length)
{
	size_t piece = (size_t)1 << (behaviour & 15);

	for (size_t at = 0, tries = 0; at < length && tries < length + PUMPS_MAX; tries++) {
		ssize_t sent = send(fd, bytes + at, length - at < piece ? length - at : piece, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return;
		at += sent > 0 ? (size_t)sent : 0;
		run_loop(PUMPS);
		if (!(behaviour & (LATE | RUDE)))
			read_answers(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct rpc_server_memory memory;
	int fd;

	if (!length)
		return 0;
	if (!server)
		start();
	fd = connect_caller();
	send_input(fd, bytes[0], bytes + 1, length - 1);
	if (bytes[0] & HALF)
		shutdown(fd, SHUT_WR);
	for (int i = 0; i < PUMPS && !(bytes[0] & RUDE); i++) {
		run_loop(PUMPS);
		read_answers(fd);
	}
	close(fd);
	for (int i = 0; i < PUMPS_MAX && (rpc_server_connections(server) || rpc_server_open_calls(server)); i++)
		run_loop(1);
	memory = rpc_server_memory(server);
	FUZZ_CHECK(!rpc_server_connections(server), "the connection does not end");
	FUZZ_CHECK(!rpc_server_open_calls(server), "%d calls are left", rpc_server_open_calls(server));
	FUZZ_CHECK(!memory.incoming && !memory.held && !memory.unsent,
	    "memory is left: %zu of messages, %zu of calls, %zu of answers", memory.incoming, memory.held, memory.unsent);
	return 0;
}
