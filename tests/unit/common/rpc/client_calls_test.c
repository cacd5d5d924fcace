/* The client's calls: their ends, limits, callbacks and options. */
#include "client_support.h"
#include "tests/unit/own_time.h"

#include <stdatomic.h>

Test(rpc_client, a_call_ends_at_its_deadline)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
	struct rpc_call_options options = {.timeout_ms = 300};
	struct fake_result result;
	struct reeve_error error;
	int64_t begun_ms, begun_own_ms;

	cr_assert(rpc_client_alive(client, 5000));
	begun_ms = clock_monotonic_ms();
	begun_own_ms = own_ms();
	fake_start_wait(client, 1, &options, &result);
	fake_result_await(&result);
	cr_assert_eq(result.code, STATUS(DEADLINE_EXCEEDED));
	cr_assert_eq(result.sends, 1);
	cr_assert_geq(result.done_ms - begun_ms, 300);
	cr_assert_lt(own_ms() - begun_own_ms, 600);
	/* The answer comes too late; the next call gets its own. */
	fake_manager_await(manager, &manager->n_parked, 1);
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
	struct rpc_client *client = fake_client(manager->host.url);
	struct fake_result *results = calloc(CALLS, sizeof *results);
	int64_t first_ms[CALLS], last_ms[CALLS]; /* its deadline is between the two */

	for (int i = 0; i < CALLS; i++) {
		struct rpc_call_options options = {.timeout_ms = 300 + 7 * i % 199};

		first_ms[i] = clock_monotonic_ms() + options.timeout_ms;
		fake_start_wait(client, i, &options, &results[i]);
		last_ms[i] = clock_monotonic_ms() + options.timeout_ms;
	}
	for (int i = 0; i < CALLS; i++)
		fake_result_await(&results[i]);
	for (int i = 0; i < CALLS; i++) {
		for (int j = 0; j < CALLS; j++) {
			if (last_ms[i] < first_ms[j])
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
	struct rpc_client *client = fake_client(manager->host.url);
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
	struct rpc_client *client = fake_client(manager->host.url);
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

Test(rpc_client, answers_have_the_managers_time_and_limits)
{
	struct fake_manager *manager = fake_manager_make(LOOPBACK, NULL);
	struct rpc_client *client;
	struct reeve_error error;
	int64_t begun_ms;

	manager->now_us = 4102444800000000;
	manager->max_message_bytes = 123456;
	fake_manager_run(manager);
	begun_ms = clock_monotonic_ms();
	client = fake_client(manager->host.url);
	cr_assert(rpc_client_alive(client, 5000));
	cr_assert_eq(rpc_client_max_message(client), 123456);
	cr_assert_eq(rpc_client_max_details(client), 1000);
	cr_assert_leq(llabs(rpc_client_now_ms(client) - 4102444800000), clock_monotonic_ms() - begun_ms);
	/* Request ids use that clock. */
	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert(manager->had_id);
	cr_assert_leq(llabs(uuid7_time_ms(manager->last_id) - 4102444800000), clock_monotonic_ms() - begun_ms);
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
	options.urls = manager->host.url;
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
	cr_assert(strstr(error.message, "the manager accepts at most 20000 (--max-message)"), "%s", error.message);
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
	client = fake_client(manager->host.url);
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

Test(rpc_client, other_refusals_are_the_callers)
{
	struct fake_manager *manager = fake_manager_start(LOOPBACK, NULL);
	struct rpc_client *client = fake_client(manager->host.url);
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
	struct chain chain = {.client = fake_client(manager->host.url), .left = 3000};
	Reeve__V1__GetRequest request = REEVE__V1__GET_REQUEST__INIT;

	fake_result_init(&chain.last);
	rpc_client_start(chain.client, TASKS, "Get", &request.base, NULL, chain_next, &chain);
	for (int gets = 100; gets <= 3000; gets += 100)
		fake_manager_await(manager, &manager->gets, gets);
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
	struct rpc_client *client = fake_client(both(manager->host.url, nobody()));
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
	struct rpc_client_options options = {.urls = manager->host.url};
	struct rpc_client *client = rpc_client_create(&options, NULL);
	struct reeve_error error;

	cr_assert_eq(fake_call_get(client, 1, &error), STATUS(OK));
	cr_assert(strchr(manager->actor, '@'));
	cr_assert_str_eq(manager->token, "");
	rpc_client_destroy(client);
	fake_manager_free(manager);
}
