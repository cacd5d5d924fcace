/* The memory that messages and unread answers may take. */
#include "server_support.h"
#include "tests/unit/own_time.h"

#include "common/rpc/frame.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/socket.h>

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

	innocent_start(&innocent, manager->host.url);
	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = dial_greeted(port_of(manager->host.url));
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

/* Returns the status with which a submit of `count` empty tasks, of two bytes each, is answered. */
static uint32_t submit_empty(nng_socket socket, size_t count, char message[512])
{
	Reeve__V1__Request request = REQUEST_INIT;
	uint8_t *tasks = calloc(count, 2), *bytes = malloc(2 * count + 256);
	uint32_t code;

	for (size_t i = 0; i < count; i++)
		tasks[2 * i] = 10; /* the field `tasks`, and no byte of it */
	request.method = (char *)"/reeve.v1.TaskService/Submit";
	request.body = (ProtobufCBinaryData){2 * count, tasks};
	code = exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message);
	free(bytes);
	free(tasks);
	return code;
}

/* A short message with many small parts is refused before it takes 20 MiB: four of the longest messages and 16 MiB. */
Test(rpc_server, a_message_that_would_take_much_memory_is_refused)
{
	struct rpc_server_options options = {.max_message_bytes = 1 << 20};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	size_t each = sizeof(Reeve__V1__TaskSpec) + sizeof(Reeve__V1__TaskSpec *), most = (20 << 20) / each;
	nng_socket socket = dial_req(manager->host.url);
	char message[512];

	cr_assert_eq(submit_empty(socket, most / 2, message), STATUS(OK), "%s", message);
	cr_assert_eq(submit_empty(socket, most * 11 / 10, message), STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(message, "bytes of memory; the maximum is 20971520"), "%s", message);
	cr_assert_eq(fake_manager_read(manager, &manager->submits), 1);
	nng_close(socket);
	fake_manager_free(manager);
}

/* Unfinished messages may together take a limited amount of memory; at the limit, the oldest are dropped. */
Test(rpc_server, unfinished_messages_take_a_bounded_amount_of_memory, .timeout = 60)
{
	enum { CONNECTIONS = 40, EACH = 3 << 19 };
	struct rpc_server_options options = {.max_message_bytes = 2 << 20}; /* in total 64 MiB */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	size_t most = 0;
	uint64_t length = htobe64(2 << 20);
	uint8_t *bytes = calloc(1, EACH);
	struct innocent innocent;
	int fds[CONNECTIONS];

	innocent_start(&innocent, manager->host.url);
	for (int i = 0; i < CONNECTIONS; i++) {
		struct timeval patience = {.tv_usec = 200000};

		fds[i] = dial_greeted(port_of(manager->host.url));
		setsockopt(fds[i], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
		cr_assert_eq(send(fds[i], &length, sizeof length, MSG_NOSIGNAL), sizeof length);
		for (ssize_t sent, at = 0; at < EACH; at += sent)
			if ((sent = send(fds[i], bytes, (size_t)(EACH - at), MSG_NOSIGNAL)) <= 0)
				break;
		most = memory_of(manager).incoming > most ? memory_of(manager).incoming : most;
	}
	/* What was sent arrives in turns. */
	for (int64_t until_ms = clock_monotonic_ms() + 5000; most < (size_t)50 << 20 && clock_monotonic_ms() < until_ms;)
		most = memory_of(manager).incoming > most ? memory_of(manager).incoming : most;
	cr_assert_lt(most, (size_t)65 << 20);
	cr_assert_gt(most, (size_t)50 << 20);
	innocent_unharmed(&innocent);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	free(bytes);
	fake_manager_free(manager);
}

/* Unfinished long messages have taken all memory: short calls are still served at once, and soon the long messages are
 * dropped. */
Test(rpc_server, unfinished_long_messages_delay_no_short_ones, .timeout = 60)
{
	enum { CONNECTIONS = 64, EACH = 3 << 19, SHORT = 20000 };
	struct rpc_server_options options = {.max_message_bytes = 2 << 20}; /* in total 64 MiB */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->host.url);
	uint64_t length = htobe64(2 << 20);
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
		fds[i] = dial_greeted(port_of(manager->host.url));
		cr_assert_eq(send(fds[i], &length, sizeof length, MSG_NOSIGNAL), sizeof length);
		fcntl(fds[i], F_SETFL, O_NONBLOCK);
	}
	/* All in parallel, so that the memory is full before the first message is dropped. Checks after each round, because
	 * a sweep may follow. */
	for (int round = 0; round < 1000 && (incoming = memory_of(manager).incoming) < (size_t)60 << 20; round++) {
		for (int i = 0; i < CONNECTIONS; i++) {
			size_t left = EACH - sent[i];
			ssize_t count = send(fds[i], bytes, left < EACH / 8 ? left : EACH / 8, MSG_NOSIGNAL);

			sent[i] += count > 0 ? (size_t)count : 0;
		}
		pause_ms(1);
	}
	cr_assert_geq(incoming, (size_t)60 << 20);
	begun_ms = own_ms();
	for (int i = 0; i < 20; i++) {
		ProtobufCMessage *done =
		    rpc_client_call(client, &reeve__v1__task_service__descriptor, "Submit", &request.base, NULL, &error);

		cr_assert(done, "%s", error.message);
		protobuf_c_message_free_unpacked(done, NULL);
	}
	cr_assert_lt(own_ms() - begun_ms, 4000);
	until_ms = clock_monotonic_ms() + 4000;
	while (memory_of(manager).incoming > (size_t)56 << 20 && clock_monotonic_ms() < until_ms)
		pause_ms(50);
	cr_assert_leq(memory_of(manager).incoming, (size_t)56 << 20);
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
	innocent_start(&innocent, manager->host.url);
	manager->get_bytes = ANSWER;
	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = dial_greeted(port_of(manager->host.url));
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

/* Asks for a task `calls` times, without reading the answers. */
static void ask_for_tasks(int fd, int calls)
{
	Reeve__V1__GetRequest get = REEVE__V1__GET_REQUEST__INIT;
	uint8_t bytes[256];

	get.id = 5;
	for (int j = 0; j < calls; j++) {
		uint8_t *end = write_frame(bytes, 0x80000000u | (uint32_t)j, "/reeve.v1.TaskService/Get", &get.base);

		cr_assert_eq(send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	}
}

/* Reads their answers, of at most `max` bytes each. */
static void read_answers(int fd, int calls, size_t max)
{
	char *answer = malloc(max);

	for (int j = 0; j < calls; j++) {
		uint64_t length;

		cr_assert_eq(recv(fd, &length, 8, MSG_WAITALL), 8);
		length = be64toh(length);
		cr_assert_leq(length, max);
		cr_assert_eq(recv(fd, answer, length, MSG_WAITALL), length);
	}
	free(answer);
}

/* A client that reads its answers late gets all of them. */
Test(rpc_server, answers_that_are_read_late_all_come, .timeout = 60)
{
	enum { CALLS = 100, ANSWER = 500000 };
	struct rpc_server_options options = {.max_message_bytes = 1 << 20}; /* served up to 4 MiB of unread answers */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	int fd = dial_greeted(port_of(manager->host.url));

	manager->get_bytes = ANSWER;
	ask_for_tasks(fd, CALLS);
	pause_ms(500);
	read_answers(fd, CALLS, (size_t)ANSWER * 2);
	close(fd);
	fake_manager_free(manager);
}

enum { HEAVY = 1 << 20 };

/* What the server has told about a caller that reads again. */
struct eased {
	struct fake_manager *manager;
	int times, early; /* how often; of these, with too many unsent answers */
};

static void note_eased(void *arg)
{
	struct eased *eased = arg;

	++eased->times;
	eased->early += rpc_call_backlogged(eased->manager->parked[0].call, HEAVY / 2);
}

static void read_backlogged(struct fake_manager *manager, void *arg)
{
	*(bool *)arg = rpc_call_backlogged(manager->parked[0].call, HEAVY);
}

/* A service may ask whether a caller reads its answers, and learns when it does again. */
Test(rpc_server, a_service_learns_when_a_backlogged_caller_reads_again, .timeout = 60)
{
	enum { CALLS = 50, ANSWER = 500000 };
	struct eased eased = {0};
	struct rpc_server_options options = {.max_message_bytes = 8 << 20, .eased = note_eased, .eased_arg = &eased};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	uint8_t bytes[256];
	bool backlogged = true;
	int fd = dial_greeted(port_of(manager->host.url));
	uint8_t *end = write_frame(bytes, 0x80000000u | CALLS, "/reeve.v1.TaskService/Wait", &wait.base);

	cr_assert_eq(send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	fake_manager_await(manager, &manager->n_parked, 1);
	eased.manager = manager;
	fake_manager_do(manager, read_backlogged, &backlogged);
	cr_expect_not(backlogged);
	manager->get_bytes = ANSWER;
	ask_for_tasks(fd, CALLS);
	for (int64_t until_ms = clock_monotonic_ms() + 10000; !backlogged && clock_monotonic_ms() < until_ms; pause_ms(10))
		fake_manager_do(manager, read_backlogged, &backlogged);
	cr_assert(backlogged);
	read_answers(fd, CALLS, (size_t)ANSWER * 2);
	fake_manager_do(manager, read_backlogged, &backlogged);
	cr_expect_not(backlogged);
	cr_expect_geq(fake_manager_read(manager, &eased.times), 1);
	cr_expect_eq(fake_manager_read(manager, &eased.early), 0);
	close(fd);
	fake_manager_free(manager);
}

Test(rpc_server, a_peer_that_does_not_read_its_answers_harms_no_other)
{
	enum { CALLS = 6000 };
	struct rpc_server_options options = {.max_open_calls = 1000, .max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__Request request = REQUEST_INIT;
	int64_t begun_ms = own_ms();
	struct innocent innocent;
	uint8_t frame[256] = {0}, *frames;
	size_t length;
	int fd, gets;

	/* Answers of 20 kB soon fill the kernel's buffers for this peer. */
	manager->get_bytes = 20000;
	innocent_start(&innocent, manager->host.url);
	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.actor = (char *)"mute";
	frame[8] = 0x80;
	length = 12 + reeve__v1__request__pack(&request, frame + 12);
	frame[7] = (uint8_t)(length - 8);
	fd = dial_bare(port_of(manager->host.url));
	push(fd, handshake, 8);
	frames = malloc(CALLS * length);
	for (int i = 0; i < CALLS; i++)
		memcpy(frames + (size_t)i * length, frame, length);
	push(fd, frames, CALLS * length);
	pause_ms(500);
	pthread_mutex_lock(&manager->host.lock);
	gets = manager->mute_gets;
	pthread_mutex_unlock(&manager->host.lock);
	cr_assert_gt(gets, 10);
	cr_assert_lt(gets, CALLS, "nothing is read from a peer that does not read");
	/* Finally the connection is closed. */
	while (send(fd, "x", 1, MSG_NOSIGNAL) == 1 && own_ms() - begun_ms < 20000)
		pause_ms(100);
	cr_assert_lt(own_ms() - begun_ms, 15000);
	innocent_unharmed(&innocent);
	close(fd);
	free(frames);
	fake_manager_free(manager);
}
