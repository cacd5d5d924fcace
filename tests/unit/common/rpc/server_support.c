#include "server_support.h"
#include "tests/unit/own_time.h"

#include "common/rpc/envelope.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <nng/protocol/reqrep0/req.h>
#include <sys/socket.h>

const char handshake[] = "\0SP\0\0\x30\0\0";

int port_of(const char *url)
{
	return atoi(strrchr(url, ':') + 1);
}

int dial_from(int port, int host)
{
	struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) | (unsigned)host);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int));
	cr_assert_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	return fd;
}

int dial_bare(int port)
{
	return dial_from(port, 1);
}

nng_socket dial_req(const char *url)
{
	nng_socket socket;

	cr_assert_eq(nng_req0_open(&socket), 0);
	cr_assert_eq(nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE), 0);
	cr_assert_eq(nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, 5000), 0);
	cr_assert_eq(nng_dial(socket, url, NULL, 0), 0);
	return socket;
}

uint32_t exchange(nng_socket socket, const void *bytes, size_t length, char message[512])
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

static void *call_on(void *arg)
{
	struct innocent *innocent = arg;

	while (!atomic_load(&innocent->stop)) {
		Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
		struct fake_result result;
		int64_t begun_ms = own_ms(), took_ms;

		fake_result_init(&result);
		request.id = atomic_fetch_add(&innocent->calls, 1) + 1;
		rpc_client_start(
		    innocent->client, &reeve__v1__task_service__descriptor, "Get", &request.base, NULL, fake_done, &result);
		pthread_mutex_lock(&result.lock);
		while (!result.done)
			pthread_cond_wait(&result.changed, &result.lock);
		pthread_mutex_unlock(&result.lock);
		innocent->failures += result.code != STATUS(OK);
		innocent->resends += result.sends != 1;
		took_ms = own_ms() - begun_ms;
		if (took_ms > innocent->slowest_ms)
			innocent->slowest_ms = took_ms;
		pause_ms(20);
	}
	return NULL;
}

void innocent_start(struct innocent *innocent, const char *url)
{
	struct rpc_client_options options = {.urls = url, .ping_limit_ms = 30000}; /* a busy manager is not absent */
	struct reeve_error error;

	memset(innocent, 0, sizeof *innocent);
	innocent->client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(innocent->client, 5000));
	cr_assert_eq(pthread_create(&innocent->thread, NULL, call_on, innocent), 0);
}

void innocent_unharmed(struct innocent *innocent)
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

void answer_all(struct fake_manager *manager, void *arg)
{
	(void)arg;
	for (int i = 0; i < manager->n_parked; i++)
		fake_answer(manager, &manager->parked[i]);
}

void count_open(struct fake_manager *manager, void *arg)
{
	*(int *)arg = rpc_server_open_calls(manager->host.server);
}

uint8_t *write_frame(uint8_t *out, uint32_t id, const char *method, const ProtobufCMessage *body)
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

uint32_t read_frame(int fd)
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

void push(int fd, const void *bytes, size_t length)
{
	ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);

	(void)sent;
}

int dial_greeted_from(int port, int host)
{
	int fd = dial_from(port, host);
	uint8_t greeting[8];

	cr_assert_eq(send(fd, "\0SP\0\0\x30\0\0", 8, MSG_NOSIGNAL), 8);
	cr_assert_eq(recv(fd, greeting, 8, MSG_WAITALL), 8);
	return fd;
}

int dial_greeted(int port)
{
	return dial_greeted_from(port, 1);
}

void ask(int fd, int count, const char *method, const ProtobufCMessage *body)
{
	uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(body) + 256);

	for (int i = 0; i < count; i++) {
		uint8_t *end = write_frame(bytes, 0x80000000u | (uint32_t)i, method, body);

		cr_assert_eq(send(fd, bytes, (size_t)(end - bytes), MSG_NOSIGNAL), end - bytes);
	}
	free(bytes);
}

void count_connections(struct fake_manager *manager, void *arg)
{
	*(int *)arg = rpc_server_connections(manager->host.server);
}

void await_connections(struct fake_manager *manager, int number)
{
	int64_t until_ms = clock_monotonic_ms() + 10000;
	int count;

	do {
		cr_assert(clock_monotonic_ms() < until_ms, "not %d connections", number);
		pause_ms(1);
		fake_manager_do(manager, count_connections, &count);
	} while (count != number);
}

void check_memory(struct fake_manager *manager, void *arg)
{
	*(struct rpc_server_memory *)arg = rpc_server_memory(manager->host.server);
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

void open_waits(struct fake_manager *manager, struct rpc_client *client, Reeve__V1__WaitRequest *request,
    struct fake_result *results, int calls)
{
	for (int i = 0; i < calls; i++) {
		fake_result_init(&results[i]);
		rpc_client_start(
		    client, &reeve__v1__task_service__descriptor, "Wait", &request->base, NULL, fake_done, &results[i]);
	}
	all_arrived(manager, results, calls);
}
