/* Clients that send garbage, too much or nothing harm no others. */
#include "server_support.h"
#include "tests/unit/own_time.h"

#include "common/rpc/server_internal.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/socket.h>

Test(rpc_server, an_oversized_frame_costs_its_sender_alone)
{
	struct rpc_server_options options = {.max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct innocent innocent;
	nng_socket socket;
	char *bytes = calloc(1, 200000);

	innocent_start(&innocent, manager->host.url);
	socket = dial_req(manager->host.url);
	cr_assert_eq(nng_send(socket, bytes, 200000, 0), 0);
	/* req0 sends it again and again, each time on a new connection. */
	pause_ms(500);
	nng_close(socket);
	innocent_unharmed(&innocent);
	fake_manager_free(manager);
	free(bytes);
}

Test(rpc_server, garbage_on_the_port_harms_no_other)
{
	enum { KINDS = 7, ROUNDS = 30 };
	static const char http[] = "GET / HTTP/1.1\r\nHost: reeve\r\n\r\n";
	static const char wrong_protocol[] = "\0SP\0\0\x10\0\0";
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int fds[KINDS * ROUNDS], count = 0;
	struct innocent innocent;
	unsigned seed = 3;

	innocent_start(&innocent, manager->host.url);
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t noise[2000];
		int fd[KINDS];

		for (size_t i = 0; i < sizeof noise; i++)
			noise[i] = (uint8_t)rand_r(&seed);
		for (int kind = 0; kind < KINDS; kind++)
			fds[count++] = fd[kind] = dial_bare(port_of(manager->host.url));
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

Test(rpc_server, a_frame_that_never_ends_harms_no_other)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct innocent innocent;
	int fds[20];

	innocent_start(&innocent, manager->host.url);
	for (int i = 0; i < 20; i++) {
		fds[i] = dial_bare(port_of(manager->host.url));
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

/* Holds the loop until the test has sent what it wants to send. */
static void stand_still(evutil_socket_t fd, short what, void *all_sent)
{
	(void)fd;
	(void)what;
	sem_wait(all_sent);
}

/* One connection sends hundreds of calls at once; another connection's call is among the first that are answered. */
Test(rpc_server, connections_are_served_in_turn)
{
	enum { COUNT = 200 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	static uint8_t bytes[COUNT * 256];
	uint8_t *end = bytes;
	struct timeval now = {0, 0};
	sem_t all_sent;
	int flood, other;

	get.id = 5;
	flood = dial_greeted(port_of(manager->host.url));
	other = dial_greeted(port_of(manager->host.url));
	sem_init(&all_sent, 0, 0);
	event_base_once(manager->host.base, -1, EV_TIMEOUT, stand_still, &all_sent, &now);
	for (int j = 0; j < COUNT; j++)
		end = write_frame(end, 0x80000000u | (uint32_t)j, "/reeve.v1.TaskService/Get", &get.base);
	cr_assert_eq(send(flood, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	pause_ms(200);
	get.id = 6;
	end = write_frame(bytes, 0x80000000u, "/reeve.v1.TaskService/Get", &get.base);
	cr_assert_eq(send(other, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	pause_ms(200);
	sem_post(&all_sent);
	read_frame(other);
	cr_assert_leq(manager->six_at, 2);
	for (int j = 0; j < COUNT; j++)
		read_frame(flood);
	close(flood);
	close(other);
	fake_manager_free(manager);
}

/* Many connections have sent a long call each; another connection's short call, sent after them, is served first. */
Test(rpc_server, short_calls_pass_long_ones)
{
	enum { CONNECTIONS = 20, LENGTH = 30000 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	static uint8_t padding[LENGTH + 3] = {(LENGTH & 127) | 128, (LENGTH >> 7 & 127) | 128, LENGTH >> 14};
	ProtobufCMessageUnknownField unknown = {1000, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, sizeof padding, padding};
	static uint8_t bytes[LENGTH + 256];
	struct timeval now = {0, 0};
	sem_t all_sent;
	int fds[CONNECTIONS + 1];

	for (int i = 0; i <= CONNECTIONS; i++)
		fds[i] = dial_greeted(port_of(manager->host.url));
	sem_init(&all_sent, 0, 0);
	event_base_once(manager->host.base, -1, EV_TIMEOUT, stand_still, &all_sent, &now);
	for (int i = 0; i <= CONNECTIONS; i++) {
		uint8_t *end;

		get.id = i < CONNECTIONS ? 5 : 6;
		get.base.n_unknown_fields = i < CONNECTIONS;
		get.base.unknown_fields = &unknown;
		end = write_frame(bytes, 0x80000000u, "/reeve.v1.TaskService/Get", &get.base);
		cr_assert_eq(send(fds[i], bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	}
	pause_ms(200);
	sem_post(&all_sent);
	for (int i = CONNECTIONS; i >= 0; i--)
		read_frame(fds[i]);
	cr_assert_eq(manager->six_at, 1);
	cr_assert_eq(manager->gets, CONNECTIONS + 1);
	for (int i = 0; i <= CONNECTIONS; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

Test(rpc_server, silent_connections_exclude_no_other)
{
	struct rpc_server_options options = {.max_connections = 5};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client;
	int64_t begun_ms = own_ms();
	int fds[5];
	char byte;

	for (int i = 0; i < 5; i++)
		fds[i] = dial_bare(port_of(manager->host.url));
	client = fake_client(manager->host.url);
	cr_assert(rpc_client_alive(client, 2000), "the first to come had to make room");
	/* The others are closed after five seconds of silence; each received the server's hello before. */
	for (int i = 0; i < 5; i++) {
		while (read(fds[i], &byte, 1) > 0)
			;
		close(fds[i]);
	}
	cr_assert_lt(own_ms() - begun_ms, 8000);
	cr_assert(rpc_client_alive(client, 0));
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

/* Returns the CPU time of the manager's thread, in µs. */
static int64_t cpu_us(struct fake_manager *manager)
{
	struct timespec used;
	clockid_t clock;

	cr_assert_eq(pthread_getcpuclockid(manager->host.thread, &clock), 0);
	clock_gettime(clock, &used);
	return used.tv_sec * INT64_C(1000000) + used.tv_nsec / 1000;
}

/* Opens and closes 500 connections and returns the CPU time of the loop. */
static int64_t churn(struct fake_manager *manager)
{
	enum { ROUNDS = 5, AT_ONCE = 100 };
	int fds[AT_ONCE], before;
	int64_t from_us = cpu_us(manager);

	fake_manager_do(manager, count_connections, &before);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < AT_ONCE; i++) {
			fds[i] = dial_bare(port_of(manager->host.url));
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
Test(rpc_server, others_connections_cost_nothing_for_open_calls)
{
	enum { COUNT = 19000 };
	struct rpc_server_options options = {.max_open_calls = 20000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result *results = calloc(COUNT, sizeof *results);
	int64_t alone_us, beside_us;

	cr_assert(rpc_client_alive(client, 5000));
	churn(manager);
	alone_us = churn(manager);
	for (int i = 0; i < COUNT; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, COUNT);
	beside_us = churn(manager);
	cr_assert_lt(beside_us, 2 * alone_us + 50000, "%d us of the loop's time, %d us without the calls", (int)beside_us,
	    (int)alone_us);
	fake_manager_do(manager, answer_all, NULL);
	fake_result_await(&results[COUNT - 1]);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
}

Test(rpc_server, connections_without_calls_exclude_no_other)
{
	struct rpc_server_options options = {.max_connections = 5};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct reeve_error error;
	struct rpc_client *client;
	int fds[6]; /* one more than the limit, which this machine may have */

	for (int i = 0; i < 6; i++) {
		fds[i] = dial_bare(port_of(manager->host.url));
		cr_assert_eq(write(fds[i], handshake, 8), 8);
	}
	pause_ms(1500); /* now the server regards them as silent */
	client = fake_client(manager->host.url);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "the first to come had to make room: %s", error.message);
	rpc_client_destroy(client);
	for (int i = 0; i < 6; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

/* One peer has greeted, another waits for an answer; both send nothing more. */
Test(rpc_server, a_peer_that_falls_silent_is_disconnected)
{
	struct rpc_server_options options = {.quiet_ms = 1500};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	int64_t since_ms = clock_monotonic_ms(), after_ms = 0;
	int greeted = dial_greeted(port_of(manager->host.url));
	int waits = dial_greeted(port_of(manager->host.url));
	int talks = dial_greeted(port_of(manager->host.url));
	struct pollfd end = {.fd = greeted, .events = POLLIN};
	char byte;

	ask(waits, 1, "/reeve.v1.TaskService/Wait", &wait.base);
	fake_manager_await(manager, &manager->n_parked, 1);
	await_connections(manager, 3);
	do {
		ask(talks, 1, "/reeve.v1.TaskService/Get", &get.base);
		read_frame(talks);
		after_ms = clock_monotonic_ms() - since_ms;
		cr_assert_lt(after_ms, 4000, "the silent one is still connected");
	} while (poll(&end, 1, 200) == 0);
	cr_assert_geq(after_ms + 200, 1500);
	cr_assert_eq(recv(greeted, &byte, 1, 0), 0);
	await_connections(manager, 1);
	cr_assert_eq(fake_manager_read(manager, &manager->n_closed), 1);
	ask(talks, 1, "/reeve.v1.TaskService/Get", &get.base);
	read_frame(talks);
	close(greeted);
	close(waits);
	close(talks);
	fake_manager_free(manager);
}
