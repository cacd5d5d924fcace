/* Reports of results when calls fail. */
#include "captured_stderr.h"
#include "functions.h"
#include "worker/fetcher.h"

#include <limits.h>

Test(results, results_are_kept_while_the_manager_is_away)
{
	int64_t id, other;

	open_fixture(until_go_on, 2);
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&runs) == 1));
	script_stop(&fixture.script);
	atomic_store(&go_on, true);
	usleep(300 * 1000);
	script_start(&fixture.script);
	fixture_await(&fixture, id);
	cr_expect_str_eq(fixture.script.tasks[id].result, "went on");
	other = script_add(&fixture.script, "t", "y");
	fixture_await(&fixture, other);
	cr_expect_eq(fixture.script.registers, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(results, a_report_without_an_answer_is_resent_to_the_next_manager)
{
	int64_t id;

	open_fixture(count_runs, 2);
	fixture.script.hold_reports = true;
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.reports == 1));
	script_stop(&fixture.script);
	fixture.script.hold_reports = false;
	script_start(&fixture.script);
	fixture_await(&fixture, id);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(fixture.script.tasks[id].reports, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(results, a_report_is_retried_when_there_is_no_capacity)
{
	int64_t id;

	open_fixture(count_runs, 2);
	fixture.script.report_failures = 2;
	fixture.script.report_code = STATUS(RESOURCE_EXHAUSTED);
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.reports, 3);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* Queues 20 tasks. The first report fails, so that the results wait and are sent together. */
static void queue_twenty(int64_t *first)
{
	enum { COUNT = 20 };

	open_fixture(count_runs, COUNT);
	fixture.script.report_failures = 1;
	fixture.script.report_code = STATUS(RESOURCE_EXHAUSTED);
	*first = script_add(&fixture.script, "t", "first");
	for (int i = 1; i < COUNT; i++)
		script_add(&fixture.script, "t", "x");
}

Test(results, one_invalid_result_does_not_delay_the_others)
{
	int64_t bad;

	queue_twenty(&bad);
	bad += 7;
	fixture.script.invalid_task = bad;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 20));
	for (int id = 1; id <= 20; id++)
		cr_expect_eq(fixture.script.tasks[id].outcome, id == bad ? OUTCOME(FATAL) : OUTCOME(COMPLETED), "task %d", id);
	cr_expect_str_eq(fixture.script.tasks[bad].code, "result-refused");
	cr_expect_str_eq(fixture.script.tasks[bad].error, "the manager refused the result: scripted");
	cr_expect_eq(atomic_load(&runs), 20);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(results, a_result_that_is_never_taken_is_given_up)
{
	int64_t bad;

	queue_twenty(&bad);
	fixture.script.invalid_task = bad;
	fixture.script.always_invalid = true;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 19));
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 0 && fixture.script.beat.seq > 2));
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(results, a_result_without_a_status_is_reported_again)
{
	int64_t id, lost;

	open_fixture(count_runs, 2);
	id = script_add(&fixture.script, "t", "x");
	lost = script_add(&fixture.script, "t", "x");
	fixture.script.tasks[id].acks_missing = 2;
	fixture.script.tasks[lost].status = RESULT_STATUS(LOST);
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 2));
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 0 && fixture.script.beat.seq > 2));
	cr_expect_eq(fixture.script.tasks[id].reports, 3);
	cr_expect_eq(fixture.script.tasks[lost].reports, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(results, a_result_without_an_ack_is_reported_again_and_delays_no_other)
{
	int64_t id;

	open_fixture(count_runs, 2);
	id = script_add(&fixture.script, "t", "x");
	fixture.script.tasks[id].acks_later = 1000;
	for (int i = 0; i < 40; i++)
		script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 40));
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 1 && fixture.script.tasks[id].reports > 1));
	script_lock(&fixture.script);
	fixture.script.tasks[id].acks_later = 1;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 41));
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* Many results that get no ack for a while are sent again in a few reports, not in one each. */
Test(results, results_without_an_ack_are_reported_again_together)
{
	enum { LOCKED = 400, OTHERS = 400 };
	int reports;

	open_fixture(count_runs, 20);
	for (int i = 0; i < LOCKED; i++)
		fixture.script.tasks[script_add(&fixture.script, "t", "x")].acks_later = 3;
	fixture_go(&fixture);
	for (int i = 0; i < OTHERS; i++)
		script_add(&fixture.script, "t", "x");
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == LOCKED + OTHERS));
	script_lock(&fixture.script);
	reports = fixture.script.reports;
	script_unlock(&fixture.script);
	cr_expect_lt(reports, 3 * LOCKED);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* Completes with a result of 1 MiB. */
static int large_result(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	enum { BYTES = 1 << 20 };
	char *text = malloc(BYTES + 1);
	int code;

	(void)attempt;
	memset(text, 'x', BYTES);
	text[BYTES] = 0;
	code = reeve_outcome_complete(outcome, text);
	free(text);
	atomic_fetch_add(&runs, 1);
	return code;
}

/* The managers cannot note any result, because its row is locked. With 64 MiB of results the worker takes no
 * more tasks, until results are acknowledged. */
Test(results, a_worker_with_many_unacknowledged_results_fetches_no_tasks)
{
	enum { COUNT = 90, SLOTS = 4, MOST = 63 + SLOTS };
	struct script *script = &fixture.script;
	int before;

	open_fixture(large_result, SLOTS);
	for (int i = 0; i < COUNT; i++)
		script->tasks[script_add(script, "t", "")].acks_later = INT_MAX;
	fixture_go(&fixture);
	cr_assert(script_wait(script, script->open >= 64), "the worker has %d tasks", script->open);
	before = script->heartbeats;
	cr_assert(script_wait(script, script->heartbeats >= before + 20));
	cr_expect_leq(script->open, MOST);
	script_lock(script);
	for (int id = 1; id <= COUNT; id++)
		script->tasks[id].acks_later = 0;
	script_unlock(script);
	fixture_await_all(&fixture, COUNT);
	cr_expect_leq(script->open_max, MOST);
	cr_expect_eq(atomic_load(&runs), COUNT);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* However short they are: a heartbeat, which lists what the worker holds, has a limit. */
Test(results, a_worker_fetches_no_more_tasks_than_a_heartbeat_may_list)
{
	struct lease lease = {0};
	struct shared shared = {.lease = &lease};
	struct life life = {0};
	struct accepts accepts = {.users = 1};
	struct handler_set handlers = {.accepts = &accepts};
	struct attempt attempt = {.key = {1, 1}};
	struct slots slots = {.concurrency = 10};
	struct session session = {.life = &life, .phase = SESSION_SERVING};
	struct fetches fetches = {0};
	struct sent_fetch sent = {0};
	struct in_flight *in_flight = calloc(1, sizeof *in_flight);
	struct fetcher fetcher = {&shared, &life, &session, &fetches, in_flight, &slots, &handlers, NULL, false, false, 0};

	lease_set(&lease, clock_monotonic_ms() + 3600000, 3600000);
	HASH_ADD(hh, in_flight->all, key, sizeof attempt.key, &attempt);
	attempt.hh.tbl->num_items = LIMIT_IN_FLIGHT - 3; /* the others need not exist */
	cr_assert(fetcher_attach(&fetcher, &sent));
	cr_expect_eq(sent.request.slots, 3);
	fetcher_release(&sent);
	cr_expect_not(fetcher_attach(&fetcher, &sent), "those may bring as many as there is room for");
	fetches_reset(&fetches);
	attempt.hh.tbl->num_items = 1;
	HASH_DEL(in_flight->all, &attempt);
	free(in_flight);
}
