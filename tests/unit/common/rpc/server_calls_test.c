/* The server's calls: arrival, arguments, answers. */
#include "server_support.h"

#include "common/rpc/server_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void answer_from_the_last(struct fake_manager *manager, void *arg)
{
	(void)arg;
	for (int i = manager->n_parked; i-- > 0;)
		fake_answer(manager, &manager->parked[i]);
}

Test(rpc_server, answers_thousands_of_calls_at_once)
{
	enum { COUNT = 2000 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result *results = calloc(COUNT, sizeof *results);

	for (int i = 0; i < COUNT; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, COUNT);
	/* All are open; other calls are still served. */
	for (int i = 0; i < 100; i++) {
		struct reeve_error error;

		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
	}
	fake_manager_do(manager, answer_from_the_last, NULL);
	for (int i = 0; i < COUNT; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(OK));
		cr_assert_eq(results[i].pending, (uint32_t)i);
		cr_assert_eq(results[i].sends, 1);
	}
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
}

struct answered {
	struct fake_parked *call;
	struct fake_result *result;
};

static void answer_and_await(struct fake_manager *manager, void *arg)
{
	struct answered *answered = arg;

	fake_answer(manager, answered->call);
	rpc_server_flush(manager->host.server);
	fake_result_await(answered->result);
}

Test(rpc_server, a_flush_sends_what_has_been_answered)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result result;

	fake_start_wait(client, 1, NULL, &result);
	fake_manager_await(manager, &manager->n_parked, 1);
	/* The answer comes while the server's loop is blocked. */
	fake_manager_do(manager, answer_and_await, &(struct answered){&manager->parked[0], &result});
	cr_assert_eq(result.code, STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, counts_open_calls)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result results[3];
	int open;

	for (int i = 0; i < 3; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 3);
	fake_manager_do(manager, count_open, &open);
	cr_assert_eq(open, 3);
	fake_manager_do(manager, fake_answer, &manager->parked[1]);
	fake_manager_do(manager, count_open, &open);
	cr_assert_eq(open, 2);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

static void check_pings(struct fake_manager *manager, void *arg)
{
	int64_t *seen = arg;

	seen[0] = rpc_server_connections(manager->host.server);
	seen[1] = rpc_server_idle_ping_ms(manager->host.server);
}

/* All connections together ping a thousand times a second, and each at least once in 15 s. */
Test(rpc_server, idle_connections_ping_the_less_often_the_more_there_are)
{
	static const struct {
		int connections;
		int64_t ping_ms;
	} cases[] = {{0, 0}, {1, 1}, {500, 500}, {10000, 10000}, {15000, 15000}, {15001, 15000}, {5000000, 15000}};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int64_t seen[2] = {0}, until_ms = clock_monotonic_ms() + 5000;
	int fds[40];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_assert_eq(rpc_server_idle_ping_ms(&(struct rpc_server){.n_peers = cases[i].connections}), cases[i].ping_ms,
		    "with %d connections", cases[i].connections);
	for (int i = 0; i < 40; i++)
		fds[i] = dial_bare(port_of(manager->host.url));
	while (seen[0] < 40 && clock_monotonic_ms() < until_ms) {
		fake_manager_do(manager, check_pings, seen);
		pause_ms(10);
	}
	cr_assert_eq(seen[0], 40);
	cr_assert_eq(seen[1], 40);
	for (int i = 0; i < 40; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

Test(rpc_server, gives_the_handler_the_caller)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
	struct rpc_call_options options = {.timeout_ms = 5000, .request_id = (const uint8_t *)"0123456789abcdef"};
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
	struct reeve_error error = {0};
	ProtobufCMessage *response;
	int64_t begun_ms = clock_monotonic_ms();

	response = rpc_client_call(client, &reeve__v1__task_service__descriptor, "Get", &request.base, &options, &error);
	cr_assert(response, "%s", error.message);
	protobuf_c_message_free_unpacked(response, NULL);
	cr_assert_str_eq(manager->actor, "ann@host");
	cr_assert_str_eq(manager->token, "secret");
	cr_assert(manager->had_id);
	cr_assert_eq(memcmp(manager->last_id, "0123456789abcdef", 16), 0);
	cr_assert_leq(manager->remaining_ms, 5000);
	cr_assert_gt(manager->remaining_ms + clock_monotonic_ms() - begun_ms, 4990);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, refuses_bad_envelopes_and_serves_the_next)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket = dial_req(manager->host.url);
	Reeve__V1__Request request = REQUEST_INIT;
	uint8_t bytes[512];
	char message[512];

	cr_assert_eq(exchange(socket, "\xff\xff\xff", 3, message), STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(message, "not a well-formed Request"));
	cr_assert_eq(exchange(socket, "", 0, message), STATUS(UNIMPLEMENTED));
	cr_assert_eq(exchange(socket,
	                 "\x12\x03"
	                 "abc",
	                 5, message),
	    STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(message, "request_id has 3 bytes"));
	request.method = (char *)"/reeve.v1.TaskService/Fly";
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(UNIMPLEMENTED));
	cr_assert(strstr(message, "/reeve.v1.TaskService/Fly"));
	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.actor = (char *)"ann\nroot";
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(INVALID_ARGUMENT));
	cr_assert_str_eq(message, "actor holds a control character");
	request.actor = (char *)"ann";
	request.body = (ProtobufCBinaryData){3, (uint8_t *)"\x0a\x01x"};
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(INVALID_ARGUMENT));
	cr_assert_str_eq(message, "id has the wrong wire type");
	request.body = (ProtobufCBinaryData){0, NULL};
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(OK));
	cr_assert_not(manager->had_id);
	cr_assert_eq(manager->remaining_ms, INT64_MAX);
	nng_close(socket);
	fake_manager_free(manager);
}

Test(rpc_server, a_method_name_with_rubbish_does_not_break_the_answer)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket = dial_req(manager->host.url);
	Reeve__V1__Request request = REQUEST_INIT;
	char name[600], message[512];
	uint8_t bytes[1024];

	/* The message cuts the name after 200 bytes, in the middle of a character. */
	name[0] = 'x';
	for (int i = 1; i < 599; i += 2)
		memcpy(name + i, "\xc3\xa4", 2);
	name[599] = 0;
	request.method = name;
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(UNIMPLEMENTED));
	nng_close(socket);
	fake_manager_free(manager);
}

Test(rpc_server, answers_that_are_too_long_become_errors)
{
	struct rpc_server_options options = {.max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->host.url);
	struct reeve_error error;

	manager->get_bytes = 99000;
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	manager->get_bytes = 100000;
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(INTERNAL));
	cr_assert(strstr(error.message, "the limit is 100000"), "%s", error.message);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, carries_large_messages)
{
	enum { TASKS = 4000, DETAILS = 1000 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT, *tasks[TASKS];
	static char details[DETAILS + 1];
	struct reeve_error error = {0};

	memset(details, 'd', DETAILS);
	spec.type = (char *)"t";
	spec.details = details;
	for (int i = 0; i < TASKS; i++)
		tasks[i] = &spec;
	request.n_tasks = TASKS;
	request.tasks = tasks;
	for (int i = 0; i < 20; i++) {
		ProtobufCMessage *response =
		    rpc_client_call(client, &reeve__v1__task_service__descriptor, "Submit", &request.base, NULL, &error);

		cr_assert(response, "%s", error.message);
		protobuf_c_message_free_unpacked(response, NULL);
	}
	cr_assert_eq(manager->submitted, 20 * TASKS);
	manager->get_bytes = 4 << 20;
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, requests_may_come_in_any_pieces)
{
	static const size_t sizes[] = {1, 3, 8, 12, 13, 100, 2047, 2048, 2049, 30000, 1000000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	Reeve__V1__SubmitRequest submit = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT, *tasks[] = {&spec};
	static uint8_t bytes[400000];
	uint8_t *end = bytes;
	char *details = calloc(1, 100001);
	int requests = 0;

	get.id = 5;
	submit.n_tasks = 1;
	submit.tasks = tasks;
	spec.details = details;
	memset(details, 'd', 100000);
	memcpy(end, "\0SP\0\0\x30\0\0", 8);
	end += 8;
	for (int i = 0; i < 40; i++)
		end = write_frame(end, 0x80000000u | (uint32_t)requests++, "/reeve.v1.TaskService/Get", &get.base);
	for (int i = 0; i < 3; i++) {
		end = write_frame(end, 0x80000000u | (uint32_t)requests++, "/reeve.v1.TaskService/Submit", &submit.base);
		details[i ? 100000 : 3000] = 0;
		end = write_frame(end, 0x80000000u | (uint32_t)requests++, "/reeve.v1.TaskService/Get", &get.base);
	}
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		int fd = dial_bare(port_of(manager->host.url)), on = 1;
		size_t left = (size_t)(end - bytes), piece;
		uint8_t greeting[8];

		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		/* The smallest pieces only at the beginning: a hundred thousand system calls prove no more than a thousand. */
		for (const uint8_t *at = bytes; left; at += piece, left -= piece) {
			piece = at - bytes > 3000 && sizes[i] < 1000 ? 1000 : sizes[i];
			piece = piece < left ? piece : left;
			cr_assert_eq(send(fd, at, piece, MSG_NOSIGNAL), piece);
		}
		cr_assert_eq(recv(fd, greeting, 8, MSG_WAITALL), 8);
		cr_assert_eq(memcmp(greeting, "\0SP\0\0\x31\0\0", 8), 0);
		for (int j = 0; j < requests; j++)
			cr_assert_eq(read_frame(fd), 0x80000000u | (uint32_t)j, "pieces of %zu, reply %d", sizes[i], j);
		close(fd);
	}
	fake_manager_free(manager);
	free(details);
}

Test(rpc_server, a_long_token_is_refused)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket = dial_req(manager->host.url);
	Reeve__V1__Request request = REQUEST_INIT;
	uint8_t *bytes = malloc(8192);
	char token[4098], message[512];

	memset(token, 't', 4097);
	token[4097] = 0;
	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.token = token;
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(message, "token has 4097 bytes; at most 4096 are allowed"), "%s", message);
	token[4096] = 0;
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(OK));
	nng_close(socket);
	free(bytes);
	fake_manager_free(manager);
}
