/* Calls while managers come, go, freeze and lose their database. */
#include "client_support.h"
#include "server_support.h"
#include "tests/unit/own_time.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

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
	struct rpc_client *client = fake_client(both(a->host.url, b->host.url));
	struct rpc_call_options options = {.timeout_ms = 20000, .before_resend = note_resend};
	struct fake_result *results = calloc(CALLS, sizeof *results);
	Reeve__V1__WaitRequest *requests = calloc(CALLS, sizeof *requests);
	int64_t *ids = calloc(CALLS, sizeof *ids);
	struct fake_manager *first, *second;

	await_both_alive(client);
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
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result results[20];
	struct reeve_error error;

	for (int i = 0; i < 20; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_await(manager, &manager->n_parked, 20);
	fake_manager_stop(manager);
	for (int i = 0; i < 1000 && rpc_client_alive(client, 0); i++)
		pause_ms(1);
	cr_assert_not(rpc_client_alive(client, 0), "a lost connection is noticed at once");
	again = fake_manager_start(manager->host.url, NULL);
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
	struct storm storm = {.client = fake_client(both(managers[0]->host.url, managers[1]->host.url))};
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, storm_calls, &storm), 0);
	for (int i = 0; i < RESTARTS; i++) {
		struct fake_manager *old = managers[i % 2];
		int calls = atomic_load(&storm.calls);

		fake_manager_stop(old);
		pause_ms(50);
		managers[i % 2] = fake_manager_start(old->host.url, NULL);
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
	if (write(atoi(fd), manager->host.url, sizeof manager->host.url) == sizeof manager->host.url)
		fake_host_loop(&manager->host);
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

/* Waits until the manager has got so many more pings. */
static void await_pings(struct fake_manager *manager, int count)
{
	fake_manager_await(manager, &manager->pings, fake_manager_read(manager, &manager->pings) + count);
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
	options.urls = both(frozen_url, other->host.url);
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	for (int i = 0; i < 50; i++)
		fake_start_wait(client, i, NULL, &results[i]);
	fake_manager_run(other);
	await_pings(other, 1);
	cr_assert_eq(other->n_parked, 0);
	cr_assert_eq(kill(frozen, SIGSTOP), 0);
	frozen_ms = own_ms();
	fake_manager_await(other, &other->n_parked, 50);
	cr_assert_lt(own_ms() - frozen_ms, 100 + 400 + 300);
	for (int i = 0; i < 50; i++)
		fake_manager_do(other, fake_answer, &other->parked[i]);
	for (int i = 0; i < 50; i++) {
		fake_result_await(&results[i]);
		cr_assert_eq(results[i].code, STATUS(OK));
		cr_assert_eq(results[i].sends, 2);
	}
	/* A new client finds the other manager; the kernel still accepts connections for the frozen one. */
	fresh = fake_client(both(frozen_url, other->host.url));
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

Test(rpc_client, unavailable_is_tried_elsewhere)
{
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(both(a->host.url, b->host.url));
	struct fake_manager *sick;
	struct reeve_error error;
	int gets;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	await_both_alive(client);
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

	options.urls = both(a->host.url, b->host.url);
	client = rpc_client_create(&options, &error);
	await_both_alive(client);
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
	await_pings(well, 2);
	await_pings(sick, 2);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK), "%s", error.message);
	fake_manager_stop(sick);
	cr_assert(rpc_client_alive(client, 0), "one without its database is alive");
	rpc_client_destroy(client);
	fake_manager_free(a);
	fake_manager_free(b);
}

/* A ping that times out shows that the manager is busy, not that it has no room or no database. */
Test(rpc_client, a_manager_is_left_when_it_has_no_capacity_not_when_it_is_slow)
{
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client;
	struct rpc_client_options options = {.ping_interval_ms = 100, .ping_limit_ms = 2000};
	struct reeve_error error = {0};

	options.urls = both(a->host.url, b->host.url);
	client = rpc_client_create(&options, &error);
	await_both_alive(client);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	struct fake_manager *first = a->gets ? a : b, *other = a->gets ? b : a;
	first->ping_answers = STATUS(DEADLINE_EXCEEDED);
	await_pings(first, 2); /* the second one comes after the answer to the first */
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert_eq(other->gets, 0, "it is slow");
	first->ping_answers = STATUS(RESOURCE_EXHAUSTED);
	await_pings(first, 2);
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
	struct rpc_client *client = fake_client(manager->host.url);
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
	pthread_mutex_lock(&manager->host.lock);
	manager->gets = 0;
	pthread_mutex_unlock(&manager->host.lock);
	options.timeout_ms = 60000;
	began_ms = clock_monotonic_ms();
	fake_result_init(&result);
	rpc_client_start(client, TASKS, "Get", &request.base, &options, fake_done, &result);
	fake_manager_await(manager, &manager->gets, SENDS); /* fails if pauses go on doubling: 100 s */
	pthread_mutex_lock(&manager->host.lock);
	manager->get_answers = STATUS(OK);
	pthread_mutex_unlock(&manager->host.lock);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(OK));
	cr_assert_geq(result.sends, SENDS);
	cr_assert_geq(clock_monotonic_ms() - began_ms, (SENDS - 1) * PAUSE_MIN_MS);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_client, is_sticky_and_spreads_with_others)
{
	enum { CLIENTS = 24 };
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	int at_a = 0;

	for (int i = 0; i < CLIENTS; i++) {
		struct rpc_client *client = fake_client(both(a->host.url, b->host.url));
		struct reeve_error error;
		int before, after;

		/* Before, it may use the one that is alive instead of the one on which the lot has fallen. */
		await_both_alive(client);
		before = a->gets;
		for (int j = 0; j < 10; j++)
			cr_assert_eq(fake_call_get(client, j, &error), STATUS(OK));
		after = a->gets;
		cr_assert(after == before || after == before + 10, "calls stay with one manager");
		at_a += after > before;
		rpc_client_destroy(client);
		await_connections(a, 0);
		await_connections(b, 0);
	}
	/* The probability that all 24 clients choose the same manager is one in eight million. */
	cr_assert_gt(at_a, 0);
	cr_assert_lt(at_a, CLIENTS);
	fake_manager_free(a);
	fake_manager_free(b);
}
