/* Who may call: callers are identified, and methods have roles. */
#include "server_support.h"

#include <endian.h>
#include <poll.h>
#include <sys/socket.h>

static struct rpc_client *client_with(const char *url, const char *token)
{
	struct rpc_client_options options = {.urls = url, .token = token, .actor = "ann@host"};
	struct rpc_client *client = rpc_client_create(&options, NULL);

	cr_assert(client);
	return client;
}

static void get_answers(struct rpc_client *client, reeve_status code, const char *message)
{
	struct reeve_error error = {0};
	reeve_status got = fake_call_get(client, 1, &error);

	cr_assert_eq(got, code, "%s: %s", status_name(got), error.message);
	cr_assert(strstr(error.message, message), "%s", error.message);
}

Test(rpc_guard, identifies_a_connection_once)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = client_with(manager->host.url, "secret");

	for (int i = 0; i < 20; i++)
		get_answers(client, STATUS(OK), "");
	cr_assert_eq(fake_manager_read(manager, &manager->identified), 1);
	cr_assert_str_eq(manager->token, "secret");
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_guard, refuses_unknown_callers_and_missing_roles_before_it_unpacks)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *unknown = client_with(manager->host.url, "unknown"),
	                  *other = client_with(manager->host.url, "other");
	nng_socket socket = dial_req(manager->host.url);
	Reeve__V1__Request request = REQUEST_INIT;
	uint8_t bytes[512];
	char message[512];

	get_answers(unknown, STATUS(UNAUTHENTICATED), "an unknown token");
	get_answers(other, STATUS(PERMISSION_DENIED), "/reeve.v1.TaskService/Get takes 1, not 2");
	/* The body is not well-formed, and the method does not exist: neither is looked at. */
	request.token = "other";
	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.body = (ProtobufCBinaryData){3, (uint8_t *)"\xff\xff\xff"};
	cr_assert_eq(
	    exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(PERMISSION_DENIED));
	request.token = "unknown";
	request.method = (char *)"/reeve.v1.TaskService/Nonsense";
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(UNAUTHENTICATED));
	cr_assert_eq(fake_manager_read(manager, &manager->gets), 0);
	nng_close(socket);
	rpc_client_destroy(unknown);
	rpc_client_destroy(other);
	fake_manager_free(manager);
}

/* An answer to a ping tells nothing about a token. */
Test(rpc_guard, a_method_for_anyone_does_not_ask_about_tokens)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket = dial_req(manager->host.url);
	Reeve__V1__Request request = REQUEST_INIT;
	uint8_t bytes[512];
	char message[512];

	request.token = "unknown";
	request.method = (char *)"/reeve.v1.AdminService/Ping";
	cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(OK));
	cr_assert_eq(fake_manager_read(manager, &manager->identified), 0);
	nng_close(socket);
	fake_manager_free(manager);
}

/* Callers without an identity may ping, but that is no use of a connection that others need. */
Test(rpc_guard, pings_of_strangers_exclude_no_other)
{
	enum { MAX = 5 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &(struct rpc_server_options){.max_connections = MAX});
	nng_socket strangers[MAX + 1]; /* one more than the limit, which this machine may have */
	Reeve__V1__Request request = REQUEST_INIT;
	struct reeve_error error;
	struct rpc_client *client;
	uint8_t bytes[512];
	char message[512];

	request.token = "unknown";
	request.method = (char *)"/reeve.v1.AdminService/Ping";
	for (int i = 0; i <= MAX; i++)
		strangers[i] = dial_req(manager->host.url);
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i <= MAX; i++)
			cr_assert_eq(exchange(strangers[i], bytes, reeve__v1__request__pack(&request, bytes), message), STATUS(OK));
		pause_ms(400);
	}
	client = fake_client(manager->host.url);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "%s", error.message);
	rpc_client_destroy(client);
	for (int i = 0; i <= MAX; i++)
		nng_close(strangers[i]);
	fake_manager_free(manager);
}

Test(rpc_guard, another_token_on_the_same_connection_is_another_caller)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	nng_socket socket = dial_req(manager->host.url);
	Reeve__V1__Request request = REQUEST_INIT;
	uint8_t bytes[512];
	char message[512];
	static const struct {
		const char *token;
		reeve_status code;
	} calls[] = {{"secret", STATUS(OK)}, {"other", STATUS(PERMISSION_DENIED)}, {"secreT", STATUS(OK)},
	    {"unknown", STATUS(UNAUTHENTICATED)}, {"secre", STATUS(OK)}, {"secret", STATUS(OK)}};

	request.method = (char *)"/reeve.v1.TaskService/Get";
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		request.token = calls[i].token;
		cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message), calls[i].code,
		    "call %zu: %s", i, message);
	}
	cr_assert_eq(fake_manager_read(manager, &manager->identified), 6);
	nng_close(socket);
	fake_manager_free(manager);
}

static void end_identity(struct fake_manager *manager, void *arg)
{
	manager->identities[strlen("secret")].ended = true;
	if (arg)
		rpc_server_close_ended(manager->host.server);
}

Test(rpc_guard, an_ended_identity_is_identified_again)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = client_with(manager->host.url, "secret");

	get_answers(client, STATUS(OK), "");
	fake_manager_do(manager, end_identity, NULL);
	get_answers(client, STATUS(OK), "");
	cr_assert_eq(fake_manager_read(manager, &manager->identified), 2);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_guard, expelled_callers_lose_their_connections_with_parked_calls)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = client_with(manager->host.url, "secret"), *stays = client_with(manager->host.url, "");
	struct rpc_call_options options = {.timeout_ms = 10000};
	struct fake_result result, kept;

	fake_result_init(&result);
	fake_result_init(&kept);
	fake_start_wait(stays, 2, &options, &kept);
	fake_manager_await(manager, &manager->n_parked, 1);
	fake_start_wait(client, 1, &options, &result);
	fake_manager_await(manager, &manager->n_parked, 2);
	fake_manager_do(manager, end_identity, manager);
	fake_manager_await(manager, &manager->n_closed, 1);
	cr_assert(!fake_result_done(&kept));
	fake_manager_await(manager, &manager->n_parked, 3); /* the client connects and sends it again */
	cr_assert_eq(fake_manager_read(manager, &manager->identified), 3);
	rpc_client_destroy(client);
	rpc_client_destroy(stays);
	fake_result_await(&result);
	fake_result_await(&kept);
	fake_manager_free(manager);
}

/* A row that leaves out its roles, and a server without a guard, serve nobody. */
Test(rpc_guard, what_is_not_declared_is_refused)
{
	static const struct rpc_entry methods[] = {{"Get", (rpc_method *)abort, RPC_ORDINARY, 0, NULL}, {0}};
	static const struct rpc_entry all[] = {{"Get", (rpc_method *)abort, RPC_ORDINARY, ~RPC_ANYONE, NULL}, {0}};
	struct rpc_server_options options = {0};
	uint8_t bytes[512];
	char message[512];

	for (int guarded = 0; guarded < 2; guarded++) {
		struct fake_manager *manager = fake_manager_make(LOOPBACK, NULL);
		struct reeve_error error = {0};
		struct rpc_server *server = rpc_server_create(manager->host.base, &options);
		Reeve__V1__Request request = REQUEST_INIT;
		nng_socket socket;

		if (guarded)
			rpc_server_guard(server, fake_manager_guard(manager));
		rpc_server_add(server, &reeve__v1__task_service__descriptor, guarded ? methods : all, NULL);
		cr_assert(rpc_server_listen(server, LOOPBACK, &error), "%s", error.message);
		fake_manager_run(manager);
		socket = dial_req(rpc_server_url(server));
		request.method = (char *)"/reeve.v1.TaskService/Get";
		cr_assert_eq(exchange(socket, bytes, reeve__v1__request__pack(&request, bytes), message),
		    guarded ? STATUS(PERMISSION_DENIED) : STATUS(UNAUTHENTICATED), "%s", message);
		nng_close(socket);
		fake_manager_halt(manager);
		rpc_server_destroy(server);
		fake_manager_free(manager);
	}
}

Test(rpc_guard, the_callers_name_begins_with_its_identitys)
{
	static const struct {
		const char *identity, *name, *says;
	} cases[] = {{"", "ann@host", NULL}, {"shop", "ann@host", "shop/ann@host"}, {"shop", "", "shop"},
	    {"shop", "shop", NULL}, {"shop", "shop@host", NULL}, {"shop", "shop/x", NULL},
	    {"shop", "shopping", "shop/shopping"}, {"shop", "sho", "shop/sho"}, {"shop", "root", "shop/root"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct rpc_identity identity = {.name = cases[i].identity};
		char *says = rpc_identity_qualify(&identity, cases[i].name);

		if (cases[i].says)
			cr_expect_str_eq(says, cases[i].says);
		else
			cr_expect_null(says, "case %zu", i);
		free(says);
	}
}

Test(rpc_guard, a_long_name_is_cut_between_characters)
{
	struct rpc_identity identity = {.name = "shop"};
	char name[256], *says;

	memset(name, 'x', 255);
	name[255] = '\0';
	memcpy(name + 249, "\xc3\xa9", 2); /* bytes 254 and 255 of the result */
	says = rpc_identity_qualify(&identity, name);
	cr_assert_eq(strlen(says), 254);
	free(says);
}

enum { GET_BYTES = 600 };

/* Writes a Get, with so many bytes that it does not know, and returns the position after it. */
static uint8_t *write_get(uint8_t *frame, uint32_t number, const char *token, size_t more)
{
	Reeve__V1__Request request = REQUEST_INIT;
	uint32_t id = htobe32(0x80000000u | number);
	uint64_t size;

	request.method = (char *)"/reeve.v1.TaskService/Get";
	request.token = token;
	request.body = (ProtobufCBinaryData){more, calloc(1, more + 1)};
	size = reeve__v1__request__pack(&request, frame + 12) + 4;
	memcpy(frame, &(uint64_t){htobe64(size)}, 8);
	memcpy(frame + 8, &id, 4);
	free(request.body.data);
	return frame + size + 8;
}

/* Sends a Get on a plain socket. */
static void push_get(int fd, uint32_t number, const char *token, size_t more)
{
	uint8_t *frame = calloc(1, GET_BYTES + more);

	push(fd, frame, (size_t)(write_get(frame, number, token, more) - frame));
	free(frame);
}

/* Sends Get 1 with an unknown token and Gets 2 to 19 with a known one, all at the same time. */
static void push_guess_and_others(int fd)
{
	uint8_t frames[19 * GET_BYTES], *end = write_get(frames, 1, "unknown", 0);

	for (uint32_t i = 2; i < 20; i++)
		end = write_get(end, i, "secret", 0);
	push(fd, frames, (size_t)(end - frames));
}

/* Sends `count` Gets at once on a plain socket, and returns how many are answered within `ms`. */
static int answered_within(int fd, int count, const char *token, int ms)
{
	int64_t until_ms = clock_monotonic_ms() + ms;
	int answers = 0;

	for (int i = 0; i < count; i++)
		push_get(fd, (uint32_t)i, token, 0);
	for (int64_t left_ms; answers < count && (left_ms = until_ms - clock_monotonic_ms()) > 0;) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};

		if (poll(&readable, 1, (int)left_ms) <= 0)
			break;
		read_frame(fd);
		answers++;
	}
	return answers;
}

Test(rpc_guard, a_caller_that_guesses_is_slow_and_harms_no_other)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int guesser = dial_greeted(port_of(manager->host.url)), other = dial_greeted(port_of(manager->host.url));
	int64_t since_ms;
	int answers;

	cr_assert_eq(answered_within(guesser, 5, "unknown", 5000), 5, "some are free");
	answers = answered_within(guesser, 200, "unknown", 4000);
	cr_assert_geq(answers, 2);
	cr_assert_leq(answers, 5, "%d guesses in 4 s", answers);
	since_ms = clock_monotonic_ms();
	cr_assert_eq(answered_within(other, 100, "secret", 5000), 100, "same address");
	cr_assert_lt(clock_monotonic_ms() - since_ms, 2000);
	close(guesser); /* with frames that were not served */
	close(other);
	await_connections(manager, 0);
	cr_assert_lt(fake_manager_read(manager, &manager->identified), 15);
	fake_manager_free(manager);
}

/* A proxy may send the calls of several callers on one connection. */
Test(rpc_guard, a_wrong_token_delays_no_other_caller_of_its_connection)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int shared = dial_greeted(port_of(manager->host.url));

	cr_assert_eq(answered_within(shared, 5, "unknown", 5000), 5, "some are free");
	push_guess_and_others(shared);
	for (uint32_t i = 2; i < 20; i++)
		cr_assert_eq(read_frame(shared), 0x80000000u | i, "in this order");
	cr_assert_eq(read_frame(shared), 0x80000001u);
	close(shared);
	fake_manager_free(manager);
}

static void set_doubts(struct fake_manager *manager, void *arg)
{
	manager->doubts = *(bool *)arg;
	if (!manager->doubts)
		rpc_server_identify_again(manager->host.server);
}

/* While the identity of a token may appear, other callers of the connection are served. */
Test(rpc_guard, a_token_that_may_be_new_delays_only_its_own_call)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int shared = dial_greeted(port_of(manager->host.url)), closed = dial_greeted(port_of(manager->host.url));
	bool doubts = true;

	cr_assert_eq(answered_within(shared, 1, "secret", 5000), 1);
	cr_assert_eq(answered_within(closed, 1, "secret", 5000), 1);
	fake_manager_do(manager, set_doubts, &doubts);
	push_get(closed, 1, "unknown", 1000);
	push_guess_and_others(shared);
	for (uint32_t i = 2; i < 20; i++)
		cr_assert_eq(read_frame(shared), 0x80000000u | i, "in this order");
	push_get(shared, 20, "unknown", 0); /* a second one suspends it */
	push_get(shared, 21, "secret", 0);
	close(closed); /* with the call that waits */
	await_connections(manager, 1);
	doubts = false;
	fake_manager_do(manager, set_doubts, &doubts);
	for (uint32_t i = 20; i < 23; i++)
		cr_assert_eq(read_frame(shared), 0x80000000u | (i == 20 ? 1 : i - 1));
	close(shared);
	fake_manager_free(manager);
}

/* The guard knows of whom it need not read anything out of turn. */
Test(rpc_guard, an_address_with_many_refused_calls_is_suspect)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int fd = dial_greeted(port_of(manager->host.url));
	bool doubts = true;

	fake_manager_do(manager, set_doubts, &doubts);
	push_get(fd, 1, "unknown", 0);
	fake_manager_await(manager, &manager->asked_to_wait, 1);
	cr_assert_eq(fake_manager_read(manager, &manager->suspects), 0);
	doubts = false;
	fake_manager_do(manager, set_doubts, &doubts);
	cr_assert_eq(read_frame(fd), 0x80000001u);
	cr_assert_eq(answered_within(fd, 5, "unknown", 10000), 5);
	close(fd);
	doubts = true;
	fake_manager_do(manager, set_doubts, &doubts);
	fd = dial_greeted(port_of(manager->host.url));
	push_get(fd, 1, "unknown", 0);
	fake_manager_await(manager, &manager->suspects, 1);
	close(fd);
	fake_manager_free(manager);
}

/* Nor do open calls with wrong tokens keep a connection that others need. */
Test(rpc_guard, guesses_of_strangers_exclude_no_other)
{
	enum { MAX = 5 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &(struct rpc_server_options){.max_connections = MAX});
	struct reeve_error error;
	struct rpc_client *client;
	int fds[MAX + 1]; /* one more than the limit, which this machine may have */

	for (int i = 0; i <= MAX; i++) {
		fds[i] = dial_greeted(port_of(manager->host.url));
		for (uint32_t j = 0; j < 100; j++)
			push_get(fds[i], j, "unknown", 0);
	}
	pause_ms(1500);
	client = fake_client(manager->host.url);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "%s", error.message);
	rpc_client_destroy(client);
	for (int i = 0; i <= MAX; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

/* What waits behind wrong tokens takes little of the memory for messages. */
Test(rpc_guard, suspended_callers_hold_little_memory)
{
	enum { CONNECTIONS = 30, FRAMES = 40, EACH = 60000 };
	struct rpc_server_options options = {.max_message_bytes = 2 << 20}; /* in total 64 MiB */
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct timeval patience = {.tv_usec = 20000};
	struct rpc_server_memory memory;
	int fds[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++) {
		fds[i] = dial_greeted(port_of(manager->host.url));
		setsockopt(fds[i], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
		for (uint32_t j = 0; j < FRAMES; j++)
			push_get(fds[i], j, "unknown", EACH);
	}
	pause_ms(500);
	fake_manager_do(manager, check_memory, &memory);
	cr_assert_lt(memory.incoming, (size_t)CONNECTIONS * 6 * EACH, "%zu bytes", memory.incoming);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	fake_manager_free(manager);
}
