/* The RPC client, over real sockets: calls while managers come, go, freeze and send invalid answers. */
#include "common/rpc/client.h"

#include "fake_manager.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOPBACK "tcp://127.0.0.1:0"
#define TASKS &reeve__v1__task_service__descriptor

/* Returns the URLs of two managers as a client takes them. */
static const char *both(const char *a, const char *b)
{
	static char urls[300];

	snprintf(urls, sizeof urls, "%s, %s", a, b);
	return urls;
}

/* Returns a URL where nothing listens: that of a closed listener. */
static const char *nobody(void)
{
	static char url[128];
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);

	snprintf(url, sizeof url, "%s", manager->url);
	fake_manager_free(manager);
	return url;
}

static void pause_ms(int ms)
{
	usleep((useconds_t)ms * 1000);
}

/* Returns the one of two managers that has parked this number of calls. */
static struct fake_manager *holder(struct fake_manager *a, struct fake_manager *b, int number)
{
	for (int i = 0; i < 5000; i++) {
		if (a->n_parked >= number || b->n_parked >= number)
			return a->n_parked >= number ? a : b;
		pause_ms(2);
	}
	cr_assert_fail("the calls have not arrived");
	return NULL;
}

Test(rpc_client, a_call_ends_at_its_deadline)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct rpc_call_options options = {.timeout_ms = 300};
	struct fake_result result;
	struct reeve_error error;
	int64_t begun_ms;

	cr_assert(rpc_client_alive(client, 5000));
	begun_ms = clock_monotonic_ms();
	fake_start_wait(client, 1, &options, &result);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(DEADLINE_EXCEEDED));
	cr_assert_eq(result.sends, 1);
	cr_assert_geq(result.done_ms - begun_ms, 300);
	cr_assert_lt(result.done_ms - begun_ms, 600);
	/* The answer comes too late; the next call gets its own. */
	fake_manager_do(manager, fake_answer, &manager->parked[0]);
	for (int i = 0; i < 20; i++)
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
	cr_assert_eq(result.done, 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_client, many_deadlines_end_in_their_order)
{
	enum { CALLS = 200 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result *results = calloc(CALLS, sizeof *results);

	for (int i = 0; i < CALLS; i++) {
		struct rpc_call_options options = {.timeout_ms = 300 + 7 * i % 199};

		fake_start_wait(client, i, &options, &results[i]);
	}
	for (int i = 0; i < CALLS; i++)
		fake_result_await(&results[i]);
	for (int i = 0; i < CALLS; i++) {
		for (int j = 0; j < CALLS; j++) {
			if (7 * i % 199 + 50 < 7 * j % 199)
				cr_assert_leq(results[i].done_ms, results[j].done_ms);
		}
	}
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(results);
}

Test(rpc_client, a_cancelled_call_ends_once)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result result;
	struct reeve_error error;
	rpc_call_id id;

	id = fake_start_wait(client, 1, NULL, &result);
	cr_assert_neq(id, 0);
	fake_manager_await(manager, &manager->n_parked, 1);
	rpc_client_cancel(client, id);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(CANCELLED));
	rpc_client_cancel(client, id);
	rpc_client_cancel(client, id + 1000);
	fake_manager_do(manager, fake_answer, &manager->parked[0]);
	cr_assert_eq(fake_call_get(client, 5, &error), STATUS(OK));
	cr_assert_eq(result.done, 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_client, answers_and_cancels_may_race)
{
	enum { CALLS = 2000 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result *results = calloc(CALLS, sizeof *results);
	rpc_call_id *ids = calloc(CALLS, sizeof *ids);
	int cancelled = 0;

	for (int i = 0; i < CALLS; i++) {
		Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;

		fake_result_init(&results[i]);
		ids[i] = rpc_client_start(client, TASKS, "Get", &request.base, NULL, fake_done, &results[i]);
		if (i >= 10)
			rpc_client_cancel(client, ids[i - i % 10]);
	}
	for (int i = 0; i < CALLS; i++) {
		fake_result_await(&results[i]);
		cr_assert(results[i].code == STATUS(OK) || results[i].code == STATUS(CANCELLED));
		cancelled += results[i].code == STATUS(CANCELLED);
	}
	cr_assert_leq(cancelled, CALLS / 10);
	rpc_client_destroy(client);
	for (int i = 0; i < CALLS; i++)
		cr_assert_eq(results[i].done, 1);
	fake_manager_free(manager);
	free(results);
	free(ids);
}

Test(rpc_client, without_a_manager_a_call_is_unavailable)
{
	struct rpc_client *client = fake_client(nobody());
	struct rpc_call_options options = {.timeout_ms = 200};
	struct fake_result result;

	cr_assert_not(rpc_client_alive(client, 0));
	cr_assert_not(rpc_client_alive(client, 100));
	fake_start_wait(client, 1, &options, &result);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(UNAVAILABLE));
	cr_assert_eq(result.sends, 0);
	cr_assert_eq(rpc_client_max_message(client), 0);
	cr_assert_leq(llabs(rpc_client_now_ms(client) - clock_wall_us() / 1000), 1000);
	rpc_client_destroy(client);
}

Test(rpc_client, a_call_waits_for_the_first_manager)
{
	const char *url = nobody();
	struct rpc_client *client = fake_client(url);
	struct fake_manager *manager;
	struct fake_result result;

	fake_start_wait(client, 9, NULL, &result);
	pause_ms(100);
	manager = fake_manager_start(url, NULL);
	fake_manager_await(manager, &manager->n_parked, 1);
	fake_manager_do(manager, fake_answer, &manager->parked[0]);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(OK));
	cr_assert_eq(result.pending, 9);
	cr_assert_eq(result.sends, 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_client, the_managers_tell_time_and_limits)
{
	struct fake_manager *manager = fake_manager_make(LOOPBACK, NULL);
	struct rpc_client *client;
	struct reeve_error error;

	manager->now_us = 4102444800000000;
	manager->max_message_bytes = 123456;
	fake_manager_run(manager);
	client = fake_client(manager->url);
	cr_assert(rpc_client_alive(client, 5000));
	cr_assert_eq(rpc_client_max_message(client), 123456);
	cr_assert_eq(rpc_client_max_details(client), 1000);
	cr_assert_leq(llabs(rpc_client_now_ms(client) - 4102444800000), 2000);
	/* Request ids use that clock. */
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert(manager->had_id);
	cr_assert_leq(llabs(uuid7_time_ms(manager->last_id) - 4102444800000), 2000);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_client, a_call_that_is_too_long_is_not_sent)
{
	struct fake_manager *manager = fake_manager_make(LOOPBACK, NULL);
	struct rpc_client_options options = {.max_message_bytes = 50000};
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT, *tasks[] = {&spec};
	struct rpc_client *client;
	struct reeve_error error = {0};
	char *details = malloc(60001);

	manager->max_message_bytes = 20000;
	fake_manager_run(manager);
	options.urls = manager->url;
	client = rpc_client_create(&options, &error);
	memset(details, 'd', 60000);
	details[60000] = 0;
	spec.details = details;
	request.n_tasks = 1;
	request.tasks = tasks;
	/* Longer than the client sends; longer than the manager's limit; and within both limits. */
	cr_assert_null(rpc_client_call(client, TASKS, "Submit", &request.base, NULL, &error));
	cr_assert_eq(error.code, STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(error.message, "at most 50000"), "%s", error.message);
	details[30000] = 0;
	cr_assert_null(rpc_client_call(client, TASKS, "Submit", &request.base, NULL, &error));
	cr_assert_eq(error.code, STATUS(INVALID_ARGUMENT));
	cr_assert(strstr(error.message, "at most 20000"), "%s", error.message);
	details[10000] = 0;
	protobuf_c_message_free_unpacked(rpc_client_call(client, TASKS, "Submit", &request.base, NULL, &error), NULL);
	cr_assert_eq(manager->submits, 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(details);
}

/* A call that passes the sender's check must also pass the receiver's. */
Test(rpc_client, the_longest_call_that_may_be_sent_is_taken)
{
	enum { LIMIT = 30000 };
	struct rpc_server_options server_options = {.max_message_bytes = LIMIT};
	struct fake_manager *manager = fake_manager_make(LOOPBACK, &server_options);
	Reeve__V1__SubmitRequest request = REEVE__V1__SUBMIT_REQUEST__INIT;
	Reeve__V1__TaskSpec spec = REEVE__V1__TASK_SPEC__INIT, *tasks[] = {&spec};
	struct rpc_call_options options = {.timeout_ms = 3000};
	struct rpc_client *client;
	struct reeve_error error = {0};
	char *details = malloc(LIMIT + 1);
	int taken = 0, refused = 0;

	manager->max_message_bytes = LIMIT;
	fake_manager_run(manager);
	client = fake_client(manager->url);
	request.n_tasks = 1;
	request.tasks = tasks;
	for (int length = LIMIT - 200; length < LIMIT; length += 1) {
		ProtobufCMessage *response;

		memset(details, 'd', (size_t)length);
		details[length] = 0;
		spec.details = details;
		response = rpc_client_call(client, TASKS, "Submit", &request.base, &options, &error);
		if (response)
			taken = length;
		else if (!refused)
			refused = length;
		cr_assert(response || error.code == STATUS(INVALID_ARGUMENT), "%s", error.message);
		if (response)
			protobuf_c_message_free_unpacked(response, NULL);
	}
	cr_assert_gt(taken, 0);
	cr_assert_eq(refused, taken + 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
	free(details);
}

static void note_resend(ProtobufCMessage *request, void *arg)
{
	struct fake_result *result = arg;
	Reeve__V1__WaitRequest *wait = (void *)request;

	result->resent++;
	wait->ids[0] += 1000;
}

Test(rpc_client, calls_move_over_when_their_manager_dies)
{
	enum { CALLS = 500 };
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(both(a->url, b->url));
	struct rpc_call_options options = {.timeout_ms = 20000, .before_resend = note_resend};
	struct fake_result *results = calloc(CALLS, sizeof *results);
	Reeve__V1__WaitRequest *requests = calloc(CALLS, sizeof *requests);
	int64_t *ids = calloc(CALLS, sizeof *ids);
	struct fake_manager *first, *second;

	cr_assert(rpc_client_alive(client, 5000));
	pause_ms(1200);
	for (int i = 0; i < CALLS; i++) {
		fake_result_init(&results[i]);
		requests[i] = (Reeve__V1__WaitRequest)REEVE__V1__WAIT_REQUEST__INIT;
		ids[i] = i;
		requests[i].ids = &ids[i];
		requests[i].n_ids = 1;
		rpc_client_start(client, TASKS, "Wait", &requests[i].base, &options, fake_done, &results[i]);
	}
	first = holder(a, b, CALLS);
	second = first == a ? b : a;
	fake_manager_await(first, &first->n_parked, CALLS);
	cr_assert_eq(second->n_parked, 0, "calls stay with one manager");
	fake_manager_stop(first);
	fake_manager_await(second, &second->n_parked, CALLS);
	for (int i = 0; i < CALLS; i++) {
		struct fake_parked *moved = &second->parked[i];
		int64_t id = moved->id - 1000;

		cr_assert(id >= 0 && id < CALLS);
		/* The same call has the same request id, and before_resend has changed it. */
		for (int j = 0; j < CALLS; j++) {
			if (first->parked[j].id == id)
				cr_assert_eq(memcmp(first->parked[j].request_id, moved->request_id, UUID_BYTES), 0);
		}
		fake_manager_do(second, fake_answer, moved);
	}
	for (int i = 0; i < CALLS; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(OK));
		cr_assert_eq(results[i].pending, (uint32_t)i + 1000);
		cr_assert_eq(results[i].sends, 2);
		cr_assert_eq(results[i].resent, 1);
	}
	rpc_client_destroy(client);
	fake_manager_free(a);
	fake_manager_free(b);
	free(results);
	free(requests);
	free(ids);
}

Test(rpc_client, calls_go_on_when_their_manager_comes_back)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL), *again;
	struct rpc_client *client = fake_client(manager->url);
	struct fake_result results[20];
	struct reeve_error error;

	for (int i = 0; i < 20; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 20);
	fake_manager_stop(manager);
	for (int i = 0; i < 1000 && rpc_client_alive(client, 0); i++)
		pause_ms(1);
	cr_assert_not(rpc_client_alive(client, 0), "a lost connection is noticed at once");
	again = fake_manager_start(manager->url, NULL);
	fake_manager_await(again, &again->n_parked, 20);
	for (int i = 0; i < 20; i++)
		fake_manager_do(again, fake_answer, &again->parked[i]);
	for (int i = 0; i < 20; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(OK));
		cr_assert_eq(results[i].sends, 2);
	}
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	fake_manager_free(again);
}

/* Many threads make calls while their managers die and come back one after the other. */
struct storm {
	struct rpc_client *client;
	atomic_bool stop;
	atomic_int calls, failures;
};

static void *storm_calls(void *arg)
{
	struct storm *storm = arg;

	while (!atomic_load(&storm->stop)) {
		struct reeve_error error;

		if (fake_call_get(storm->client, atomic_fetch_add(&storm->calls, 1), &error) != STATUS(OK))
			atomic_fetch_add(&storm->failures, 1);
	}
	return NULL;
}

Test(rpc_client, no_call_fails_while_managers_restart_in_turn)
{
	enum { THREADS = 8, RESTARTS = 12 };
	struct fake_manager *managers[2] = {fake_manager_start(LOOPBACK, NULL), fake_manager_start(LOOPBACK, NULL)};
	struct storm storm = {.client = fake_client(both(managers[0]->url, managers[1]->url))};
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, storm_calls, &storm), 0);
	for (int i = 0; i < RESTARTS; i++) {
		struct fake_manager *old = managers[i % 2];
		int calls = atomic_load(&storm.calls);

		fake_manager_stop(old);
		pause_ms(50);
		managers[i % 2] = fake_manager_start(old->url, NULL);
		fake_manager_free(old);
		while (atomic_load(&storm.calls) < calls + 100)
			pause_ms(1);
	}
	atomic_store(&storm.stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(atomic_load(&storm.failures), 0);
	rpc_client_destroy(storm.client);
	fake_manager_free(managers[0]);
	fake_manager_free(managers[1]);
}

#define MANAGER_FD "REEVE_TEST_MANAGER_FD"

/* Makes this program a manager instead of a test if its environment has a descriptor. A fork alone does not work,
 * because criterion has already used nng. Runs before main. */
__attribute__((constructor)) static void be_a_manager(void)
{
	const char *fd = getenv(MANAGER_FD);
	struct fake_manager *manager;

	if (!fd)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	manager = fake_manager_make(LOOPBACK, NULL);
	if (write(atoi(fd), manager->url, sizeof manager->url) == sizeof manager->url)
		fake_loop(manager);
	_exit(1);
}

/* Starts a manager in a process of its own and writes its URL to `url`. */
static pid_t spawn_manager(char url[128])
{
	int fds[2];
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		char number[16];

		snprintf(number, sizeof number, "%d", fds[1]);
		setenv(MANAGER_FD, number, 1);
		execl("/proc/self/exe", "fake-manager", (char *)NULL);
		_exit(1);
	}
	cr_assert_gt(pid, 0);
	close(fds[1]);
	cr_assert_eq(read(fds[0], url, 128), 128);
	close(fds[0]);
	return pid;
}

Test(rpc_client, a_frozen_manager_is_left_within_the_pings_limit)
{
	char frozen_url[128];
	pid_t frozen = spawn_manager(frozen_url);
	struct rpc_client *client = fake_client(frozen_url), *fresh;
	struct fake_manager *other;
	struct fake_result results[50];
	struct rpc_client_options options = {.ping_interval_ms = 100, .ping_limit_ms = 400};
	struct reeve_error error = {0};
	int64_t frozen_ms;

	/* First only the manager that will freeze is running, so it gets the calls. */
	rpc_client_destroy(client);
	other = fake_manager_make(LOOPBACK, NULL);
	options.urls = both(frozen_url, other->url);
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	for (int i = 0; i < 50; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_run(other);
	pause_ms(300);
	cr_assert_eq(other->n_parked, 0);
	cr_assert_eq(kill(frozen, SIGSTOP), 0);
	frozen_ms = clock_monotonic_ms();
	fake_manager_await(other, &other->n_parked, 50);
	cr_assert_lt(clock_monotonic_ms() - frozen_ms, 100 + 400 + 300);
	for (int i = 0; i < 50; i++)
		fake_manager_do(other, fake_answer, &other->parked[i]);
	for (int i = 0; i < 50; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(OK));
		cr_assert_eq(results[i].sends, 2);
	}
	/* A new client finds the other manager; the kernel still accepts connections for the frozen one. */
	fresh = fake_client(both(frozen_url, other->url));
	cr_assert_eq(fake_call_get(fresh, 1, &error), STATUS(OK));
	rpc_client_destroy(fresh);
	/* Continued, it is used again when the other manager is stopped. */
	cr_assert_eq(kill(frozen, SIGCONT), 0);
	fake_manager_stop(other);
	cr_assert_eq(fake_call_get(client, 2, &error), STATUS(OK), "%s", error.message);
	rpc_client_destroy(client);
	fake_manager_free(other);
	kill(frozen, SIGKILL);
	waitpid(frozen, NULL, 0);
}

static int pings_in(struct fake_manager *manager, int ms)
{
	int before, after;

	pthread_mutex_lock(&manager->lock);
	before = manager->pings;
	pthread_mutex_unlock(&manager->lock);
	pause_ms(ms);
	pthread_mutex_lock(&manager->lock);
	after = manager->pings;
	pthread_mutex_unlock(&manager->lock);
	return after - before;
}

/* Without calls, or with only parked calls, the client pings a manager as rarely as the manager wants; with other
 * calls, often. */
Test(rpc_client, idle_connections_ping_as_rarely_as_the_manager_wants)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client_options options = {.urls = manager->url, .ping_interval_ms = 50, .ping_limit_ms = 400};
	struct rpc_call_options parks = {.parks = true};
	struct fake_result parked, quick;
	struct rpc_client *client;
	struct reeve_error error = {0};

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
	cr_assert_geq(pings_in(manager, 1000), 8);
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
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client_options options = {.urls = manager->url, .ping_interval_ms = 50, .ping_limit_ms = 400};
	struct rpc_client *client;
	struct reeve_error error = {0};
	int pings[2] = {0};

	manager->idle_ping_ms = 800;
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	pings_in(manager, 200);
	for (int i = 0; i < 40; i++) { /* 12 calls in 2.4 s, then 28 in 5.6 s */
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
		pings[i >= 12] += pings_in(manager, 200);
	}
	cr_expect_leq(pings[0], 1);
	cr_expect_geq(pings[1], 1);
	cr_expect_leq(pings[1], 3);
	cr_expect_geq(pings_in(manager, 2500), 2, "nothing else is heard");
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
	client = fake_client(both(url, manager->url));
	for (int i = 0; i < 10; i++)
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
	rpc_client_destroy(client);
	fake_manager_free(manager);
	close(fd);
}

Test(rpc_client, unavailable_is_tried_elsewhere)
{
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(both(a->url, b->url));
	struct fake_manager *sick;
	struct reeve_error error;
	int gets;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	pause_ms(1200);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	sick = a->gets > b->gets ? a : b;
	sick->get_answers = STATUS(UNAVAILABLE);
	sick = a->gets && b->gets ? NULL : sick;
	a->get_answers = sick == b ? STATUS(OK) : STATUS(UNAVAILABLE);
	b->get_answers = a->get_answers == STATUS(OK) ? STATUS(UNAVAILABLE) : STATUS(OK);
	gets = a->gets + b->gets;
	cr_assert_eq(fake_call_get(client, 2, &error), STATUS(OK));
	/* The calls after it go there at once. */
	for (int i = 0; i < 50; i++)
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
	cr_assert_leq(a->gets + b->gets, gets + 52);
	rpc_client_destroy(client);
	fake_manager_free(a);
	fake_manager_free(b);
}

/* Its connections stay open, but no answers arrive: its calls move to a manager that can answer. */
Test(rpc_client, a_manager_whose_database_does_not_answer_is_left_while_anothers_does)
{
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client;
	struct rpc_client_options options = {.ping_interval_ms = 100, .ping_limit_ms = 2000};
	struct reeve_error error = {0};
	struct fake_result results[20];

	options.urls = both(a->url, b->url);
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	pause_ms(400);
	for (int i = 0; i < 20; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	struct fake_manager *sick = holder(a, b, 20), *well = sick == a ? b : a;
	fake_manager_await(sick, &sick->n_parked, 20);
	sick->database_down = true;
	fake_manager_await(well, &well->n_parked, 20);
	for (int i = 0; i < 20; i++)
		fake_manager_do(well, fake_answer, &well->parked[i]);
	for (int i = 0; i < 20; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(OK));
	}
	int gets = sick->gets;
	for (int i = 0; i < 20; i++)
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK), "%s", error.message);
	cr_assert_eq(sick->gets, gets, "those that follow go elsewhere");
	/* Without a better manager it is still called, because its error message is the most useful. */
	sick->database_down = false;
	well->database_down = true;
	pause_ms(400);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "%s", error.message);
	fake_manager_stop(sick);
	cr_assert(rpc_client_alive(client, 0), "one without its database is alive");
	rpc_client_destroy(client);
	fake_manager_free(a);
	fake_manager_free(b);
}

/* A ping that times out shows that the manager is busy, not that it has no room or no database. */
Test(rpc_client, a_manager_is_left_when_it_has_no_room_not_when_it_is_slow)
{
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client;
	struct rpc_client_options options = {.ping_interval_ms = 100, .ping_limit_ms = 2000};
	struct reeve_error error = {0};

	options.urls = both(a->url, b->url);
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	pause_ms(400);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	struct fake_manager *first = a->gets ? a : b, *other = a->gets ? b : a;
	first->ping_answers = STATUS(DEADLINE_EXCEEDED);
	pause_ms(400);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert_eq(other->gets, 0, "it is slow");
	first->ping_answers = STATUS(RESOURCE_EXHAUSTED);
	pause_ms(400);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert_eq(other->gets, 1, "it has no room");
	rpc_client_destroy(client);
	fake_manager_free(a);
	fake_manager_free(b);
}

Test(rpc_client, unavailable_everywhere_lasts_until_it_ends_or_the_time_is_over)
{
	enum { SENDS = 12, PAUSE_MIN_MS = 50 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
	struct rpc_call_options options = {.timeout_ms = 700};
	struct fake_result result;
	int64_t began_ms = clock_monotonic_ms();

	manager->get_answers = STATUS(UNAVAILABLE);
	fake_result_init(&result);
	rpc_client_start(client, TASKS, "Get", &request.base, &options, fake_done, &result);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(DEADLINE_EXCEEDED));
	cr_assert_geq(clock_monotonic_ms() - began_ms, 700);
	cr_assert(strstr(result.message, "as the test"), "%s", result.message);
	pthread_mutex_lock(&manager->lock);
	manager->gets = 0;
	pthread_mutex_unlock(&manager->lock);
	options.timeout_ms = 60000;
	began_ms = clock_monotonic_ms();
	fake_result_init(&result);
	rpc_client_start(client, TASKS, "Get", &request.base, &options, fake_done, &result);
	fake_manager_await(manager, &manager->gets, SENDS); /* fails if pauses go on doubling: 100 s */
	pthread_mutex_lock(&manager->lock);
	manager->get_answers = STATUS(OK);
	pthread_mutex_unlock(&manager->lock);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(OK));
	cr_assert_geq(result.sends, SENDS);
	cr_assert_geq(clock_monotonic_ms() - began_ms, (SENDS - 1) * PAUSE_MIN_MS);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_client, other_refusals_are_the_callers)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->url);
	struct reeve_error error;

	manager->get_answers = STATUS(NOT_FOUND);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(NOT_FOUND));
	cr_assert_str_eq(error.message, "as the test \"caf\xc3\xa9\" wants it");
	cr_assert_eq(manager->gets, 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

struct chain {
	struct rpc_client *client;
	struct fake_result last;
	atomic_int left;
};

static void chain_next(void *arg, struct rpc_answer *answer)
{
	struct chain *chain = arg;
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;

	if (answer->code != STATUS(OK) || atomic_fetch_sub(&chain->left, 1) == 1) {
		fake_done(&chain->last, answer);
		return;
	}
	protobuf_c_message_free_unpacked(answer->response, NULL);
	rpc_client_start(chain->client, TASKS, "Get", &request.base, NULL, chain_next, chain);
}

Test(rpc_client, a_callback_may_start_the_next_call)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct chain chain = {.client = fake_client(manager->url), .left = 3000};
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;

	fake_result_init(&chain.last);
	rpc_client_start(chain.client, TASKS, "Get", &request.base, NULL, chain_next, &chain);
	fake_result_await(&chain.last);
	cr_assert_eq(chain.last.code, STATUS(OK));
	cr_assert_eq(manager->gets, 3000);
	rpc_client_destroy(chain.client);
	fake_manager_free(manager);
}

Test(rpc_client, destroying_it_ends_every_call_once)
{
	enum { CHAINS = 50 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(both(manager->url, nobody()));
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;
	struct fake_result *waits = calloc(CHAINS, sizeof *waits);
	struct chain *chains = calloc(CHAINS, sizeof *chains);

	for (int i = 0; i < CHAINS; i++) {
		chains[i].client = client;
		chains[i].left = INT32_MAX;
		fake_result_init(&chains[i].last);
		fake_start_wait(client, i, NULL, &waits[i]);
		rpc_client_start(client, TASKS, "Get", &request.base, NULL, chain_next, &chains[i]);
	}
	fake_manager_await(manager, &manager->gets, 500);
	rpc_client_destroy(client);
	for (int i = 0; i < CHAINS; i++) {
		cr_assert_eq(waits[i].done, 1);
		cr_assert_eq(waits[i].code, STATUS(CANCELLED));
		cr_assert_eq(chains[i].last.done, 1);
		cr_assert_eq(chains[i].last.code, STATUS(CANCELLED));
	}
	fake_manager_free(manager);
	free(waits);
	free(chains);
}

Test(rpc_client, is_sticky_and_spreads_with_others)
{
	enum { CLIENTS = 24 };
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	int at_a = 0;

	for (int i = 0; i < CLIENTS; i++) {
		struct rpc_client *client = fake_client(both(a->url, b->url));
		struct reeve_error error;
		int before, after;

		cr_assert(rpc_client_alive(client, 5000));
		pause_ms(30);
		before = a->gets;
		for (int j = 0; j < 10; j++)
			cr_assert_eq(fake_call_get(client, j, &error), STATUS(OK));
		after = a->gets;
		cr_assert(after == before || after == before + 10, "calls stay with one manager");
		at_a += after > before;
		rpc_client_destroy(client);
	}
	/* The probability that all 24 clients choose the same manager is one in eight million. */
	cr_assert_gt(at_a, 0);
	cr_assert_lt(at_a, CLIENTS);
	fake_manager_free(a);
	fake_manager_free(b);
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

Test(rpc_client, false_urls_are_refused)
{
	static const char *const urls[] = {
	    "", " , ", "nonsense", "tcp://", "tcp://host", "tcp://host:0", "pigeon://a:1", "tcp://127.0.0.1:7171,bad"};

	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
		struct rpc_client_options options = {.urls = urls[i]};
		struct reeve_error error = {0};

		cr_assert_null(rpc_client_create(&options, &error), "%s", urls[i]);
		cr_assert_eq(error.code, STATUS(INVALID_ARGUMENT), "%s", urls[i]);
	}
}

Test(rpc_client, the_caller_is_named_by_user_and_host_if_not_otherwise)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client_options options = {.urls = manager->url};
	struct rpc_client *client = rpc_client_create(&options, NULL);
	struct reeve_error error;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert(strchr(manager->actor, '@'));
	cr_assert_str_eq(manager->token, "");
	rpc_client_destroy(client);
	fake_manager_free(manager);
}
