/* The limits on open calls, and their reserves. */
#include "server_support.h"

#include <reeve/v1/worker.pb-c.h>
#include <sys/socket.h>

static void read_refused(struct fake_manager *manager, void *arg)
{
	*(int64_t *)arg = rpc_server_refused(manager->host.server);
}

/* One connection may have all calls. Beyond them it has two small ones that wait, and calls that do not wait have a
 * reserve. */
Test(rpc_server, too_many_open_calls_are_refused_until_some_end)
{
	enum { OPEN = 302 };
	struct rpc_server_options options = {.max_open_calls = 300};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->host.url);
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
		cr_assert(
		    strstr(refused[i].message, "300 calls are open, the maximum (--max-calls)"), "%s", refused[i].message);
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

Test(rpc_server, open_calls_hold_a_bounded_amount_of_memory)
{
	enum { IDS = 10000, CALLS = 200 };
	struct rpc_server_options options = {.max_message_bytes = 100000};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result *results = calloc(CALLS, sizeof *results);
	Reeve__V1__WaitRequest request = REEVE__V1__WAIT_REQUEST__INIT;
	struct reeve_error error;
	int64_t *ids = calloc(IDS, sizeof *ids);

	request.n_ids = IDS;
	request.ids = ids;
	open_waits(manager, client, &request, results, CALLS);
	cr_assert_lt(manager->n_parked, CALLS);
	for (int i = 0; i < CALLS; i++) {
		cr_assert(!results[i].done || results[i].code == STATUS(RESOURCE_EXHAUSTED));
		cr_assert(!results[i].done || strstr(results[i].message, "the maximum (64 times --max-message)"), "%s",
		    results[i].message);
	}
	cr_assert_leq(manager->n_parked * IDS * 8, 2 * 64 * 100000);
	/* Once they are answered, there is room again. */
	fake_manager_do(manager, answer_all, NULL);
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
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result *results = calloc(WAITS + CALLS, sizeof *results);
	Reeve__V1__WaitRequest wait = REEVE__V1__WAIT_REQUEST__INIT;
	Reeve__V1__StatsRequest stats = REEVE__V1__STATS_REQUEST__INIT;
	int64_t ids[IDS] = {0};
	int waits, refused = 0;

	wait.n_ids = IDS;
	wait.ids = ids;
	open_waits(manager, client, &wait, results, WAITS);
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
		cr_assert(!results[i].done || strstr(results[i].message, "the maximum (64 times --max-message)"), "%s",
		    results[i].message);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
}

/* Clients on this machine have one connection in addition to those for all. */
Test(rpc_server, callers_over_the_limit_are_refused_until_there_is_capacity)
{
	enum { CONNECTIONS = 6 };
	struct rpc_server_options options = {.max_connections = CONNECTIONS - 1};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	struct rpc_client *clients[CONNECTIONS], *last;
	struct reeve_error error;
	int64_t until_ms;

	for (int i = 0; i < CONNECTIONS; i++) {
		clients[i] = fake_client(manager->host.url);
		cr_assert(rpc_client_alive(clients[i], 5000));
	}
	last = fake_client(manager->host.url);
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
	struct rpc_client *flood = fake_client(manager->host.url), *other = fake_client(manager->host.url);
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
		cr_assert(strstr(results[i].message,
		              "100 calls of one connection are open, its share of the 1000 that others leave "
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
	struct rpc_client *flood = fake_client(manager->host.url), *other = fake_client(manager->host.url);
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
		rpc_client_start(
		    flood, &reeve__v1__admin_service__descriptor, "Stats", &stats.base, NULL, fake_done, &results[i]);
	}
	fake_manager_await(manager, &manager->n_parked, 104);
	fake_result_init(&result);
	rpc_client_start(other, &reeve__v1__admin_service__descriptor, "Stats", &stats.base, NULL, fake_done, &result);
	fake_manager_await(manager, &manager->n_parked, 105);
	for (int i = 0; i < 10; i++) {
		ProtobufCMessage *pong =
		    rpc_client_call(other, &reeve__v1__admin_service__descriptor, "Ping", &ping.base, NULL, &error);

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
		fds[i] = dial_greeted(port_of(manager->host.url));
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
			fds[address][i] = dial_greeted_from(port_of(manager->host.url), address + 2);
	for (int address = 0; address < FULL; address++) {
		ask(fds[address][0], waits[address], "/reeve.v1.TaskService/Wait", &wait.base);
		sum += waits[address];
		fake_manager_await(manager, &manager->n_parked, sum);
	}
	for (int address = FULL; address < ADDRESSES; address++) {
		for (int i = 0; i < CONNECTIONS; i++)
			ask(fds[address][i], 3, "/reeve.v1.AdminService/Ping", &ping.base);
		for (int i = 0; i < CONNECTIONS; i++)
			/* two may be open, even of one connection: at least one of its three was refused */
			read_frame(fds[address][i]);
		fake_manager_do(manager, count_open, &open);
		cr_assert_eq(open, 100 + 2 * (address - FULL + 1));
	}
	for (int address = 0; address < ADDRESSES; address++)
		for (int i = 0; i < CONNECTIONS; i++)
			close(fds[address][i]);
	fake_manager_free(manager);
}
