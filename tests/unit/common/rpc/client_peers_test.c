/* Pings, and what other programs at a manager's address do. */
#include "client_support.h"
#include "tests/unit/own_time.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <sys/socket.h>

static int pings_in(struct fake_manager *manager, int ms)
{
	int before = fake_manager_read(manager, &manager->pings);

	pause_ms(ms);
	return fake_manager_read(manager, &manager->pings) - before;
}

/* Without calls, or with only parked calls, the client pings a manager as rarely as the manager wants; with other
 * calls, often. */
Test(rpc_client, idle_connections_ping_as_rarely_as_the_manager_wants)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client_options options = {.urls = manager->host.url, .ping_interval_ms = 50, .ping_limit_ms = 30000};
	struct rpc_call_options parks = {.parks = true};
	struct fake_result parked, quick;
	struct rpc_client *client;
	struct reeve_error error = {0};
	int64_t since_ms;

	manager->idle_ping_ms = 1000;
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	pause_ms(200);
	cr_assert_leq(pings_in(manager, 2000), 3);
	fake_start_wait(client, 1, &parks, &parked);
	fake_manager_await(manager, &manager->n_parked, 1);
	cr_assert_leq(pings_in(manager, 2000), 3);
	/* Calls that are answered soon, such as heartbeats, cost no ping. */
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
		cr_assert_leq(pings_in(manager, 60), 1);
	}
	fake_start_wait(client, 2, NULL, &quick);
	fake_manager_await(manager, &manager->n_parked, 2);
	since_ms = own_ms();
	fake_manager_await(manager, &manager->pings, fake_manager_read(manager, &manager->pings) + 8);
	cr_assert_lt(own_ms() - since_ms, 4000, "an idle connection has 8 pings in 7 s");
	fake_manager_do(manager, fake_answer, &manager->parked[1]);
	fake_result_await(&quick);
	pause_ms(200);
	cr_assert_leq(pings_in(manager, 2000), 3);
	fake_manager_do(manager, fake_answer, &manager->parked[0]);
	fake_result_await(&parked);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

/* The answers to a worker's heartbeats show as well as pings do that the manager is alive. The other information of a
 * ping is needed only occasionally. */
Test(rpc_client, answers_stand_for_idle_pings)
{
	enum { INTERVAL_MS = 50, IDLE_MS = 800, LAST_MS = 4 * IDLE_MS, CALLS = 28 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client_options options = {
	    .urls = manager->host.url, .ping_interval_ms = INTERVAL_MS, .ping_limit_ms = 30000};
	struct rpc_client *client;
	struct reeve_error error = {0};
	int64_t since_ms;

	manager->idle_ping_ms = IDLE_MS;
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	pings_in(manager, 200);
	for (int calls = 12; calls <= CALLS; calls += CALLS - 12) { /* 12 calls in 2.4 s, then 28 in 5.6 s */
		int before = fake_manager_read(manager, &manager->pings), slow = 0, pings;
		int64_t began_ms = clock_monotonic_ms(), last_ms = began_ms, now_ms;

		for (int i = 0; i < calls; i++) {
			cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
			slow += clock_monotonic_ms() - last_ms >= INTERVAL_MS; /* an open call may cost a ping */
			pause_ms(200);
			now_ms = clock_monotonic_ms();
			slow += now_ms - last_ms >= IDLE_MS - INTERVAL_MS; /* so may silence */
			last_ms = now_ms;
		}
		pings = fake_manager_read(manager, &manager->pings) - before;
		cr_expect_leq(pings, 1 + (last_ms - began_ms) / LAST_MS + slow);
		cr_expect(pings >= 1 || calls < CALLS);
	}
	since_ms = own_ms();
	fake_manager_await(manager, &manager->pings, fake_manager_read(manager, &manager->pings) + 2);
	cr_expect_lt(own_ms() - since_ms, LAST_MS, "nothing else is heard");
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_client, a_listener_that_says_nothing_is_no_manager)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct fake_manager *manager;
	struct rpc_client *client;
	struct reeve_error error;
	char url[128];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	cr_assert_eq(listen(fd, 10), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	snprintf(url, sizeof url, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
	client = fake_client(url);
	cr_assert_not(rpc_client_alive(client, 300));
	rpc_client_destroy(client);
	manager = fake_manager_start(LOOPBACK, NULL);
	client = fake_client(both(url, manager->host.url));
	for (int i = 0; i < 10; i++)
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	close(fd);
}

/* Answers every request as a ping, through nng's own rep0 socket. For a Get the answer has an unknown field. */
static void *answer_pings(void *arg)
{
	nng_socket socket = *(nng_socket *)arg;
	Reeve__V1__PingResponse response = REEVE__V1__PING_RESPONSE__INIT;
	Reeve__V1__Reply reply = REEVE__V1__REPLY__INIT;
	uint8_t bytes[16], body[16];
	nng_msg *msg;
	size_t length;

	response.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT;
	reply.body = (ProtobufCBinaryData){reeve__v1__ping_response__pack(&response, body), body};
	length = reeve__v1__reply__pack(&reply, bytes);
	while (nng_recvmsg(socket, &msg, 0) == 0) {
		nng_msg_clear(msg);
		cr_assert_eq(nng_msg_append(msg, bytes, length), 0);
		if (nng_sendmsg(socket, msg, 0) != 0)
			nng_msg_free(msg);
	}
	return NULL;
}

Test(rpc_client, understands_nngs_own_socket)
{
	nng_socket socket;
	nng_listener listener;
	pthread_t thread;
	struct rpc_client *client;
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
	struct reeve_error error = {0};
	char url[128];
	int port;

	cr_assert_eq(nng_rep0_open(&socket), 0);
	cr_assert_eq(nng_listen(socket, LOOPBACK, &listener, 0), 0);
	cr_assert_eq(nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port), 0);
	snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
	pthread_create(&thread, NULL, answer_pings, &socket);
	client = fake_client(url);
	for (int i = 0; i < 100; i++) {
		ProtobufCMessage *response = rpc_client_call(client, TASKS, "Get", &request.base, NULL, &error);

		cr_assert(response, "%s", error.message);
		protobuf_c_message_free_unpacked(response, NULL);
	}
	rpc_client_destroy(client);
	nng_close(socket);
	pthread_join(thread, NULL);
}

static void *answer_rubbish(void *arg)
{
	nng_socket socket = *(nng_socket *)arg;
	nng_msg *msg;

	while (nng_recvmsg(socket, &msg, 0) == 0) {
		nng_msg_clear(msg);
		nng_msg_append(msg, "\xff\xff rubbish", 10);
		if (nng_sendmsg(socket, msg, 0) != 0)
			nng_msg_free(msg);
	}
	return NULL;
}

Test(rpc_client, rubbish_for_an_answer_is_an_error)
{
	nng_socket socket;
	nng_listener listener;
	pthread_t thread;
	struct rpc_client *client;
	struct reeve_error error;
	char url[128];
	int port;

	cr_assert_eq(nng_rep0_open(&socket), 0);
	cr_assert_eq(nng_listen(socket, LOOPBACK, &listener, 0), 0);
	cr_assert_eq(nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port), 0);
	snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
	pthread_create(&thread, NULL, answer_rubbish, &socket);
	client = fake_client(url);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(INTERNAL));
	cr_assert_str_eq(error.message, "the manager's answer is not well-formed");
	rpc_client_destroy(client);
	nng_close(socket);
	pthread_join(thread, NULL);
}
