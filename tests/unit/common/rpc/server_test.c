/* The RPC server, over real sockets: it serves well-behaved clients, and other clients cannot harm them. */
#include "common/rpc/server.h"

#include "fake_manager.h"

#include "common/clock.h"
#include "common/rpc/conn.h"
#include "common/rpc/envelope.h"
#include "common/rpc/listening.h"
#include "common/rpc/server_internal.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOPBACK "tcp://127.0.0.1:0"

#define REQUEST_INIT {.base = PROTOBUF_C_MESSAGE_INIT(&reeve__v1__request__descriptor), .method = "", .token = "", .actor = "", .contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT}

static int port_of(const char *url)
{
	return atoi(strrchr(url, ':') + 1);
}

/* The hello of a REQ socket. */
static const char handshake[] = "\0SP\0\0\x30\0\0";

/* Connects a plain TCP socket. */
static int dial_bare(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

/* Connects a plain nng socket. */
static nng_socket dial_req(const char *url)
{
	nng_socket socket;

	cr_assert_eq(nng_req0_open(&socket), 0);
	cr_assert_eq(nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE), 0);
	cr_assert_eq(nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, 5000), 0);
	cr_assert_eq(nng_dial(socket, url, NULL, 0), 0);
	return socket;
}

/* Sends bytes as one request and reads the reply's code and message. */
static uint32_t exchange(nng_socket socket, const void *bytes, size_t length, char message[512])
{
	struct envelope_reply reply;
	struct reeve_error error;
	nng_msg *msg;

	cr_assert_eq(nng_send(socket, (void *)(uintptr_t)bytes, length, 0), 0);
	cr_assert_eq(nng_recvmsg(socket, &msg, 0), 0);
	cr_assert(envelope_read_reply(nng_msg_body(msg), nng_msg_len(msg), &reply, &error), "%s", error.message);
	snprintf(message, 512, "%.*s", (int)reply.message.length, (const char *)reply.message.bytes);
	nng_msg_free(msg);
	return reply.code;
}

/* A client that makes calls without a pause, one at a time, until it is stopped. */
struct innocent {
	struct rpc_client *client;
	pthread_t thread;
	atomic_bool stop;
	atomic_int calls;
	int failures, resends;
	int64_t slowest_ms;
};

static void *call_on(void *arg)
{
	struct innocent *innocent = arg;

	while (!atomic_load(&innocent->stop)) {
		Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
		struct fake_result result;
		int64_t begun_ms = clock_monotonic_ms();

		fake_result_init(&result);
		request.id = atomic_fetch_add(&innocent->calls, 1) + 1;
		rpc_client_start(innocent->client, &reeve__v1__task_service__descriptor, "Get", &request.base, NULL,
		    fake_done, &result);
		pthread_mutex_lock(&result.lock);
		while (!result.done)
			pthread_cond_wait(&result.changed, &result.lock);
		pthread_mutex_unlock(&result.lock);
		innocent->failures += result.code != STATUS(OK);
		innocent->resends += result.sends != 1;
		if (result.done_ms - begun_ms > innocent->slowest_ms)
			innocent->slowest_ms = result.done_ms - begun_ms;
	}
	return NULL;
}

static void innocent_start(struct innocent *innocent, const char *url)
{
	memset(innocent, 0, sizeof *innocent);
	innocent->client = fake_client(url);
	cr_assert(rpc_client_alive(innocent->client, 5000));
	cr_assert_eq(pthread_create(&innocent->thread, NULL, call_on, innocent), 0);
}

static void pause_ms(int ms)
{
	usleep((useconds_t)ms * 1000);
}

/* Lets the client make more than ten calls and stops it. All its calls must have succeeded, each sent once. */
static void innocent_unharmed(struct innocent *innocent)
{
	int64_t until_ms = clock_monotonic_ms() + 10000;

	while (atomic_load(&innocent->calls) <= 10 && clock_monotonic_ms() < until_ms)
		pause_ms(10);
	cr_assert_gt(atomic_load(&innocent->calls), 10);
	atomic_store(&innocent->stop, true);
	pthread_join(innocent->thread, NULL);
	rpc_client_destroy(innocent->client);
	cr_assert_eq(innocent->failures, 0);
	cr_assert_eq(innocent->resends, 0);
	cr_assert_lt(innocent->slowest_ms, 2000);
}

Test(rpc_server, answers_thousands_of_calls_at_once)
{
	enum { CALLS = 5000 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result *results = calloc(CALLS, sizeof *results);

	for (int i = 0; i < CALLS; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, CALLS);
	/* All are open; other calls are still served. */
	for (int i = 0; i < 100; i++) {
		struct reeve_error error;

		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
	}
	/* Answered from the last to the first. */
	for (int i = CALLS - 1; i >= 0; i--)
		fake_manager_do(manager, fake_answer, &manager->parked[i]);
	for (int i = 0; i < CALLS; i++) {
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
	rpc_server_flush(manager->server);
	fake_result_await(answered->result);
}

Test(rpc_server, a_flush_sends_what_has_been_answered)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result result;

	fake_start_wait(client, 1, NULL, &result);
	fake_manager_await(manager, &manager->n_parked, 1);
	/* The answer comes while the server's loop is blocked. */
	fake_manager_do(manager, answer_and_await, &(struct answered){&manager->parked[0], &result});
	cr_assert_eq(result.code, STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

static void count_open(struct fake_manager *manager, void *arg)
{
	*(int *)arg = rpc_server_open_calls(manager->server);
}

Test(rpc_server, counts_open_calls)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
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

	seen[0] = rpc_server_connections(manager->server);
	seen[1] = rpc_server_idle_ping_ms(manager->server);
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
		fds[i] = dial_bare(port_of(manager->url));
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

Test(rpc_server, tells_the_handler_who_calls)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct rpc_call_options options = {.timeout_ms = 5000, .request_id = (const uint8_t *)"0123456789abcdef"};
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
	struct reeve_error error = {0};
	ProtobufCMessage *response;

	response =
	    rpc_client_call(client, &reeve__v1__task_service__descriptor, "Get", &request.base, &options, &error);
	cr_assert(response, "%s", error.message);
	protobuf_c_message_free_unpacked(response, NULL);
	cr_assert_str_eq(manager->actor, "ann@host");
	cr_assert_str_eq(manager->token, "secret");
	cr_assert(manager->had_id);
	cr_assert_eq(memcmp(manager->last_id, "0123456789abcdef", 16), 0);
	cr_assert_leq(manager->remaining_ms, 5000);
	cr_assert_gt(manager->remaining_ms, 3000);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, refuses_bad_envelopes_and_serves_the_next)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket = dial_req(manager->url);
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
	cr_assert_eq(
	    exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(UNIMPLEMENTED));
	cr_assert(strstr(message, "/reeve.v1.TaskService/Fly"));
	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.actor = (char *)"ann\nroot";
	cr_assert_eq(
	    exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(INVALID_ARGUMENT));
	cr_assert_str_eq(message, "actor holds a control character");
	request.actor = (char *)"ann";
	request.body = (ProtobufCBinaryData){3, (uint8_t *)"\x0a\x01x"};
	cr_assert_eq(
	    exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(INVALID_ARGUMENT));
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
	nng_socket socket = dial_req(manager->url);
	Reeve__V1__Request request = REQUEST_INIT;
	char name[600], message[512];
	uint8_t bytes[1024];

	/* The message cuts the name after 200 bytes, in the middle of a character. */
	name[0] = 'x';
	for (int i = 1; i < 599; i += 2)
		memcpy(name + i, "\xc3\xa4", 2);
	name[599] = 0;
	request.method = name;
	cr_assert_eq(
	    exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(UNIMPLEMENTED));
	nng_close(socket);
	fake_manager_free(manager);
}

static void read_refused(struct fake_manager *manager, void *arg)
{
	*(int64_t *)arg = rpc_server_refused(manager->server);
}

Test(rpc_server, too_many_open_calls_are_refused_until_some_end)
{
	struct rpc_server_options options = {.max_open_calls = 300};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result results[300], refused[500];
	struct reeve_error error;
	int64_t n_refused;

	for (int i = 0; i < 300; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 300);
	for (int i = 0; i < 500; i++)
		fake_start_wait(client, i, NULL, &refused[i]);
	for (int i = 0; i < 500; i++) {
		fake_result_await(&refused[i]);
		cr_assert_eq(refused[i].code, STATUS(RESOURCE_EXHAUSTED));
	}
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(RESOURCE_EXHAUSTED));
	fake_manager_do(manager, read_refused, &n_refused);
	cr_assert_eq(n_refused, 501);
	/* Calls that began before the manager was known may arrive after others. */
	fake_manager_do(manager, fake_answer, &manager->parked[0]);
	fake_result_await(&results[manager->parked[0].id]);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, answers_that_are_too_long_become_errors)
{
	struct rpc_server_options options = {.max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url);
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
	struct rpc_client *client = fake_client(manager->url);
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
		ProtobufCMessage *response = rpc_client_call(
		    client, &reeve__v1__task_service__descriptor, "Submit", &request.base, NULL, &error);

		cr_assert(response, "%s", error.message);
		protobuf_c_message_free_unpacked(response, NULL);
	}
	cr_assert_eq(manager->submitted, 20 * TASKS);
	manager->get_bytes = 4 << 20;
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, tells_open_calls_that_it_ends)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result results[50];

	for (int i = 0; i < 50; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 50);
	fake_manager_do(manager, fake_answer, &manager->parked[7]);
	fake_manager_stop(manager);
	cr_assert_eq(manager->n_closed, 49);
	cr_assert_not(manager->parked[7].closed);
	/* The answer has been sent, but when the client reads it depends on the client's threads. */
	fake_result_await(&results[manager->parked[7].id]);
	rpc_client_destroy(client);
	for (int i = 0; i < 50; i++)
		cr_assert_eq(results[i].code, i == manager->parked[7].id ? STATUS(OK) : STATUS(CANCELLED));
	fake_manager_free(manager);
}

/* A connection that is read only some time after its other end has closed, and what the read returns. */
struct late_reader {
	int fd;
	short events; /* from poll() before the read */
	ssize_t got;  /* number of bytes in `bytes` */
	uint8_t bytes[1000];
};

static void *read_late(void *arg)
{
	struct late_reader *late = arg;
	struct pollfd readable = {.fd = late->fd, .events = POLLIN};

	pause_ms(300);
	poll(&readable, 1, 0);
	late->events = readable.revents;
	late->got = recv(late->fd, late->bytes, sizeof late->bytes, 0);
	close(late->fd);
	return NULL;
}

/* A server that stops does not reset connections on which clients have sent more or still send. A reset would lose
 * answers that they have not read yet, since most clients that use poll() (nng, for example) check POLLHUP before they
 * read. */
Test(rpc_server, answers_given_before_the_end_reach_callers_that_go_on_sending)
{
	/* Not a valid envelope, so it is answered at once. Sent with the string's final 0. */
	static const char call[] = "\0\0\0\0\0\0\0\x07\x80\0\0\x01\xff\xff";
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct late_reader late = {.fd = dial_bare(port_of(manager->url))};
	struct pollfd readable = {.fd = late.fd, .events = POLLIN};
	uint8_t greeting[8];
	pthread_t reader;
	int64_t begun_ms;

	cr_assert_eq(send(late.fd, handshake, 8, 0), 8);
	cr_assert_eq(recv(late.fd, greeting, 8, MSG_WAITALL), 8);
	cr_assert_eq(send(late.fd, call, sizeof call, 0), sizeof call);
	cr_assert_eq(poll(&readable, 1, 10000), 1);
	fake_manager_halt(manager);
	cr_assert_eq(send(late.fd, call, sizeof call, 0), sizeof call);
	begun_ms = clock_monotonic_ms();
	cr_assert_eq(pthread_create(&reader, NULL, read_late, &late), 0);
	fake_manager_stop(manager);
	cr_assert_lt(clock_monotonic_ms() - begun_ms, 900, "it waits no longer than its callers need");
	pthread_join(reader, NULL);
	cr_assert_eq(late.events, POLLIN, "%#x", (unsigned)late.events);
	cr_assert_gt(late.got, 0);
	fake_manager_free(manager);
}

/* Nine calls parked by one client. The callback of a call whose connection has closed answers its own call and the
 * calls next to it. */
static struct fake_manager *park_nine(struct rpc_client **client, struct fake_result results[9])
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);

	manager->answer_closed = true;
	*client = fake_client(manager->url);
	for (int i = 0; i < 9; i++)
		fake_start_wait(*client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 9);
	return manager;
}

Test(rpc_server, calls_may_be_answered_while_their_owners_are_told_that_the_caller_has_gone)
{
	struct fake_result results[9];
	struct rpc_client *client;
	struct fake_manager *manager = park_nine(&client, results);
	int open;

	rpc_client_destroy(client);
	/* The first callback answers its own call and the second, the third its own and the fourth, and so on; no callback
	 * runs for a call that has been answered. */
	fake_manager_await(manager, &manager->n_closed, 5);
	fake_manager_do(manager, count_open, &open);
	cr_assert_eq(open, 0);
	fake_manager_stop(manager);
	cr_assert_eq(manager->n_closed, 5);
	fake_manager_free(manager);
}

Test(rpc_server, calls_may_be_answered_while_their_owners_are_told_that_the_server_ends)
{
	struct fake_result results[9];
	struct rpc_client *client;
	struct fake_manager *manager = park_nine(&client, results);

	fake_manager_stop(manager);
	cr_assert_eq(manager->n_closed, 5);
	for (int i = 0; i < 9; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(ABORTED));
	}
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_server, a_second_listener_on_the_port_is_told_why_not)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct event_base *base = event_base_new();
	struct rpc_server_options options = {0};
	struct reeve_error error = {0};
	struct rpc_server *second = rpc_server_create(base, &options);
	char expected[256];

	cr_assert_not(rpc_server_listen(second, manager->url, &error));
	cr_assert_eq(error.code, STATUS(UNAVAILABLE));
	snprintf(expected, sizeof expected, "%s: address in use", manager->url);
	cr_assert_str_eq(error.message, expected);
	cr_assert_not(rpc_server_listen(second, "carrier-pigeon://loft", &error));
	cr_assert_eq(error.code, STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(error.message, "\"carrier-pigeon://loft\""), "%s", error.message);
	cr_assert(strstr(error.message, "tcp://HOST:PORT"), "%s", error.message);
	rpc_server_destroy(second);
	event_base_free(base);
	fake_manager_free(manager);
}

Test(rpc_server, listens_on_a_path_too)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", url[64];
	struct fake_manager *manager;
	struct rpc_client *client;
	struct reeve_error error;

	cr_assert(mkdtemp(directory));
	snprintf(url, sizeof url, "ipc://%s/socket", directory);
	manager = fake_manager_start(url, NULL);
	cr_assert_str_eq(manager->url, url);
	client = fake_client(url);
	cr_assert_eq(fake_call_get(client, 3, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	cr_assert_eq(rmdir(directory), 0, "the socket's file is left over");
}

/* Returns true if a server can listen on the URL; otherwise *error is set. */
static bool listens(const char *url, struct reeve_error *error)
{
	struct event_base *base = event_base_new();
	struct rpc_server_options options = {0};
	struct rpc_server *server = rpc_server_create(base, &options);
	bool good = rpc_server_listen(server, url, error);

	rpc_server_destroy(server);
	event_base_free(base);
	return good;
}

static struct sockaddr_un unix_address(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	return address;
}

/* Creates a socket file. Its socket listens if `backlog` is not negative. */
static int socket_at(const char *path, int backlog)
{
	struct sockaddr_un address = unix_address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	if (backlog >= 0)
		cr_assert_eq(listen(fd, backlog), 0);
	return fd;
}

Test(rpc_server, takes_over_a_dead_socket_and_no_other_file)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80], bytes[8];
	struct reeve_error error;
	int fd;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	close(socket_at(path, 0));
	cr_assert(listens(url, &error), "%s", error.message);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(write(fd, "precious", 8), 8);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "not a socket"), "%s", error.message);
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(read(fd, bytes, 8), 8, "the file is gone");
	close(fd);
	unlink(path);
	rmdir(directory);
}

/* The frozen manager's backlog is full, and it accepts no connection. */
Test(rpc_server, a_frozen_manager_keeps_its_path, .timeout = 10)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80];
	struct sockaddr_un address;
	struct reeve_error error;
	int frozen, waiting;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	frozen = socket_at(path, 0);
	address = unix_address(path);
	waiting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(waiting, (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "address in use"), "%s", error.message);
	close(frozen);
	close(waiting);
	unlink(path);
	rmdir(directory);
}

Test(rpc_server, leaves_its_successors_socket_alone)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80];
	struct fake_manager *manager, *successor;
	struct rpc_client *client;
	struct reeve_error error;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	manager = fake_manager_start(url, NULL);
	unlink(path);
	successor = fake_manager_start(url, NULL);
	fake_manager_free(manager);
	client = fake_client(url);
	cr_assert_eq(fake_call_get(client, 3, &error), STATUS(OK), "%s", error.message);
	rpc_client_destroy(client);
	fake_manager_free(successor);
	cr_assert_eq(rmdir(directory), 0, "the socket's file is left over");
}

struct rival {
	pthread_t thread;
	pthread_barrier_t *start;
	const char *url;
	struct listening listening;
	bool good;
};

static void *compete(void *arg)
{
	struct rival *rival = arg;
	struct reeve_error error;

	pthread_barrier_wait(rival->start);
	rival->good = listening_open(&rival->listening, rival->url, 0600, &error);
	return NULL;
}

/* Several servers try to take over one abandoned path at the same moment, many times: one of them gets it each time. */
Test(rpc_server, of_some_that_begin_at_once_one_has_the_path, .timeout = 60)
{
	enum { ROUNDS = 1000, RIVALS = 4 };
	char directory[] = "/tmp/reeve-test-XXXXXX", path[64], url[80];
	struct rival rivals[RIVALS];
	pthread_barrier_t start;

	cr_assert(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	snprintf(url, sizeof url, "ipc://%s", path);
	pthread_barrier_init(&start, NULL, RIVALS);
	for (int round = 0; round < ROUNDS; round++) {
		int winners = 0;

		close(socket_at(path, 0));
		for (int i = 0; i < RIVALS; i++) {
			rivals[i] = (struct rival){.start = &start, .url = url};
			cr_assert_eq(pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
		}
		for (int i = 0; i < RIVALS; i++)
			pthread_join(rivals[i].thread, NULL);
		for (int i = 0; i < RIVALS; i++)
			winners += rivals[i].good;
		for (int i = 0; i < RIVALS; i++)
			listening_close(&rivals[i].listening);
		cr_assert_eq(winners, 1, "round %d", round);
		cr_assert_neq(access(path, F_OK), 0);
	}
	rmdir(directory);
}

/* Any process that may read the directory may lock it. */
Test(rpc_server, a_locked_folder_keeps_nobody_from_listening)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", url[80];
	struct reeve_error error;
	int folder;

	cr_assert(mkdtemp(directory));
	snprintf(url, sizeof url, "ipc://%s/socket", directory);
	folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(flock(folder, LOCK_EX), 0);
	cr_assert(listens(url, &error), "%s", error.message);
	close(folder);
	cr_assert_eq(rmdir(directory), 0, "a file is left over");
}

Test(rpc_server, takes_a_lock_of_its_own_user_alone)
{
	char directory[] = "/tmp/reeve-test-XXXXXX", lock[64], other[64], url[80];
	struct reeve_error error;
	int fd;

	cr_assert(mkdtemp(directory));
	snprintf(url, sizeof url, "ipc://%s/socket", directory);
	snprintf(lock, sizeof lock, "%s/socket.lock", directory);
	snprintf(other, sizeof other, "%s/other", directory);
	/* A lock file left by a killed process. */
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert(listens(url, &error), "%s", error.message);
	cr_assert_neq(access(lock, F_OK), 0, "the lock's file is left over");
	close(fd);
	/* A lock that another process holds. */
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "another process holds the lock"), "%s", error.message);
	cr_assert_eq(access(lock, F_OK), 0, "somebody else's lock is gone");
	flock(fd, LOCK_UN);
	/* A file that others may open, and therefore lock. */
	cr_assert_eq(fchmod(fd, 0644), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "socket.lock is not a file of this user alone"), "%s", error.message);
	close(fd);
	unlink(lock);
	if (geteuid() == 0) {
		fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		cr_assert_eq(fchown(fd, 65534, 65534), 0);
		cr_assert_not(listens(url, &error));
		cr_assert(strstr(error.message, "socket.lock is not a file of this user alone"), "%s", error.message);
		close(fd);
		unlink(lock);
	}
	/* A symbolic link. */
	cr_assert_eq(symlink(other, lock), 0);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "socket.lock is not a file of this user alone"), "%s", error.message);
	cr_assert_neq(access(other, F_OK), 0, "it was made where the link leads");
	unlink(lock);
	cr_assert_eq(rmdir(directory), 0, "a file is left over");
}

Test(rpc_server, says_why_it_cannot_listen)
{
	char url[256];
	struct reeve_error error;

	memset(url, 'x', sizeof url - 1);
	url[sizeof url - 1] = 0;
	memcpy(url, "ipc:///", 7);
	cr_assert_not(listens(url, &error));
	cr_assert(strstr(error.message, "the path has 249 bytes; a socket's may have 107"), "%s", error.message);
	cr_assert_not(listens("tcp://no-such-name.invalid:7171", &error));
	cr_assert(strstr(error.message, "cannot look up \"no-such-name.invalid\": "), "%s", error.message);
	cr_assert_not(listens("tcp://192.0.2.1:7171", &error));
	cr_assert(strstr(error.message, "not an address of this machine"), "%s", error.message);
	cr_assert_not(listens("ipc:///nowhere/at/all", &error));
	cr_assert(strstr(error.message, "no such file or directory"), "%s", error.message);
}

/* Writes a request's frame and returns the position after it. */
static uint8_t *write_frame(uint8_t *out, uint32_t id, const char *method, const ProtobufCMessage *body)
{
	Reeve__V1__Request request = REQUEST_INIT;
	uint64_t length;

	request.method = (char *)(uintptr_t)method;
	request.body.len = protobuf_c_message_get_packed_size(body);
	request.body.data = malloc(request.body.len + 1);
	protobuf_c_message_pack(body, request.body.data);
	length = htobe64(4 + reeve__v1__request__get_packed_size(&request));
	id = htobe32(id);
	memcpy(out, &length, 8);
	memcpy(out + 8, &id, 4);
	out += 12 + reeve__v1__request__pack(&request, out + 12);
	free(request.body.data);
	return out;
}

/* Reads a reply's frame and returns its id. */
static uint32_t read_frame(int fd)
{
	uint8_t head[12], body[4096];
	uint64_t length;
	uint32_t id;

	cr_assert_eq(recv(fd, head, sizeof head, MSG_WAITALL), sizeof head);
	memcpy(&length, head, 8);
	memcpy(&id, head + 8, 4);
	length = be64toh(length) - 4;
	cr_assert_leq(length, sizeof body);
	if (length)
		cr_assert_eq(recv(fd, body, length, MSG_WAITALL), length);
	return be32toh(id);
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
		end =
		    write_frame(end, 0x80000000u | (uint32_t)requests++, "/reeve.v1.TaskService/Submit", &submit.base);
		details[i ? 100000 : 3000] = 0;
		end = write_frame(end, 0x80000000u | (uint32_t)requests++, "/reeve.v1.TaskService/Get", &get.base);
	}
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		int fd = dial_bare(port_of(manager->url)), on = 1;
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

/* Waits until each of the calls is parked at the manager or has been answered. Calls that were started before the
 * connection was open can arrive after later ones, so no single call tells that all have arrived. */
static void all_arrived(struct fake_manager *manager, struct fake_result *results, int calls)
{
	int64_t until_ms = clock_monotonic_ms() + 10000;
	int arrived = 0;

	while (arrived < calls && clock_monotonic_ms() < until_ms) {
		pause_ms(10);
		arrived = fake_manager_read(manager, &manager->n_parked);
		for (int i = 0; i < calls; i++)
			arrived += fake_result_done(&results[i]);
	}
	cr_assert_eq(arrived, calls);
}

Test(rpc_server, open_calls_hold_a_bounded_amount_of_memory)
{
	enum { IDS = 10000, CALLS = 200 };
	struct rpc_server_options options = {.max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result *results = calloc(CALLS, sizeof *results);
	Reeve__V1__WaitRequest request = REEVE__V1__WAIT_REQUEST__INIT;
	struct reeve_error error;
	int64_t *ids = calloc(IDS, sizeof *ids);

	request.n_ids = IDS;
	request.ids = ids;
	for (int i = 0; i < CALLS; i++) {
		fake_result_init(&results[i]);
		rpc_client_start(
		    client, &reeve__v1__task_service__descriptor, "Wait", &request.base, NULL, fake_done, &results[i]);
	}
	all_arrived(manager, results, CALLS);
	for (int i = 0; i < CALLS; i++)
		cr_assert(!results[i].done || results[i].code == STATUS(RESOURCE_EXHAUSTED));
	cr_assert_leq(manager->n_parked * IDS * 8, 2 * 64 * 100000);
	/* Once they are answered, there is room again. */
	for (int i = 0; i < manager->n_parked; i++)
		fake_manager_do(manager, fake_answer, &manager->parked[i]);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
	free(ids);
}

Test(rpc_server, accepts_again_after_running_out_of_descriptors)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rlimit limit;
	struct rpc_client *client;
	int fds[64], count = 0, probe;

	/* Leaves a few descriptors free; each connection takes one at either end. */
	probe = dup(0);
	close(probe);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)probe + 21;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (count < 64 && (fds[count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0) {
		struct sockaddr_in address = {.sin_family = AF_INET};

		address.sin_port = htons((uint16_t)port_of(manager->url));
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		cr_assert_eq(connect(fds[count++], (struct sockaddr *)&address, sizeof address), 0);
	}
	cr_assert_lt(count, 64);
	pause_ms(200);
	while (count > 0)
		close(fds[--count]);
	client = fake_client(manager->url);
	cr_assert(rpc_client_alive(client, 5000));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

/* A connection that has sent no hello for a second is closed to make room, long before it would be closed for its
 * silence. */
Test(rpc_server, idle_connections_make_room_when_descriptors_have_run_out)
{
	enum { IDLE = 40 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(manager->url))};
	struct timeval patience = {4, 0};
	struct rlimit limit;
	int fds[IDLE + 1], probe;
	uint8_t greeting[8];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i <= IDLE; i++)
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	probe = dup(0);
	close(probe);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)probe + 21;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i <= IDLE; i++)
		cr_assert_eq(connect(fds[i], (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_eq(send(fds[IDLE], "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL), 8);
	setsockopt(fds[IDLE], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	cr_assert_eq(recv(fds[IDLE], greeting, 8, MSG_WAITALL), 8);
	for (int i = 0; i <= IDLE; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

Test(rpc_server, an_oversized_frame_costs_its_sender_alone)
{
	struct rpc_server_options options = {.max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct innocent innocent;
	nng_socket socket;
	char *bytes = calloc(1, 200000);

	innocent_start(&innocent, manager->url);
	socket = dial_req(manager->url);
	cr_assert_eq(nng_send(socket, bytes, 200000, 0), 0);
	/* req0 sends it again and again, each time on a new connection. */
	pause_ms(500);
	nng_close(socket);
	innocent_unharmed(&innocent);
	fake_manager_free(manager);
	free(bytes);
}

/* Writes, ignoring whether the peer still reads. */
static void push(int fd, const void *bytes, size_t length)
{
	ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);

	(void)sent;
}

Test(rpc_server, garbage_on_the_port_harms_nobody)
{
	enum { KINDS = 7, ROUNDS = 30 };
	static const char http[] = "GET / HTTP/1.1\r\nHost: reeve\r\n\r\n";
	static const char wrong_protocol[] = "\0SP\0\0\x10\0\0";
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int fds[KINDS * ROUNDS], count = 0;
	struct innocent innocent;
	unsigned seed = 3;

	innocent_start(&innocent, manager->url);
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t noise[2000];
		int fd[KINDS];

		for (size_t i = 0; i < sizeof noise; i++)
			noise[i] = (uint8_t)rand_r(&seed);
		for (int kind = 0; kind < KINDS; kind++)
			fds[count++] = fd[kind] = dial_bare(port_of(manager->url));
		push(fd[0], noise, sizeof noise);
		push(fd[1], http, sizeof http - 1);
		push(fd[2], handshake, 3);
		push(fd[3], wrong_protocol, 8);
		/* A valid hello, then a frame that is too short for a request or exceeds every limit. */
		push(fd[4], handshake, 8);
		push(fd[4], "\0\0\0\0\0\0\0\x02xx", 10);
		push(fd[5], handshake, 8);
		push(fd[5], "\x7f\xff\xff\xff\xff\xff\xff\xff", 8);
		/* The last connection stays silent. */
		pause_ms(10);
	}
	for (int i = 0; i < count; i++)
		close(fds[i]);
	innocent_unharmed(&innocent);
	fake_manager_free(manager);
}

Test(rpc_server, a_frame_that_never_ends_harms_nobody)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct innocent innocent;
	int fds[20];

	innocent_start(&innocent, manager->url);
	for (int i = 0; i < 20; i++) {
		fds[i] = dial_bare(port_of(manager->url));
		push(fds[i], handshake, 8);
		/* A frame of eight megabytes is announced; only a few bytes follow. */
		push(fds[i], "\0\0\0\0\0\x80\0\0\x80\0\0\0", 12);
	}
	pause_ms(300);
	innocent_unharmed(&innocent);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

/* Clients on this machine have one connection in addition to those for all. */
Test(rpc_server, callers_over_the_cap_are_told_so_until_there_is_room)
{
	enum { CONNECTIONS = 6 };
	struct rpc_server_options options = {.max_connections = CONNECTIONS - 1};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *clients[CONNECTIONS], *last;
	struct reeve_error error;
	int64_t until_ms;

	for (int i = 0; i < CONNECTIONS; i++) {
		clients[i] = fake_client(manager->url);
		cr_assert(rpc_client_alive(clients[i], 5000));
	}
	last = fake_client(manager->url);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(fake_call_get(last, 1, &error), STATUS(RESOURCE_EXHAUSTED));
		cr_assert(strstr(error.message, "--max-connections"), "%s", error.message);
	}
	for (int i = 0; i < CONNECTIONS; i++)
		cr_assert_eq(fake_call_get(clients[i], i, &error), STATUS(OK));
	rpc_client_destroy(clients[0]);
	until_ms = clock_monotonic_ms() + 8000;
	while (fake_call_get(last, 1, &error) != STATUS(OK) && clock_monotonic_ms() < until_ms)
		pause_ms(50);
	cr_assert_eq(fake_call_get(last, 1, &error), STATUS(OK), "there is room now: %s", error.message);
	for (int i = 1; i < CONNECTIONS; i++)
		rpc_client_destroy(clients[i]);
	rpc_client_destroy(last);
	fake_manager_free(manager);
}

/* A flood on one connection takes only its share of the open calls. Other connections are served, and so are this one's
 * calls on which leases depend. */
Test(rpc_server, a_connection_has_a_share_of_the_open_calls)
{
	struct rpc_server_options options = {.max_open_calls = 1000, .connection_percent = 10};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *flood = fake_client(manager->url), *other = fake_client(manager->url);
	struct fake_result *results = calloc(300, sizeof *results);
	Reeve__V1__PingRequest ping = REEVE__V1__PING_REQUEST__INIT;
	struct reeve_error error = {0};
	ProtobufCMessage *pong;
	int refused = 0;

	cr_assert(rpc_client_alive(flood, 5000));
	for (int i = 0; i < 300; i++)
		fake_start_wait(flood, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 100);
	cr_assert_eq(fake_call_get(flood, 1, &error), STATUS(RESOURCE_EXHAUSTED));
	cr_assert(strstr(error.message, "100 calls of one connection"), "%s", error.message);
	cr_assert(strstr(error.message, "--connection-share"), "%s", error.message);
	cr_assert_eq(fake_call_get(other, 1, &error), STATUS(OK), "%s", error.message);
	pong = rpc_client_call(flood, &reeve__v1__admin_service__descriptor, "Ping", &ping.base, NULL, &error);
	cr_assert(pong, "a call that leases depend on: %s", error.message);
	protobuf_c_message_free_unpacked(pong, NULL);
	cr_assert_eq(manager->n_parked, 100);
	rpc_client_destroy(flood);
	for (int i = 0; i < 300; i++)
		refused += results[i].code == STATUS(RESOURCE_EXHAUSTED);
	cr_assert_eq(refused, 200);
	rpc_client_destroy(other);
	fake_manager_free(manager);
	free(results);
}

/* Many connections that have each taken their share leave room for operators, and operators leave room for the calls on
 * which leases depend. */
Test(rpc_server, calls_of_leases_pass_when_ordinary_ones_and_operators_have_taken_all)
{
	struct rpc_server_options options = {.max_open_calls = 100};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *flood = fake_client(manager->url), *other = fake_client(manager->url);
	struct fake_result *results = calloc(200, sizeof *results);
	Reeve__V1__PingRequest ping = REEVE__V1__PING_REQUEST__INIT;
	Reeve__V1__StatsRequest stats = REEVE__V1__STATS_REQUEST__INIT;
	struct reeve_error error = {0};
	struct fake_result result;
	int refused = 0, ended = 0;

	for (int i = 0; i < 100; i++)
		fake_start_wait(flood, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 100);
	cr_assert_eq(fake_call_get(other, 1, &error), STATUS(RESOURCE_EXHAUSTED));
	cr_assert(strstr(error.message, "100 calls are open"), "%s", error.message);
	cr_assert(strstr(error.message, "--max-calls"), "%s", error.message);
	/* Operators have a reserve of 7, of which one connection does not get all. */
	for (int i = 100; i < 200; i++) {
		fake_result_init(&results[i]);
		rpc_client_start(flood, &reeve__v1__admin_service__descriptor, "Stats", &stats.base, NULL, fake_done,
		    &results[i]);
	}
	fake_manager_await(manager, &manager->n_parked, 104);
	fake_result_init(&result);
	rpc_client_start(other, &reeve__v1__admin_service__descriptor, "Stats", &stats.base, NULL, fake_done, &result);
	fake_manager_await(manager, &manager->n_parked, 105);
	for (int i = 0; i < 10; i++) {
		ProtobufCMessage *pong = rpc_client_call(
		    other, &reeve__v1__admin_service__descriptor, "Ping", &ping.base, NULL, &error);

		cr_assert(pong, "%s", error.message);
		protobuf_c_message_free_unpacked(pong, NULL);
	}
	for (int64_t until_ms = clock_monotonic_ms() + 10000; ended < 96 && clock_monotonic_ms() < until_ms; pause_ms(10)) {
		ended = 0;
		for (int i = 100; i < 200; i++)
			ended += fake_result_done(&results[i]);
	}
	rpc_client_destroy(flood);
	for (int i = 100; i < 200; i++)
		refused += results[i].code == STATUS(RESOURCE_EXHAUSTED);
	cr_assert_eq(refused, 96);
	rpc_client_destroy(other);
	fake_manager_free(manager);
	free(results);
}

/* Connects a plain socket and exchanges the hello. */
static int dial_greeted(int port)
{
	int fd = dial_bare(port);
	uint8_t greeting[8];

	cr_assert_eq(send(fd, "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL), 8);
	cr_assert_eq(recv(fd, greeting, 8, MSG_WAITALL), 8);
	return fd;
}

/* Sends `count` equal calls on a plain socket. */
static void ask(int fd, int count, const char *method, const ProtobufCMessage *body)
{
	uint8_t bytes[256];

	for (int i = 0; i < count; i++) {
		uint8_t *end = write_frame(bytes, 0x80000000u | (uint32_t)i, method, body);

		cr_assert_eq(send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	}
}

/* While the database stalls, heartbeats stay open; they take nothing from the operators' reserve. */
Test(rpc_server, operators_calls_pass_when_those_of_leases_have_taken_all_of_theirs)
{
	struct rpc_server_options options = {.max_open_calls = 100};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__PingRequest ping = REEVE__V1__PING_REQUEST__INIT;
	Reeve__V1__StatsRequest stats = REEVE__V1__STATS_REQUEST__INIT;
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	int fds[4], open;

	manager->frozen = true;
	for (int i = 0; i < 4; i++)
		fds[i] = dial_greeted(port_of(manager->url));
	ask(fds[0], 100, "/reeve.v1.TaskService/Wait", &wait.base);
	fake_manager_await(manager, &manager->n_parked, 100);
	/* 13 more are reserved for pings. A connection may take as many as it leaves for others: 7, 3, 2 and 1. */
	for (int i = 0; i < 4; i++)
		ask(fds[i], 20, "/reeve.v1.AdminService/Ping", &ping.base);
	read_frame(fds[3]); /* one was refused */
	fake_manager_do(manager, count_open, &open);
	cr_assert_geq(open, 109);
	cr_assert_leq(open, 113);
	for (int i = 0; i < 3; i++) {
		ask(fds[i], 1, "/reeve.v1.AdminService/Stats", &stats.base);
		fake_manager_await(manager, &manager->n_parked, 101 + i);
	}
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

static void check_memory(struct fake_manager *manager, void *arg)
{
	*(struct rpc_server_memory *)arg = rpc_server_memory(manager->server);
}

static struct rpc_server_memory memory_of(struct fake_manager *manager)
{
	struct rpc_server_memory memory;

	fake_manager_do(manager, check_memory, &memory);
	return memory;
}

/* A message takes memory as its bytes arrive, not when its length is announced. */
Test(rpc_server, announced_bytes_take_no_memory)
{
	enum { CONNECTIONS = 100 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	uint64_t length = htobe64(8000000);
	struct innocent innocent;
	int fds[CONNECTIONS];

	innocent_start(&innocent, manager->url);
	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = dial_greeted(port_of(manager->url));
		cr_assert_eq(send(fds[i], &length, sizeof length, MSG_NOSIGNAL), sizeof length);
		cr_assert_eq(send(fds[i], "\x80\0\0\1more", 8, MSG_NOSIGNAL), 8);
	}
	pause_ms(500);
	cr_assert_lt(memory_of(manager).incoming, (size_t)CONNECTIONS * 40000);
	innocent_unharmed(&innocent);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

/* Unfinished messages may together take a limited amount of memory; at the limit, the oldest are dropped. */
Test(rpc_server, unfinished_messages_take_a_bounded_amount_of_memory, .timeout = 60)
{
	enum { CONNECTIONS = 40, EACH = 3 << 20 };
	struct rpc_server_options options = {.max_message_bytes = 4 << 20}; /* in total 128 MiB */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	size_t most = 0;
	uint64_t length = htobe64(4 << 20);
	uint8_t *bytes = calloc(1, EACH);
	struct innocent innocent;
	int fds[CONNECTIONS];

	innocent_start(&innocent, manager->url);
	for (int i = 0; i < CONNECTIONS; i++) {
		struct timeval patience = {.tv_usec = 200000};

		fds[i] = dial_greeted(port_of(manager->url));
		setsockopt(fds[i], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
		cr_assert_eq(send(fds[i], &length, sizeof length, MSG_NOSIGNAL), sizeof length);
		for (ssize_t sent, at = 0; at < EACH; at += sent)
			if ((sent = send(fds[i], bytes, (size_t)(EACH - at), MSG_NOSIGNAL)) <= 0)
				break;
		most = memory_of(manager).incoming > most ? memory_of(manager).incoming : most;
	}
	cr_assert_lt(most, (size_t)129 << 20);
	cr_assert_gt(most, (size_t)100 << 20);
	innocent_unharmed(&innocent);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	free(bytes);
	fake_manager_free(manager);
}

/* Unfinished long messages have taken all memory: short calls are still served at once, and soon the long messages are
 * dropped. */
Test(rpc_server, unfinished_long_messages_hold_up_no_short_ones, .timeout = 60)
{
	enum { CONNECTIONS = 64, EACH = 3 << 20, SHORT = 20000 };
	struct rpc_server_options options = {.max_message_bytes = 4 << 20}; /* in total 128 MiB */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url);
	uint64_t length = htobe64(4 << 20);
	uint8_t *bytes = calloc(1, EACH);
	char *details = malloc(SHORT + 1);
	Reeve__V1__TaskSpec task = REEVE__V1__TASK_SPEC__INIT, *pointer = &task;
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	struct reeve_error error = {0};
	int fds[CONNECTIONS];
	size_t sent[CONNECTIONS] = {0}, incoming = 0;
	int64_t begun_ms, until_ms;

	memset(details, 'x', SHORT);
	details[SHORT] = 0;
	task.details = details;
	request.tasks = &pointer;
	request.n_tasks = 1;
	cr_assert(rpc_client_alive(client, 5000));
	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = dial_greeted(port_of(manager->url));
		cr_assert_eq(send(fds[i], &length, sizeof length, MSG_NOSIGNAL), sizeof length);
		fcntl(fds[i], F_SETFL, O_NONBLOCK);
	}
	/* All in parallel, so that the memory is full before the first message is dropped. Checks after each round, because
	 * a sweep may follow. */
	for (int round = 0; round < 1000 && (incoming = memory_of(manager).incoming) < (size_t)120 << 20; round++) {
		for (int i = 0; i < CONNECTIONS; i++) {
			size_t left = EACH - sent[i];
			ssize_t count = send(fds[i], bytes, left < EACH / 8 ? left : EACH / 8, MSG_NOSIGNAL);

			sent[i] += count > 0 ? (size_t)count : 0;
		}
		pause_ms(1);
	}
	cr_assert_geq(incoming, (size_t)120 << 20);
	begun_ms = clock_monotonic_ms();
	for (int i = 0; i < 20; i++) {
		ProtobufCMessage *done = rpc_client_call(
		    client, &reeve__v1__task_service__descriptor, "Submit", &request.base, NULL, &error);

		cr_assert(done, "%s", error.message);
		protobuf_c_message_free_unpacked(done, NULL);
	}
	cr_assert_lt(clock_monotonic_ms() - begun_ms, 4000);
	until_ms = clock_monotonic_ms() + 4000;
	while (memory_of(manager).incoming > (size_t)112 << 20 && clock_monotonic_ms() < until_ms)
		pause_ms(50);
	cr_assert_leq(memory_of(manager).incoming, (size_t)112 << 20);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	rpc_client_destroy(client);
	free(details);
	free(bytes);
	fake_manager_free(manager);
}

/* Unread answers may together take a limited amount of memory; at the limit, the connection with the most is closed. */
Test(rpc_server, unread_answers_take_a_bounded_amount_of_memory, .timeout = 60)
{
	enum { CONNECTIONS = 6, CALLS = 250, ANSWER = 1 << 20 };
	struct rpc_server_options options = {.max_message_bytes = 2 << 20}; /* in total 64 MiB */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	struct innocent innocent;
	int fds[CONNECTIONS];
	uint8_t bytes[256];
	int64_t begun_ms;
	size_t most = 0;

	get.id = 5;
	innocent_start(&innocent, manager->url);
	manager->get_bytes = ANSWER;
	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = dial_greeted(port_of(manager->url));
		for (int j = 0; j < CALLS; j++) {
			uint8_t *end = write_frame(bytes, 0x80000000u | (uint32_t)j, "/reeve.v1.TaskService/Get", &get.base);

			cr_assert_eq(send(fds[i], bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
		}
	}
	begun_ms = clock_monotonic_ms();
	while (clock_monotonic_ms() < begun_ms + (most > (size_t)10 << 20 ? 1000 : 10000)) {
		size_t unsent = memory_of(manager).unsent;

		most = unsent > most ? unsent : most;
		pause_ms(10);
	}
	cr_assert_gt(most, (size_t)10 << 20);
	cr_assert_lt(most, (size_t)66 << 20);
	manager->get_bytes = 0;
	pause_ms(500);
	innocent_unharmed(&innocent);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

/* A client that reads its answers late gets all of them. */
Test(rpc_server, answers_that_are_read_late_all_come, .timeout = 60)
{
	enum { CALLS = 100, ANSWER = 500000 };
	struct rpc_server_options options = {.max_message_bytes = 1 << 20}; /* served up to 4 MiB of unread answers */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	char *answer = malloc(ANSWER * 2);
	uint8_t bytes[256];
	int fd = dial_greeted(port_of(manager->url));

	get.id = 5;
	manager->get_bytes = ANSWER;
	for (int j = 0; j < CALLS; j++) {
		uint8_t *end = write_frame(bytes, 0x80000000u | (uint32_t)j, "/reeve.v1.TaskService/Get", &get.base);

		cr_assert_eq(send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	}
	pause_ms(500);
	for (int j = 0; j < CALLS; j++) {
		uint64_t length;

		cr_assert_eq(recv(fd, &length, 8, MSG_WAITALL), 8);
		length = be64toh(length);
		cr_assert_leq(length, ANSWER * 2);
		cr_assert_eq(recv(fd, answer, length, MSG_WAITALL), length);
	}
	close(fd);
	free(answer);
	fake_manager_free(manager);
}

Test(rpc_server, a_long_token_is_refused)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket = dial_req(manager->url);
	Reeve__V1__Request request = REQUEST_INIT;
	uint8_t *bytes = malloc(8192);
	char token[4098], message[512];

	memset(token, 't', 4097);
	token[4097] = 0;
	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.token = token;
	cr_assert_eq(
	    exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(message, "token has 4097 bytes; at most 4096 are taken"), "%s", message);
	token[4096] = 0;
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(OK));
	nng_close(socket);
	free(bytes);
	fake_manager_free(manager);
}

static void stand_still(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	pause_ms(1000);
}

/* One connection sends hundreds of calls at once; another connection's call is among the first that are answered. */
Test(rpc_server, connections_are_served_in_turn)
{
	enum { CALLS = 200 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	static uint8_t bytes[CALLS * 256];
	uint8_t *end = bytes;
	struct timeval now = {0, 0};
	int flood, other;

	get.id = 5;
	flood = dial_greeted(port_of(manager->url));
	other = dial_greeted(port_of(manager->url));
	event_base_once(manager->base, -1, EV_TIMEOUT, stand_still, NULL, &now);
	for (int j = 0; j < CALLS; j++)
		end = write_frame(end, 0x80000000u | (uint32_t)j, "/reeve.v1.TaskService/Get", &get.base);
	cr_assert_eq(send(flood, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	pause_ms(200);
	get.id = 6;
	end = write_frame(bytes, 0x80000000u, "/reeve.v1.TaskService/Get", &get.base);
	cr_assert_eq(send(other, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	pause_ms(200);
	read_frame(other);
	cr_assert_leq(manager->six_at, 2);
	for (int j = 0; j < CALLS; j++)
		read_frame(flood);
	close(flood);
	close(other);
	fake_manager_free(manager);
}

Test(rpc_server, silent_connections_keep_nobody_out)
{
	struct rpc_server_options options = {.max_connections = 5};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client;
	int64_t begun_ms = clock_monotonic_ms();
	int fds[5];
	char byte;

	for (int i = 0; i < 5; i++)
		fds[i] = dial_bare(port_of(manager->url));
	client = fake_client(manager->url);
	cr_assert(rpc_client_alive(client, 2000), "the first to come had to make room");
	/* The others are closed after five seconds of silence; each received the server's hello before. */
	for (int i = 0; i < 5; i++) {
		while (read(fds[i], &byte, 1) > 0)
			;
		close(fds[i]);
	}
	cr_assert_lt(clock_monotonic_ms() - begun_ms, 8000);
	cr_assert(rpc_client_alive(client, 0));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

/* Returns the CPU time of the manager's thread, in µs. */
static int64_t cpu_us(struct fake_manager *manager)
{
	struct timespec used;
	clockid_t clock;

	cr_assert_eq(pthread_getcpuclockid(manager->thread, &clock), 0);
	clock_gettime(clock, &used);
	return used.tv_sec * INT64_C(1000000) + used.tv_nsec / 1000;
}

static void count_connections(struct fake_manager *manager, void *arg)
{
	*(int *)arg = rpc_server_connections(manager->server);
}

static void await_connections(struct fake_manager *manager, int number)
{
	int64_t until_ms = clock_monotonic_ms() + 10000;
	int count;

	do {
		cr_assert(clock_monotonic_ms() < until_ms, "not %d connections", number);
		pause_ms(1);
		fake_manager_do(manager, count_connections, &count);
	} while (count != number);
}

/* Opens and closes a thousand connections and returns the CPU time of the loop. */
static int64_t churn(struct fake_manager *manager)
{
	enum { ROUNDS = 10, AT_ONCE = 100 };
	int fds[AT_ONCE], before;
	int64_t from_us = cpu_us(manager);

	fake_manager_do(manager, count_connections, &before);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < AT_ONCE; i++) {
			fds[i] = dial_bare(port_of(manager->url));
			cr_assert_eq(write(fds[i], handshake, 8), 8);
		}
		await_connections(manager, before + AT_ONCE);
		for (int i = 0; i < AT_ONCE; i++)
			close(fds[i]);
		await_connections(manager, before);
	}
	return cpu_us(manager) - from_us;
}

/* One client has 19,000 open calls: the closing of other connections costs no more because of them. */
Test(rpc_server, others_connections_cost_nothing_for_open_calls, .timeout = 60)
{
	enum { CALLS = 19000 };
	struct rpc_server_options options = {.max_open_calls = 20000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result *results = calloc(CALLS, sizeof *results);
	int64_t alone_us, beside_us;

	cr_assert(rpc_client_alive(client, 5000));
	churn(manager);
	alone_us = churn(manager);
	for (int i = 0; i < CALLS; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, CALLS);
	beside_us = churn(manager);
	cr_assert_lt(beside_us, 2 * alone_us + 50000, "%d us of the loop's time, %d us without the calls", (int)beside_us,
	    (int)alone_us);
	for (int i = 0; i < CALLS; i++)
		fake_manager_do(manager, fake_answer, &manager->parked[i]);
	fake_result_await(&results[CALLS - 1]);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
}

Test(rpc_server, connections_that_greet_and_never_call_keep_nobody_out)
{
	struct rpc_server_options options = {.max_connections = 5};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct reeve_error error;
	struct rpc_client *client;
	int fds[6]; /* one more than the limit, which this machine may have */

	for (int i = 0; i < 6; i++) {
		fds[i] = dial_bare(port_of(manager->url));
		cr_assert_eq(write(fds[i], handshake, 8), 8);
	}
	pause_ms(1500); /* now the server regards them as silent */
	client = fake_client(manager->url);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "the first to come had to make room: %s", error.message);
	rpc_client_destroy(client);
	for (int i = 0; i < 6; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

Test(rpc_server, a_peer_that_does_not_read_its_answers_harms_nobody)
{
	enum { CALLS = 6000 };
	struct rpc_server_options options = {.max_open_calls = 1000, .max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__Request request = REQUEST_INIT;
	int64_t begun_ms = clock_monotonic_ms();
	struct innocent innocent;
	uint8_t frame[256] = {0};
	size_t length;
	int fd, gets;

	/* Answers of 20 kB soon fill the kernel's buffers for this peer. */
	manager->get_bytes = 20000;
	innocent_start(&innocent, manager->url);
	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.actor = (char *)"mute";
	frame[8] = 0x80;
	length = 12 + reeve__v1__request__pack(&request, frame + 12);
	frame[7] = (uint8_t)(length - 8);
	fd = dial_bare(port_of(manager->url));
	push(fd, handshake, 8);
	for (int i = 0; i < CALLS; i++)
		push(fd, frame, length);
	pause_ms(500);
	pthread_mutex_lock(&manager->lock);
	gets = manager->mute_gets;
	pthread_mutex_unlock(&manager->lock);
	cr_assert_gt(gets, 10);
	cr_assert_lt(gets, CALLS, "nothing is read from a peer that does not read");
	/* Finally the connection is closed. */
	while (send(fd, "x", 1, MSG_NOSIGNAL) == 1 && clock_monotonic_ms() - begun_ms < 20000)
		pause_ms(100);
	cr_assert_lt(clock_monotonic_ms() - begun_ms, 15000);
	innocent_unharmed(&innocent);
	close(fd);
	fake_manager_free(manager);
}

static bool never_arrived(void *arg, struct frame *frames)
{
	(void)arg;
	frame_free_all(frames);
	return true;
}

static void note_event(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void *read_all(void *arg)
{
	static char bytes[1 << 20];

	while (read(*(int *)arg, bytes, sizeof bytes) > 0)
		;
	return NULL;
}

/* However fast the peer reads, one iteration of the loop sends at most 2 MiB. */
Test(rpc_server, a_long_backlog_leaves_in_turns, .timeout = 20)
{
	enum { FRAMES = 4000, LENGTH = 20000, TURN_MAX = 8 << 18 };
	static const struct rpc_conn_events events = {note_event, never_arrived, note_event, NULL};
	struct event_base *base = event_base_new();
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, reader;
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;
	size_t before, largest = 0;
	atomic_int noted = 0;
	struct rpc_conn *conn;
	pthread_t thread;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_eq(listen(listening, 1), 0);
	cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &length), 0);
	reader = dial_bare(ntohs(address.sin_port));
	fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	cr_assert_geq(fd, 0);
	conn = rpc_conn_create_on_loop(base, fd, RPC_CONN_REPLIES, LENGTH, NULL, &events, &noted);
	rpc_conn_start(conn);
	for (int i = 0; i < FRAMES; i++) {
		struct frame *frame = frame_create(LENGTH);

		frame_seal(frame, 1);
		rpc_conn_queue(conn, frame);
	}
	cr_assert_eq(pthread_create(&thread, NULL, read_all, &reader), 0);
	before = rpc_conn_poll(conn).backlog;
	cr_assert_gt(before, (size_t)FRAMES * LENGTH);
	rpc_conn_flush(conn);
	while (before > 0) {
		size_t left = rpc_conn_poll(conn).backlog;

		largest = before - left > largest ? before - left : largest;
		before = left;
		if (left > 0)
			event_base_loop(base, EVLOOP_ONCE);
	}
	cr_assert_leq(largest, TURN_MAX);
	rpc_conn_close(conn);
	cr_assert_eq(noted, 1);
	pthread_join(thread, NULL);
	rpc_conn_free(conn);
	close(reader);
	close(listening);
	event_base_free(base);
}
