/* The limits on open calls, and their reserves. */
#include "server_support.h"

#include <reeve/v1/worker.pb-c.h>
#include <sys/socket.h>

static void read_refused(struct fake_manager *manager, void *arg)
{
	*(int64_t *)arg = rpc_server_refused(manager->server);
}

/* One connection may have all calls. Beyond them it has two small ones that wait, and calls that do not wait have a
 * reserve. */
Test(rpc_server, too_many_open_calls_are_refused_until_some_end)
{
	enum { OPEN = 302 };
	struct rpc_server_options options = {.max_open_calls = 300};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result results[OPEN], refused[500], last;
	struct reeve_error error;
	int64_t n_refused;

	for (int i = 0; i < OPEN; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, OPEN);
	for (int i = 0; i < 500; i++)
		fake_start_wait(client, i, NULL, &refused[i]);
	for (int i = 0; i < 500; i++) {
		fake_result_await(&refused[i]);
		cr_assert_eq(refused[i].code, STATUS(RESOURCE_EXHAUSTED));
		cr_assert(strstr(refused[i].message, "300 calls are open, as many as the manager takes (--max-calls)"), "%s",
		    refused[i].message);
	}
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	fake_manager_do(manager, read_refused, &n_refused);
	cr_assert_eq(n_refused, 500);
	/* Calls that began before the manager was known may arrive after others. */
	fake_manager_do(manager, fake_answer, &manager->parked[0]);
	fake_result_await(&results[manager->parked[0].id]);
	fake_start_wait(client, 1, NULL, &last);
	fake_manager_await(manager, &manager->n_parked, OPEN + 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
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
	cr_assert_lt(manager->n_parked, CALLS);
	for (int i = 0; i < CALLS; i++) {
		cr_assert(!results[i].done || results[i].code == STATUS(RESOURCE_EXHAUSTED));
		cr_assert(!results[i].done || strstr(results[i].message, "as much as the manager takes (64 times --max-message)"),
		    "%s", results[i].message);
	}
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

/* Waits have taken all memory. One connection's operator calls get half of what is reserved for them, which is a
 * sixteenth of the limit. */
Test(rpc_server, operators_calls_hold_a_part_of_the_memory_that_is_kept_for_them)
{
	enum { IDS = 200, WAITS = 100, CALLS = 50 };
	struct rpc_server_options options = {.max_message_bytes = 2000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result *results = calloc(WAITS + CALLS, sizeof *results);
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	Reeve__V1__StatsRequest stats = REEVE__V1__STATS_REQUEST__INIT;
	int64_t ids[IDS] = {0};
	int waits, refused = 0;

	wait.n_ids = IDS;
	wait.ids = ids;
	for (int i = 0; i < WAITS; i++) {
		fake_result_init(&results[i]);
		rpc_client_start(client, &reeve__v1__task_service__descriptor, "Wait", &wait.base, NULL, fake_done, &results[i]);
	}
	all_arrived(manager, results, WAITS);
	waits = fake_manager_read(manager, &manager->n_parked);
	cr_assert_lt(waits, WAITS);
	for (int i = WAITS; i < WAITS + CALLS; i++) {
		fake_result_init(&results[i]);
		rpc_client_start(
		    client, &reeve__v1__admin_service__descriptor, "Stats", &stats.base, NULL, fake_done, &results[i]);
	}
	for (int64_t until_ms = clock_monotonic_ms() + 10000; clock_monotonic_ms() < until_ms; pause_ms(10)) {
		refused = 0;
		for (int i = WAITS; i < WAITS + CALLS; i++)
			refused += fake_result_done(&results[i]);
		if (refused + fake_manager_read(manager, &manager->n_parked) - waits == CALLS)
			break;
	}
	cr_assert(refused > 0 && refused < CALLS, "%d of %d were refused", refused, CALLS);
	for (int i = WAITS; i < WAITS + CALLS; i++)
		cr_assert(!results[i].done || strstr(results[i].message, "as much as the manager takes (64 times --max-message)"),
		    "%s", results[i].message);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
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
	enum { SHARE = 102 }; /* and two that each connection may have */
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
	fake_manager_await(manager, &manager->n_parked, SHARE);
	for (int i = 0; i < 300; i++) {
		if (!fake_result_done(&results[i]))
			continue;
		cr_assert(strstr(results[i].message, "100 calls of one connection are open, its share of the 1000 that others leave "
		                                     "(--connection-share of --max-calls)"),
		    "%s", results[i].message);
	}
	cr_assert_eq(fake_call_get(flood, 1, &error), STATUS(OK), "a call that does not wait: %s", error.message);
	cr_assert_eq(fake_call_get(other, 1, &error), STATUS(OK), "%s", error.message);
	pong = rpc_client_call(flood, &reeve__v1__admin_service__descriptor, "Ping", &ping.base, NULL, &error);
	cr_assert(pong, "a call that leases depend on: %s", error.message);
	protobuf_c_message_free_unpacked(pong, NULL);
	cr_assert_eq(manager->n_parked, SHARE);
	rpc_client_destroy(flood);
	for (int i = 0; i < 300; i++)
		refused += results[i].code == STATUS(RESOURCE_EXHAUSTED);
	cr_assert_eq(refused, 300 - SHARE);
	rpc_client_destroy(other);
	fake_manager_free(manager);
	free(results);
}

/* Many connections that have each taken their share leave room for operators, and operators leave room for the calls on
 * which leases depend. */
Test(rpc_server, calls_of_leases_pass_when_waits_and_operators_have_taken_all)
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
	/* 13 more are reserved for pings. A connection may take as many as it leaves for others: 7, 3, 2 and 1; and
	 * each may have two. */
	for (int i = 0; i < 4; i++)
		ask(fds[i], 20, "/reeve.v1.AdminService/Ping", &ping.base);
	read_frame(fds[3]); /* one was refused */
	fake_manager_do(manager, count_open, &open);
	cr_assert_geq(open, 109);
	cr_assert_leq(open, 114);
	for (int i = 0; i < 3; i++) {
		ask(fds[i], 1, "/reeve.v1.AdminService/Stats", &stats.base);
		fake_manager_await(manager, &manager->n_parked, 101 + i);
	}
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

/* Each address has many connections. Of the pings' reserve of 13 it may have a tenth of what others leave. */
Test(rpc_server, an_address_gets_its_share_of_a_reserve, .timeout = 20)
{
	enum { CONNECTIONS = 5 };
	/* Of 100 calls, as many as an address may have: 64, or as large a part of what others leave. */
	static const int waits[] = {64, 24, 8, 3, 1};
	enum { FULL = sizeof waits / sizeof *waits, ADDRESSES = FULL + 2 };
	struct rpc_server_options options = {.max_open_calls = 100, .address_percent = 10};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__PingRequest ping = REEVE__V1__PING_REQUEST__INIT;
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	int fds[ADDRESSES][CONNECTIONS], open, sum = 0;

	manager->frozen = true;
	for (int address = 0; address < ADDRESSES; address++)
		for (int i = 0; i < CONNECTIONS; i++)
			fds[address][i] = dial_greeted_from(port_of(manager->url), address + 2);
	for (int address = 0; address < FULL; address++) {
		ask(fds[address][0], waits[address], "/reeve.v1.TaskService/Wait", &wait.base);
		sum += waits[address];
		fake_manager_await(manager, &manager->n_parked, sum);
	}
	for (int address = FULL; address < ADDRESSES; address++) {
		for (int i = 0; i < CONNECTIONS; i++)
			ask(fds[address][i], 3, "/reeve.v1.AdminService/Ping", &ping.base);
		for (int i = 0; i < CONNECTIONS; i++)
			read_frame(fds[address][i]); /* two may be open, even of one connection: at least one of its three was refused */
		fake_manager_do(manager, count_open, &open);
		cr_assert_eq(open, 100 + 2 * (address - FULL + 1));
	}
	for (int address = 0; address < ADDRESSES; address++)
		for (int i = 0; i < CONNECTIONS; i++)
			close(fds[address][i]);
	fake_manager_free(manager);
}

/* Sends a Report of one attempt with a text of `bytes` bytes. */
static void report(int fd, size_t bytes)
{
	Reeve__V1__ReportRequest request = REEVE__V1__REPORT_REQUEST__INIT;
	Reeve__V1__Result result = REEVE__V1__RESULT__INIT, *pointer = &result;
	uint8_t *frame = malloc(bytes + 256), *end;
	char *text = malloc(bytes + 1);

	memset(text, 'x', bytes);
	text[bytes] = 0;
	result.result = text;
	request.results = &pointer;
	request.n_results = 1;
	end = write_frame(frame, 0x80000001u, "/reeve.v1.WorkerService/Report", &request.base);
	cr_assert_eq(send(fd, frame, (size_t)(end - frame), MSG_NOSIGNAL), end - frame);
	free(text);
	free(frame);
}

static void read_calls(struct fake_manager *manager, void *arg)
{
	*(int64_t *)arg = rpc_server_calls(manager->server);
}

/* Waits until the manager has taken or refused so many calls. */
static void await_calls(struct fake_manager *manager, int64_t number)
{
	int64_t until_ms = clock_monotonic_ms() + 10000, calls;

	do {
		cr_assert(clock_monotonic_ms() < until_ms, "not %lld calls", (long long)number);
		pause_ms(1);
		fake_manager_do(manager, read_calls, &calls);
	} while (calls < number);
}

/* Waits have taken all memory, and long Reports all that is reserved for them, no more. Each connection still has room
 * for a small Report, and others are pinged. */
Test(rpc_server, a_small_call_of_leases_passes_whatever_others_hold, .timeout = 30)
{
	enum { IDS = 10000, WAITS = 100, REPORTS = 20, LONG = 90000, SMALL = 3000, MAX = 100000 };
	struct rpc_server_options options = {.max_message_bytes = MAX};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->url), *other = fake_client(manager->url);
	struct fake_result *results = calloc(WAITS, sizeof *results);
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	Reeve__V1__PingRequest ping = REEVE__V1__PING_REQUEST__INIT;
	int64_t *ids = calloc(IDS, sizeof *ids), calls;
	struct rpc_server_memory before, after;
	struct reeve_error error = {0};
	int fds[REPORTS], small[REPORTS], parked;
	ProtobufCMessage *pong;

	wait.n_ids = IDS;
	wait.ids = ids;
	for (int i = 0; i < WAITS; i++) {
		fake_result_init(&results[i]);
		rpc_client_start(client, &reeve__v1__task_service__descriptor, "Wait", &wait.base, NULL, fake_done, &results[i]);
	}
	all_arrived(manager, results, WAITS);
	cr_assert_lt(fake_manager_read(manager, &manager->n_parked), WAITS);
	fake_manager_do(manager, check_memory, &before);
	for (int i = 0; i < REPORTS; i++) {
		fds[i] = dial_greeted(port_of(manager->url));
		fake_manager_do(manager, read_calls, &calls);
		report(fds[i], LONG);
		await_calls(manager, calls + 1);
	}
	fake_manager_do(manager, check_memory, &after);
	cr_expect_leq(after.held - before.held, 64 * MAX / 8 + 1);
	cr_expect_gt(after.held - before.held, 64 * MAX / 8 - 2 * LONG); /* the last may have half of what is left */
	parked = fake_manager_read(manager, &manager->n_parked);
	for (int i = 0; i < REPORTS; i++) {
		small[i] = dial_greeted(port_of(manager->url));
		fake_manager_do(manager, read_calls, &calls);
		for (int j = 0; j < 30; j++)
			report(small[i], SMALL);
		await_calls(manager, calls + 30);
		cr_expect_gt(fake_manager_read(manager, &manager->n_parked), parked, "a small Report was refused");
		parked = fake_manager_read(manager, &manager->n_parked);
	}
	pong = rpc_client_call(other, &reeve__v1__admin_service__descriptor, "Ping", &ping.base, NULL, &error);
	cr_expect(pong, "%s", error.message);
	if (pong)
		protobuf_c_message_free_unpacked(pong, NULL);
	for (int i = 0; i < REPORTS; i++) {
		close(fds[i]);
		close(small[i]);
	}
	rpc_client_destroy(other);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
	free(ids);
}

/* Floods of pings have taken all that is reserved for calls of leases: each connection may still have one. */
Test(rpc_server, a_connection_may_have_a_call_of_leases_whatever_others_have)
{
	enum { FLOODS = 8 };
	struct rpc_server_options options = {.max_open_calls = 100};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	Reeve__V1__PingRequest ping = REEVE__V1__PING_REQUEST__INIT;
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	int fds[FLOODS], others[FLOODS];

	manager->frozen = true;
	for (int i = 0; i < FLOODS; i++) {
		fds[i] = dial_greeted(port_of(manager->url));
		others[i] = dial_greeted(port_of(manager->url));
	}
	ask(fds[0], 100, "/reeve.v1.TaskService/Wait", &wait.base);
	fake_manager_await(manager, &manager->n_parked, 100);
	for (int i = 0; i < FLOODS; i++) {
		int64_t calls;

		fake_manager_do(manager, read_calls, &calls);
		ask(fds[i], 20, "/reeve.v1.AdminService/Ping", &ping.base);
		await_calls(manager, calls + 20);
	}
	for (int i = 0; i < FLOODS; i++) {
		report(others[i], 10);
		fake_manager_await(manager, &manager->n_parked, 101 + i);
	}
	for (int i = 0; i < FLOODS; i++) {
		close(fds[i]);
		close(others[i]);
	}
	fake_manager_free(manager);
}

/* Sends `count` Waits for `ids` tasks each and waits until they are open or refused. */
static void flood(struct fake_manager *manager, int fd, int count, int ids)
{
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	int64_t calls;

	wait.n_ids = (size_t)ids;
	wait.ids = calloc((size_t)ids, sizeof *wait.ids);
	fake_manager_do(manager, read_calls, &calls);
	ask(fd, count, "/reeve.v1.TaskService/Wait", &wait.base);
	await_calls(manager, calls + count);
	free(wait.ids);
}

/* Opens one more Wait for `ids` tasks on a new connection; it must not be refused. */
static void passes(struct fake_manager *manager, int ids)
{
	int fd = dial_greeted(port_of(manager->url)), open = fake_manager_read(manager, &manager->n_parked);

	flood(manager, fd, 1, ids);
	cr_expect_eq(fake_manager_read(manager, &manager->n_parked), open + 1, "a Wait for %d tasks was refused", ids);
	close(fd);
}

/* Submits one task with `bytes` bytes of details on a new connection; it must not be refused. */
static void submits(struct fake_manager *manager, size_t bytes)
{
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT, *pointer = &spec;
	uint8_t *frame = malloc(bytes + 256), *end;
	int fd = dial_greeted(port_of(manager->url)), before = fake_manager_read(manager, &manager->submits);

	spec.type = (char *)"t";
	spec.details = calloc(bytes + 1, 1);
	memset(spec.details, 'x', bytes);
	request.tasks = &pointer;
	request.n_tasks = 1;
	end = write_frame(frame, 0x80000001u, "/reeve.v1.TaskService/Submit", &request.base);
	cr_assert_eq(send(fd, frame, (size_t)(end - frame), MSG_NOSIGNAL), end - frame);
	read_frame(fd);
	cr_expect_eq(fake_manager_read(manager, &manager->submits), before + 1, "a Submit of %zu bytes was refused", bytes);
	close(fd);
	free(spec.details);
	free(frame);
}

/* Many connections ask for as much as they can get. Each gets a share of what the others leave, so that there is room for
 * another's calls, also for long ones. */
Test(rpc_server, many_greedy_connections_leave_room_for_others, .timeout = 30)
{
	enum { GREEDY = 12, MAX = 100000 };
	struct rpc_server_options options = {.max_message_bytes = MAX, .max_open_calls = 2000, .connection_percent = 12};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	int fds[GREEDY], parked;

	for (int i = 0; i < GREEDY; i++) { /* memory */
		fds[i] = dial_greeted(port_of(manager->url));
		flood(manager, fds[i], 100, 10000);
	}
	passes(manager, 10000);
	submits(manager, MAX - 1000);
	for (int i = 0; i < GREEDY; i++)
		close(fds[i]);
	await_connections(manager, 0);
	parked = fake_manager_read(manager, &manager->n_parked);
	for (int i = 0; i < GREEDY; i++) { /* calls */
		fds[i] = dial_greeted(port_of(manager->url));
		flood(manager, fds[i], 400, 1);
	}
	cr_expect_lt(fake_manager_read(manager, &manager->n_parked) - parked, 1600);
	for (int i = 0; i < 10; i++)
		passes(manager, 1);
	for (int i = 0; i < GREEDY; i++)
		close(fds[i]);
	fake_manager_free(manager);
}

/* Many connections with Waits have taken the memory of calls, or all calls: what does not wait has a reserve, and
 * another connection's small Wait passes. */
Test(rpc_server, calls_that_wait_keep_out_no_others, .timeout = 30)
{
	enum { GREEDY = 120, MAX = 100000 };
	struct rpc_server_options options = {.max_message_bytes = MAX, .max_open_calls = 300, .connection_percent = 12};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	int fds[GREEDY];

	for (int i = 0; i < GREEDY; i++) {
		fds[i] = dial_greeted(port_of(manager->url));
		flood(manager, fds[i], 1, 10000);
		flood(manager, fds[i], 10, 10);
	}
	passes(manager, 1);
	submits(manager, 1);
	submits(manager, MAX - 1000);
	for (int i = 0; i < GREEDY; i++)
		close(fds[i]);
	fake_manager_free(manager);
}
