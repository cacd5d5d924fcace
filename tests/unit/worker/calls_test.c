/* Fetches and heartbeats when calls fail. */
#include "captured_stderr.h"
#include "functions.h"

/* The third run waits until the test sets go_on; the others complete at once. */
static int third_waits(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	int n = atomic_fetch_add(&runs, 1) + 1;
	while (n == 3 && !atomic_load(&go_on))
		usleep(1000);
	return reeve_outcome_complete(outcome, attempt->details);
}

Test(calls, an_answer_to_another_fetch_is_dropped)
{
	int64_t id;

	open_fixture(count_runs, 2);
	fixture.script.wrong_fetches = 2;
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	/* The task came twice in answers to a Fetch that was never sent, and did not run. */
	cr_expect_eq(fixture.script.tasks[id].deliveries, 3);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_geq(fixture.script.fetches_again, 2);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(calls, an_answer_for_another_incarnation_is_dropped)
{
	int64_t id;

	open_fixture(count_runs, 2);
	fixture.script.wrong_incarnations = 1;
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].deliveries, 2);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(calls, an_answer_that_is_lost_with_its_manager_is_resent)
{
	int64_t id;

	open_fixture(count_runs, 2);
	fixture.script.hold_fetches = true;
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.tasks[id].state == SCRIPT_ASSIGNED));
	script_stop(&fixture.script);
	fixture.script.hold_fetches = false;
	script_start(&fixture.script);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.fetches_again, 1);
	cr_expect_eq(fixture.script.tasks[id].deliveries, 2);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(fixture.script.registers, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(calls, what_is_delivered_twice_runs_once)
{
	int64_t id;

	/* The task is assigned to a second Fetch although the worker already has it. */
	open_fixture(stubborn, 2);
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&runs) == 1));
	script_lock(&fixture.script);
	fixture.script.tasks[id].state = SCRIPT_QUEUED;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.tasks[id].deliveries == 2));
	usleep(50 * 1000);
	cr_expect_eq(atomic_load(&runs), 1);
	atomic_store(&go_on, true);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(calls, a_fetch_that_fails_is_resent)
{
	int64_t id;

	open_fixture(count_runs, 2);
	fixture.script.fetch_failures = 3;
	fixture.script.fetch_code = STATUS(RESOURCE_EXHAUSTED);
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_geq(fixture.script.fetches_again, 3);
	cr_expect_eq(fixture.script.tasks[id].fetch_id, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(calls, one_fetch_is_parked_when_idle)
{
	open_fixture(count_runs, 4);
	fixture_go(&fixture);
	for (int round = 0; round < 20; round++) {
		int64_t id = script_add(&fixture.script, "t", "x");

		fixture_await(&fixture, id);
	}
	cr_assert(script_wait(&fixture.script, fixture.script.parked_now == 1));
	cr_expect_eq(fixture.script.parked_max, 1);
	cr_expect_eq(fixture.script.fetches_again, 0);
	/* Each task needs at most one Fetch of its own and one that a report carries. */
	cr_expect_leq(fixture.script.fetches, 45);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(calls, heartbeats_go_on_while_all_slots_are_busy)
{
	int64_t before, after;

	open_fixture(stubborn, 2);
	for (int i = 0; i < 5; i++)
		script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.running == 2));
	before = fixture.script.beat.seq;
	cr_assert(script_wait(&fixture.script, fixture.script.beat.seq >= before + 10));
	after = fixture.script.beat.seq;
	cr_expect_eq(fixture.script.beat.held, 2);
	cr_expect_eq(fixture.script.beat.incarnation, 1);
	cr_expect_geq(fixture.script.beat.highest_fetch_id, 1);
	cr_expect_gt(after, before);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 5));
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(calls, heartbeats_name_unacknowledged_results_and_open_fetches)
{
	int64_t id;

	open_fixture(count_runs, 2);
	fixture.script.hold_reports = true;
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.reports == 1));
	/* The next heartbeat may have been composed before the report. */
	int seen = fixture.script.heartbeats;
	cr_assert(script_wait(&fixture.script, fixture.script.heartbeats >= seen + 2));
	cr_expect_eq(fixture.script.beat.held, 1);
	cr_expect_eq(fixture.script.beat.running, 0);
	cr_expect_eq(fixture.script.beat.first_held, id);
	/* The Fetch that the report carries, and perhaps a parked one. */
	cr_expect_geq(fixture.script.beat.waiting, 1);
	cr_expect_leq(fixture.script.beat.waiting, 2);
	script_stop(&fixture.script);
	fixture.script.hold_reports = false;
	script_start(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 0));
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* Each task follows the previous one at once, so there is no news to report until the last one has ended. */
Test(calls, a_busy_worker_with_one_slot_sends_no_more_heartbeats_than_others)
{
	open_fixture(third_waits, 1);
	fixture.script.heartbeat_ms = 60 * 1000;
	for (int i = 0; i < 3; i++)
		script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&runs) == 3));
	usleep(1300 * 1000); /* news wait for a second */
	script_lock(&fixture.script);
	cr_expect_eq(fixture.script.heartbeats, 0);
	script_unlock(&fixture.script);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&fixture.script, fixture.script.heartbeats > 0));
	cr_expect_eq(fixture.script.beat.held, 0);
	cr_expect_eq(fixture.script.beat.completed, 3);
	cr_expect_eq(fixture_close(&fixture), 0);
}
