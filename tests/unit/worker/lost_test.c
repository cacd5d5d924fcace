/* Workers that have lost their incarnation. */
#include "captured_stderr.h"
#include "functions.h"

Test(lost, a_lost_worker_stops_everything_and_registers_again)
{
	int64_t running, waiting, later;
	int fetches;

	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 1, .prefetch = 1, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "t", until_go_on, NULL);
	fixture.script.heartbeat_ms = 30;
	running = script_add(&fixture.script, "t", "x");
	waiting = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&runs) == 1 && fixture.script.beat.held == 2));
	script_lock(&fixture.script);
	fixture.script.lost = true;
	fixture.script.paused = true;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.registers == 2));
	fixture_await(&fixture, running);
	fixture_await(&fixture, waiting);
	cr_expect_eq(fixture.script.tasks[running].outcome, OUTCOME(LEASE_ENDED));
	cr_expect_eq(fixture.script.tasks[waiting].outcome, OUTCOME(LEASE_ENDED));
	cr_expect_eq(atomic_load(&runs), 1);
	/* It starts again with a new incarnation. */
	fetches = fixture.script.fetches;
	cr_assert(script_wait(&fixture.script, fixture.script.first_fetch_of_incarnation == 1), "%d", fetches);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.incarnation == 2 && fixture.script.beat.seq >= 2));
	atomic_store(&go_on, true);
	later = script_add(&fixture.script, "t", "x");
	fixture.script.paused = false;
	fixture_await(&fixture, later);
	cr_expect_eq(fixture.script.tasks[later].incarnation, 2);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(lost, it_registers_only_when_nothing_runs_any_more)
{
	int64_t id;

	open_fixture(stubborn, 2);
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&runs) == 1));
	fixture.script.lost = true;
	cr_assert(script_wait(&fixture.script, fixture.script.told_lost > 0));
	usleep(200 * 1000);
	cr_expect_eq(fixture.script.registers, 1);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&fixture.script, fixture.script.registers == 2));
	/* A task that completed nevertheless is reported, and its token decides. */
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(lost, a_fetch_reports_that_the_incarnation_is_over)
{
	int64_t id;

	stderr_capture();
	open_fixture(count_runs, 2);
	fixture.script.heartbeat_ms = 60 * 1000;
	fixture.script.fetch_failures = 1;
	fixture.script.fetch_code = STATUS(FAILED_PRECONDITION);
	fixture.script.fetch_problem = "incarnation 1 has ended; register again";
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.registers, 2);
	cr_expect_eq(fixture.script.tasks[id].incarnation, 2);
	cr_expect_eq(fixture.script.tasks[id].fetch_id, 1);
	cr_expect(
	    strstr(stderr_text(), ": incarnation 1 has ended; register again; stopping 0 tasks\n"), "%s", stderr_text());
	cr_expect_not(strstr(stderr_text(), "has ended: "), "%s", stderr_text());
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(lost, an_answer_to_a_lost_incarnation_is_dropped)
{
	int64_t id, later;

	/* The answer to the first Fetch is in flight when the incarnation is lost; it never arrives. */
	open_fixture(count_runs, 2);
	fixture.script.hold_fetches = true;
	id = script_add(&fixture.script, "t", "x");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.tasks[id].state == SCRIPT_ASSIGNED));
	script_lock(&fixture.script);
	fixture.script.lost = true;
	fixture.script.hold_fetches = false;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.registers == 2));
	later = script_add(&fixture.script, "t", "x");
	fixture_await(&fixture, later);
	cr_expect_eq(fixture.script.tasks[id].state, SCRIPT_ASSIGNED);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(lost, tasks_of_a_late_answer_to_a_lost_incarnation_do_not_run)
{
	int64_t id, late;
	int tasks = 0;
	bool carries;

	/* A report carries a Fetch; its answer comes after the worker has registered again. A handler that ends while the
	 * worker still processes the assignment can free its slot for a Fetch of its own: then another task's report. */
	open_fixture(until_go_on, 1);
	fixture_go(&fixture);
	do {
		cr_assert_lt(tasks, 100, "no report carries a Fetch");
		atomic_store(&go_on, false);
		script_lock(&fixture.script);
		fixture.script.delay_reports = true;
		script_unlock(&fixture.script);
		id = script_add(&fixture.script, "t", "x");
		tasks++;
		cr_assert(script_wait(&fixture.script, atomic_load(&runs) == tasks));
		usleep(100 * 1000);
		atomic_store(&go_on, true);
		cr_assert(script_wait(&fixture.script, fixture.script.delayed_call));
		script_lock(&fixture.script);
		carries = fixture.script.delayed->fetch;
		fixture.script.delay_reports = carries;
		script_unlock(&fixture.script);
		if (!carries)
			fixture_await(&fixture, id);
	} while (!carries);
	cr_expect_eq(atomic_load(&runs), tasks);
	script_lock(&fixture.script);
	fixture.script.lost = true;
	fixture.script.hold_fetches = true; /* so that the next task goes into the late answer */
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.registers == 2 && fixture.script.first_fetch_of_incarnation));
	late = script_add(&fixture.script, "t", "x");
	script_lock(&fixture.script);
	fixture.script.delay_reports = false;
	script_unlock(&fixture.script);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[late].state, SCRIPT_ASSIGNED);
	cr_expect_eq(fixture.script.tasks[late].incarnation, 1);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.incarnation == 2 && fixture.script.beat.held == 0));
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&runs), tasks);
	cr_expect_eq(fixture_close(&fixture), 0);
}
