/* Callers that take all they can get, and what others can still do. */
#include "server_support.h"

#include <reeve/v1/worker.pb-c.h>
#include <sys/socket.h>

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
	*(int64_t *)arg = rpc_server_calls(manager->host.server);
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
	struct rpc_client *client = fake_client(manager->host.url), *other = fake_client(manager->host.url);
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
	open_waits(manager, client, &wait, results, WAITS);
	cr_assert_lt(fake_manager_read(manager, &manager->n_parked), WAITS);
	fake_manager_do(manager, check_memory, &before);
	for (int i = 0; i < REPORTS; i++) {
		fds[i] = dial_greeted(port_of(manager->host.url));
		fake_manager_do(manager, read_calls, &calls);
		report(fds[i], LONG);
		await_calls(manager, calls + 1);
	}
	fake_manager_do(manager, check_memory, &after);
	cr_expect_leq(after.held - before.held, 64 * MAX / 8 + 1);
	cr_expect_gt(after.held - before.held, 64 * MAX / 8 - 2 * LONG); /* the last may have half of what is left */
	parked = fake_manager_read(manager, &manager->n_parked);
	for (int i = 0; i < REPORTS; i++) {
		small[i] = dial_greeted(port_of(manager->host.url));
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
		fds[i] = dial_greeted(port_of(manager->host.url));
		others[i] = dial_greeted(port_of(manager->host.url));
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
	int fd = dial_greeted(port_of(manager->host.url)), open = fake_manager_read(manager, &manager->n_parked);

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
	int fd = dial_greeted(port_of(manager->host.url)), before = fake_manager_read(manager, &manager->submits);

	char *details = calloc(bytes + 1, 1);

	memset(details, 'x', bytes);
	spec.type = "t";
	spec.details = details;
	request.tasks = &pointer;
	request.n_tasks = 1;
	end = write_frame(frame, 0x80000001u, "/reeve.v1.TaskService/Submit", &request.base);
	cr_assert_eq(send(fd, frame, (size_t)(end - frame), MSG_NOSIGNAL), end - frame);
	read_frame(fd);
	cr_expect_eq(fake_manager_read(manager, &manager->submits), before + 1, "a Submit of %zu bytes was refused", bytes);
	close(fd);
	free(details);
	free(frame);
}

/* Many connections ask for as much as they can get. Each gets a share of what the others leave, so that there is room
 * for another's calls, also for long ones. */
Test(rpc_server, many_greedy_connections_leave_capacity_for_others, .timeout = 30)
{
	enum { GREEDY = 12, MAX = 100000 };
	struct rpc_server_options options = {.max_message_bytes = MAX, .max_open_calls = 2000, .connection_percent = 12};
	struct fake_manager *manager = fake_manager_start(LOOPBACK, &options);
	int fds[GREEDY], parked;

	for (int i = 0; i < GREEDY; i++) { /* memory */
		fds[i] = dial_greeted(port_of(manager->host.url));
		flood(manager, fds[i], 100, 10000);
	}
	passes(manager, 10000);
	submits(manager, MAX - 1000);
	for (int i = 0; i < GREEDY; i++)
		close(fds[i]);
	await_connections(manager, 0);
	parked = fake_manager_read(manager, &manager->n_parked);
	for (int i = 0; i < GREEDY; i++) { /* calls */
		fds[i] = dial_greeted(port_of(manager->host.url));
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
		fds[i] = dial_greeted(port_of(manager->host.url));
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
