/* Worker commands. */
#include "fixture.h"

#include <stdatomic.h>

static struct fixture fixture;
static _Atomic int running;
static _Atomic bool go_on;

/* Runs until the test sets go_on (and completes), or until it is asked to stop. */
static int wait_for_test(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	int code = 0;

	atomic_fetch_add(&running, 1);
	while (!atomic_load(&go_on) && !code) {
		if (reeve_attempt_cancelled(attempt) && strcmp(attempt->details, "stubborn"))
			code = 1;
		usleep(1000);
	}
	if (!code)
		reeve_outcome_complete(outcome, "done");
	atomic_fetch_sub(&running, 1);
	return code;
}

static void open_stage(int concurrency, int prefetch)
{
	fixture_open(&fixture,
	    (struct reeve_worker_options){.concurrency = concurrency, .prefetch = prefetch, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "t", wait_for_test, NULL);
	fixture.script.heartbeat_ms = 20;
}

Test(commands, cancel_stops_what_runs_and_what_waits)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&fixture.script, "t", "");
	waits = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1 && fixture.script.beat.held == 2));
	script_command(&fixture.script, COMMAND(CANCEL), 4711, 0); /* no such task */
	script_command(&fixture.script, COMMAND(CANCEL), waits, 0);
	fixture_await(&fixture, waits);
	cr_expect_eq(fixture.script.tasks[waits].outcome, OUTCOME(CANCELLED));
	cr_expect_eq(atomic_load(&running), 1);
	script_command(&fixture.script, COMMAND(CANCEL), runs, 0);
	fixture_await(&fixture, runs);
	cr_expect_eq(fixture.script.tasks[runs].outcome, OUTCOME(CANCELLED));
	cr_expect_str_eq(fixture.script.tasks[runs].code, "cancelled");
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(commands, what_completes_all_the_same_has_completed)
{
	int64_t id;
	int beats;

	open_stage(1, 0);
	id = script_add(&fixture.script, "t", "stubborn");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1));
	script_command(&fixture.script, COMMAND(CANCEL), id, 0);
	beats = fixture.script.heartbeats;
	cr_assert(script_wait(&fixture.script, fixture.script.heartbeats > beats + 2));
	atomic_store(&go_on, true);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(commands, abandon_stops_silently)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&fixture.script, "t", "");
	waits = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1 && fixture.script.beat.held == 2));
	script_command(&fixture.script, COMMAND(ABANDON), waits, 0);
	script_command(&fixture.script, COMMAND(ABANDON), runs, 0);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 0));
	cr_expect_eq(atomic_load(&running), 0);
	cr_expect_eq(fixture.script.tasks[runs].reports + fixture.script.tasks[waits].reports, 0);
	cr_expect_eq(fixture_close(&fixture), 0);
	cr_expect_eq(fixture.script.n_done, 0);
}

Test(commands, abandon_drops_an_unacknowledged_result)
{
	int64_t reported, kept;

	/* One report is in flight; the second result waits for its answer. */
	open_stage(1, 7);
	fixture.script.hold_reports = true;
	reported = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1 && fixture.script.parked_now == 1));
	atomic_store(&go_on, true);
	cr_assert(script_wait(&fixture.script, fixture.script.reports == 1));
	kept = script_add(&fixture.script, "t", "");
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 2 && fixture.script.beat.running == 0));
	script_command(&fixture.script, COMMAND(ABANDON), kept, 0);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 1));
	script_command(&fixture.script, COMMAND(ABANDON), reported, 0); /* the report is in flight: too late */
	script_stop(&fixture.script);
	fixture.script.hold_reports = false;
	script_start(&fixture.script);
	fixture_await(&fixture, reported);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 0));
	cr_expect_eq(fixture.script.tasks[kept].reports, 0);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(commands, pause_and_resume)
{
	int fetches;
	int64_t id;

	open_stage(2, 0);
	script_command(&fixture.script, COMMAND(PAUSE), 0, 0);
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.heartbeats >= 3));
	fetches = fixture.script.fetches;
	id = script_add(&fixture.script, "t", "");
	usleep(200 * 1000);
	cr_expect_eq(fixture.script.fetches, fetches);
	cr_expect_eq(fixture.script.tasks[id].state, SCRIPT_QUEUED);
	atomic_store(&go_on, true);
	script_lock(&fixture.script);
	fixture.script.commands[0].kind = COMMAND(RESUME);
	script_unlock(&fixture.script);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(commands, concurrency_grows_and_shrinks)
{
	open_stage(1, 0);
	for (int i = 0; i < 30; i++)
		script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1));
	script_command(&fixture.script, COMMAND(CONCURRENCY), 0, 5);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 5 && fixture.script.beat.running == 5));
	cr_expect_eq(fixture.script.open, 5);
	/* Reduced to two: the running tasks continue; afterwards, only two run at once. */
	script_lock(&fixture.script);
	fixture.script.commands[0].value = 2;
	script_unlock(&fixture.script);
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&running), 5);
	script_lock(&fixture.script);
	fixture.script.paused = true;
	script_unlock(&fixture.script);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 5));
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 0));
	atomic_store(&go_on, false);
	script_lock(&fixture.script);
	fixture.script.paused = false;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 2 && fixture.script.beat.running == 2));
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&running), 2);
	/* Raised again, after surplus slots have ended. */
	script_lock(&fixture.script);
	fixture.script.commands[0].value = 4;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 4));
	atomic_store(&go_on, true);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 30));
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* The managers have no command for the new incarnation. */
Test(commands, a_worker_that_registers_again_has_its_own_concurrency)
{
	open_stage(2, 0);
	fixture_go(&fixture);
	script_command(&fixture.script, COMMAND(CONCURRENCY), 0, 1);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.concurrency == 1));
	script_lock(&fixture.script);
	fixture.script.n_commands = 0;
	fixture.script.lost = true;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.incarnation == 2));
	cr_expect_eq(fixture.script.registered_concurrency, 2);
	cr_expect_eq(fixture.script.beat.concurrency, 2);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(commands, drain_lets_all_finish_and_leaves)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&fixture.script, "t", "");
	waits = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1 && fixture.script.beat.held == 2));
	script_command(&fixture.script, COMMAND(DRAIN), 0, 0);
	fixture_await(&fixture, waits);
	cr_expect_eq(fixture.script.tasks[waits].outcome, OUTCOME(RETURNED));
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&running), 1);
	atomic_store(&go_on, true);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.tasks[runs].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(fixture.script.leaves, 1);
	fixture_close(&fixture);
}

Test(commands, stop_gives_back_what_runs_and_leaves)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&fixture.script, "t", "");
	waits = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1 && fixture.script.beat.held == 2));
	script_command(&fixture.script, COMMAND(STOP), 0, 0); /* with every heartbeat from now on */
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.tasks[runs].outcome, OUTCOME(RETURNED));
	cr_expect_eq(fixture.script.tasks[waits].outcome, OUTCOME(RETURNED));
	cr_expect_eq(fixture.script.leaves, 1);
	fixture_close(&fixture);
}

Test(commands, a_pause_stands_as_long_as_heartbeats_have_it)
{
	int64_t first;

	/* The pause cancels the parked Fetch. */
	open_stage(2, 0);
	atomic_store(&go_on, true);
	fixture.script.commands_in_heartbeats_only = true;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.parked_now == 1));
	script_command(&fixture.script, COMMAND(PAUSE), 0, 0);
	cr_assert(script_wait(&fixture.script,
	    fixture.script.beat.state == REEVE__V1__WORKER_MODE__WORKER_MODE_PAUSED && fixture.script.beat.waiting == 0));
	first = script_add(&fixture.script, "t", "");
	usleep(200 * 1000);
	cr_expect_eq(fixture.script.tasks[first].state, SCRIPT_QUEUED);
	script_lock(&fixture.script);
	fixture.script.n_commands = 0;
	script_unlock(&fixture.script);
	fixture_await(&fixture, first);
	cr_assert(script_wait(&fixture.script,
	    fixture.script.beat.state == REEVE__V1__WORKER_MODE__WORKER_MODE_RUNNING &&
	        fixture.script.beat.completed == 1));
	cr_expect_eq(fixture.script.beat.failed, 0);
	cr_expect_eq(fixture.script.beat.concurrency, 2);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* The heartbeat is sent before the pause, and its answer comes after it. */
Test(commands, an_older_answer_does_not_end_a_pause)
{
	int64_t waits;
	int beats;

	open_stage(1, 0);
	atomic_store(&go_on, true);
	fixture.script.heartbeat_ms = 2000;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.parked_now == 1));
	script_lock(&fixture.script);
	fixture.script.delay_heartbeats = true;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.delayed_heartbeat));
	script_command(&fixture.script, COMMAND(PAUSE), 0, 0); /* the answer to the parked Fetch has it */
	cr_assert(script_wait(&fixture.script, fixture.script.parked_now == 0));
	usleep(200 * 1000); /* the worker has received it */
	waits = script_add(&fixture.script, "t", "");
	script_lock(&fixture.script);
	beats = fixture.script.heartbeats;
	fixture.script.delay_heartbeats = false;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.heartbeats > beats));
	cr_expect_eq(fixture.script.beat.state, REEVE__V1__WORKER_MODE__WORKER_MODE_PAUSED);
	usleep(100 * 1000);
	cr_expect_eq(fixture.script.tasks[waits].state, SCRIPT_QUEUED);
	script_lock(&fixture.script);
	fixture.script.n_commands = 0;
	script_unlock(&fixture.script);
	fixture_await(&fixture, waits);
	cr_expect_eq(fixture_close(&fixture), 0);
}
