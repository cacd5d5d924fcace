/* Which manager a client uses: names and addresses that lead nowhere, and managers that come back. */
#include "common/rpc/client.h"

#include "client_support.h"
#include "names.h"
#include "tests/unit/own_time.h"

#include <unistd.h>

/* Returns a manager's URL with a name instead of its address. */
static const char *named(const char *name, const struct fake_manager *manager)
{
	static char url[160];

	snprintf(url, sizeof url, "tcp://%s%s", name, strrchr(manager->host.url, ':'));
	return url;
}

/* Stops a manager and starts it again at its address. */
static struct fake_manager *start_again(struct fake_manager *manager)
{
	struct fake_manager *again;

	fake_manager_stop(manager);
	again = fake_manager_start(manager->host.url, NULL);
	fake_manager_free(manager);
	return again;
}

/* nng's own resolver has four threads for the entire process, and uses them for numeric addresses too. */
Test(rpc_failover, names_that_do_not_resolve_delay_no_other)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	int64_t begun_ms = own_ms();
	struct rpc_client *client;
	struct reeve_error error;
	char urls[1024];

	snprintf(urls, sizeof urls,
	    "tcp://a.slow.test:1,tcp://b.slow.test:1,tcp://c.slow.test:1,tcp://d.slow.test:1,tcp://e.slow.test:1,"
	    "tcp://f.gone.test:1,%s",
	    manager->host.url);
	client = fake_client(urls);
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert_lt(own_ms() - begun_ms, 1000);
	manager = start_again(manager);
	cr_assert_eq(fake_call_get(client, 2, &error), STATUS(OK), "%s", error.message);
	begun_ms = own_ms();
	rpc_client_destroy(client);
	cr_assert_lt(own_ms() - begun_ms, 500);
	fake_manager_free(manager);
}

Test(rpc_failover, a_name_is_resolved_with_pauses)
{
	struct rpc_client *client = fake_client("tcp://a.gone.test:1,tcp://here.test:1");

	pause_ms(2000);
	/* The client looks up both the name that does not exist and the one where nothing listens: after 20 ms, 40, 80, …
	 * up to half a second. */
	cr_assert_geq(names_looked_up, 8);
	cr_assert_leq(names_looked_up, 30);
	rpc_client_destroy(client);
}

Test(rpc_failover, all_addresses_of_a_name_are_tried)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(named("second.test", manager));
	struct reeve_error error;
	int64_t begun_ms;

	cr_assert(rpc_client_alive(client, 1000));
	/* The next time, the address that worked is tried first. The manager listens all the time: a client that found
	 * nothing there would look the name up again. */
	fake_manager_cut(manager);
	begun_ms = own_ms();
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert_lt(own_ms() - begun_ms, 1000);
	cr_assert_eq(names_looked_up, 1);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

Test(rpc_failover, known_addresses_do_while_the_name_servers_are_silent)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(named("here.test", manager));
	struct reeve_error error;
	int64_t begun_ms;

	cr_assert(rpc_client_alive(client, 1000));
	names_are_silent = true;
	for (int i = 0; i < 3; i++) {
		char url[128];

		snprintf(url, sizeof url, "%s", manager->host.url);
		fake_manager_free(manager);
		pause_ms(700); /* the client dials in vain and looks the name up */
		manager = fake_manager_start(url, NULL);
		begun_ms = own_ms();
		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK), "%s", error.message);
		cr_assert_lt(own_ms() - begun_ms, 1500);
	}
	cr_assert_eq(names_looked_up, 2);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

/* Starts a call that parks and returns the one of two managers at which it arrived. */
static struct fake_manager *where(struct rpc_client *client, struct fake_manager *a, struct fake_manager *b)
{
	int at_a = a->n_parked, at_b = b->n_parked;
	struct fake_manager *at = NULL;
	struct fake_result result;
	rpc_call_id id = fake_start_wait(client, 1, NULL, &result);

	for (int i = 0; i < 5000 && !at; i++) {
		at = a->n_parked > at_a ? a : b->n_parked > at_b ? b : NULL;
		pause_ms(2);
	}
	cr_assert(at, "the call has not arrived");
	rpc_client_cancel(client, id);
	fake_result_await(&result);
	return at;
}

Test(rpc_failover, calls_return_to_the_one_chosen_by_lot)
{
	struct fake_manager *a = fake_manager_start(LOOPBACK, NULL), *b = fake_manager_start(LOOPBACK, NULL);
	struct fake_manager **first, **other;
	struct rpc_client_options options = {.ping_interval_ms = 50, .ping_limit_ms = 2000};
	struct reeve_error error = {0};
	struct rpc_client *client;
	int64_t back_ms, back_own_ms;

	options.urls = both(a->host.url, b->host.url);
	client = rpc_client_create(&options, &error);
	await_both_alive(client);
	pause_ms(2 * 50); /* until then it takes the one chosen by lot as soon as that is there */
	first = where(client, a, b) == a ? &a : &b;
	other = first == &a ? &b : &a;
	back_ms = clock_monotonic_ms();
	*first = start_again(*first);
	back_own_ms = own_ms();
	cr_assert(
	    where(client, a, b) == *other || clock_monotonic_ms() - back_ms >= 20 * 50, "it may be gone again at once");
	while (where(client, a, b) != *first && clock_monotonic_ms() - back_ms < 10000)
		pause_ms(10);
	cr_assert_geq(clock_monotonic_ms() - back_ms, 20 * 50);
	cr_assert_lt(own_ms() - back_own_ms, 20 * 50 + 2000);
	/* A manager that only answers UNAVAILABLE is not used again for as long. */
	(*first)->get_answers = STATUS(UNAVAILABLE);
	back_ms = clock_monotonic_ms();
	for (int i = 0; i == 0 || clock_monotonic_ms() - back_ms < 800; i++) {
		int gets;

		cr_assert_eq(fake_call_get(client, i, &error), STATUS(OK));
		gets = fake_manager_read(*first, &(*first)->gets);
		cr_assert(gets == 1 || (gets > 1 && clock_monotonic_ms() - back_ms >= 20 * 50));
	}
	rpc_client_destroy(client);
	fake_manager_free(a);
	fake_manager_free(b);
}

/* The silence counts from the last byte received, not from the unanswered ping: a manager that freezes just before a
 * ping is abandoned no later than one that freezes just after it. */
Test(rpc_failover, silence_counts_from_the_last_byte)
{
	enum { INTERVAL_MS = 600, LIMIT_MS = 1000 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client_options options = {
	    .urls = manager->host.url, .ping_interval_ms = INTERVAL_MS, .ping_limit_ms = LIMIT_MS};
	struct reeve_error error = {0};
	struct rpc_client *client = rpc_client_create(&options, &error);
	int64_t last_call_ms, last_call_own_ms;

	cr_assert(rpc_client_alive(client, 5000));
	pause_ms(INTERVAL_MS / 3);
	last_call_ms = clock_monotonic_ms();
	last_call_own_ms = own_ms();
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	manager->frozen = true;
	while (rpc_client_alive(client, 0) && clock_monotonic_ms() - last_call_ms < 10000)
		pause_ms(1);
	cr_assert_geq(clock_monotonic_ms() - last_call_ms, LIMIT_MS);
	cr_assert_lt(own_ms() - last_call_own_ms, LIMIT_MS + 300);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}

/* A ping on a connection that was idle for a long time has the entire limit. */
Test(rpc_failover, a_ping_after_long_silence_has_the_whole_limit)
{
	enum { INTERVAL_MS = 50, LIMIT_MS = 1000, IDLE_PING_MS = 2000 };
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client_options options = {
	    .urls = manager->host.url, .ping_interval_ms = INTERVAL_MS, .ping_limit_ms = LIMIT_MS};
	struct reeve_error error = {0};
	struct rpc_client *client;
	int64_t created_ms = clock_monotonic_ms(), pinged_ms, pinged_own_ms;
	int pings;

	manager->idle_ping_ms = IDLE_PING_MS;
	client = rpc_client_create(&options, &error);
	cr_assert(rpc_client_alive(client, 5000));
	pause_ms(3 * INTERVAL_MS);
	manager->frozen = true;
	pings = manager->pings;
	while (manager->pings == pings)
		pause_ms(1);
	pinged_ms = clock_monotonic_ms();
	pinged_own_ms = own_ms();
	while (rpc_client_alive(client, 0) && clock_monotonic_ms() - pinged_ms < 10000)
		pause_ms(1);
	cr_assert_geq(clock_monotonic_ms() - created_ms, IDLE_PING_MS + LIMIT_MS);
	cr_assert_lt(own_ms() - pinged_own_ms, LIMIT_MS + 300);
	rpc_client_destroy(client);
	fake_manager_free(manager);
}
