/* Worker commands. */
#include "stage.h"

#include <stdatomic.h>

static struct stage stage;
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
	stage_open(&stage,
	    (struct reeve_worker_options){.concurrency = concurrency, .prefetch = prefetch, .drain_timeout_ms = 1});
	reeve_worker_handle(stage.worker, "t", wait_for_test, NULL);
	stage.script.heartbeat_ms = 20;
}

Test(commands, cancel_stops_what_runs_and_what_waits)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&stage.script, "t", "");
	waits = script_add(&stage.script, "t", "");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 1 && stage.script.beat.held == 2));
	script_command(&stage.script, COMMAND(CANCEL), 4711, 0); /* no such task */
	script_command(&stage.script, COMMAND(CANCEL), waits, 0);
	stage_await(&stage, waits);
	cr_expect_eq(stage.script.tasks[waits].outcome, OUTCOME(CANCELLED));
	cr_expect_eq(atomic_load(&running), 1);
	script_command(&stage.script, COMMAND(CANCEL), runs, 0);
	stage_await(&stage, runs);
	cr_expect_eq(stage.script.tasks[runs].outcome, OUTCOME(CANCELLED));
	cr_expect_str_eq(stage.script.tasks[runs].code, "cancelled");
	cr_expect_eq(stage_close(&stage), 0);
}

Test(commands, what_completes_all_the_same_has_completed)
{
	int64_t id;
	int beats;

	open_stage(1, 0);
	id = script_add(&stage.script, "t", "stubborn");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 1));
	script_command(&stage.script, COMMAND(CANCEL), id, 0);
	beats = stage.script.heartbeats;
	cr_assert(script_wait(&stage.script, stage.script.heartbeats > beats + 2));
	atomic_store(&go_on, true);
	stage_await(&stage, id);
	cr_expect_eq(stage.script.tasks[id].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(stage_close(&stage), 0);
}

Test(commands, abandon_stops_without_a_word)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&stage.script, "t", "");
	waits = script_add(&stage.script, "t", "");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 1 && stage.script.beat.held == 2));
	script_command(&stage.script, COMMAND(ABANDON), waits, 0);
	script_command(&stage.script, COMMAND(ABANDON), runs, 0);
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 0));
	cr_expect_eq(atomic_load(&running), 0);
	cr_expect_eq(stage.script.tasks[runs].reports + stage.script.tasks[waits].reports, 0);
	cr_expect_eq(stage_close(&stage), 0);
	cr_expect_eq(stage.script.n_done, 0);
}

Test(commands, abandon_takes_a_result_out_of_the_outbox)
{
	int64_t reported, kept;

	/* One report is in flight; the second result waits for its answer. */
	open_stage(1, 7);
	stage.script.hold_reports = true;
	reported = script_add(&stage.script, "t", "");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 1 && stage.script.parked_now == 1));
	atomic_store(&go_on, true);
	cr_assert(script_wait(&stage.script, stage.script.reports == 1));
	kept = script_add(&stage.script, "t", "");
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 2 && stage.script.beat.running == 0));
	script_command(&stage.script, COMMAND(ABANDON), kept, 0);
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 1));
	script_command(&stage.script, COMMAND(ABANDON), reported, 0); /* the report is in flight: too late */
	script_stop(&stage.script);
	stage.script.hold_reports = false;
	script_start(&stage.script);
	stage_await(&stage, reported);
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 0));
	cr_expect_eq(stage.script.tasks[kept].reports, 0);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(commands, pause_and_resume)
{
	int fetches;
	int64_t id;

	open_stage(2, 0);
	script_command(&stage.script, COMMAND(PAUSE), 0, 0);
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.heartbeats >= 3));
	fetches = stage.script.fetches;
	id = script_add(&stage.script, "t", "");
	usleep(200 * 1000);
	cr_expect_eq(stage.script.fetches, fetches);
	cr_expect_eq(stage.script.tasks[id].state, SCRIPT_QUEUED);
	atomic_store(&go_on, true);
	script_lock(&stage.script);
	stage.script.commands[0].kind = COMMAND(RESUME);
	script_unlock(&stage.script);
	stage_await(&stage, id);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(commands, concurrency_grows_and_shrinks)
{
	open_stage(1, 0);
	for (int i = 0; i < 30; i++)
		script_add(&stage.script, "t", "");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 1));
	script_command(&stage.script, COMMAND(CONCURRENCY), 0, 5);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 5 && stage.script.beat.running == 5));
	cr_expect_eq(stage.script.open, 5);
	/* Reduced to two: the running tasks continue; afterwards, only two run at once. */
	script_lock(&stage.script);
	stage.script.commands[0].value = 2;
	script_unlock(&stage.script);
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&running), 5);
	script_lock(&stage.script);
	stage.script.paused = true;
	script_unlock(&stage.script);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 5));
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 0));
	atomic_store(&go_on, false);
	script_lock(&stage.script);
	stage.script.paused = false;
	script_unlock(&stage.script);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 2 && stage.script.beat.running == 2));
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&running), 2);
	/* Raised again, after surplus slots have ended. */
	script_lock(&stage.script);
	stage.script.commands[0].value = 4;
	script_unlock(&stage.script);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 4));
	atomic_store(&go_on, true);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 30));
	cr_expect_eq(stage_close(&stage), 0);
}

Test(commands, drain_lets_all_finish_and_leaves)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&stage.script, "t", "");
	waits = script_add(&stage.script, "t", "");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 1 && stage.script.beat.held == 2));
	script_command(&stage.script, COMMAND(DRAIN), 0, 0);
	stage_await(&stage, waits);
	cr_expect_eq(stage.script.tasks[waits].outcome, OUTCOME(RETURNED));
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&running), 1);
	atomic_store(&go_on, true);
	cr_expect_eq(stage_join(&stage), 0);
	cr_expect_eq(stage.script.tasks[runs].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(stage.script.leaves, 1);
	stage_close(&stage);
}

Test(commands, stop_gives_back_what_runs_and_leaves)
{
	int64_t runs, waits;

	open_stage(1, 1);
	runs = script_add(&stage.script, "t", "");
	waits = script_add(&stage.script, "t", "");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&running) == 1 && stage.script.beat.held == 2));
	script_command(&stage.script, COMMAND(STOP), 0, 0); /* with every heartbeat from now on */
	cr_expect_eq(stage_join(&stage), 0);
	cr_expect_eq(stage.script.tasks[runs].outcome, OUTCOME(RETURNED));
	cr_expect_eq(stage.script.tasks[waits].outcome, OUTCOME(RETURNED));
	cr_expect_eq(stage.script.leaves, 1);
	stage_close(&stage);
}

Test(commands, a_pause_stands_as_long_as_heartbeats_have_it)
{
	int64_t first;

	/* The pause cancels the parked Fetch. */
	open_stage(2, 0);
	atomic_store(&go_on, true);
	stage.script.commands_in_heartbeats_only = true;
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.parked_now == 1));
	script_command(&stage.script, COMMAND(PAUSE), 0, 0);
	cr_assert(script_wait(&stage.script, stage.script.beat.state == REEVE__V1__WORKER_STATE__WORKER_STATE_PAUSED &&
	                                         stage.script.beat.waiting == 0));
	first = script_add(&stage.script, "t", "");
	usleep(200 * 1000);
	cr_expect_eq(stage.script.tasks[first].state, SCRIPT_QUEUED);
	script_lock(&stage.script);
	stage.script.n_commands = 0;
	script_unlock(&stage.script);
	stage_await(&stage, first);
	cr_assert(script_wait(&stage.script, stage.script.beat.state == REEVE__V1__WORKER_STATE__WORKER_STATE_RUNNING &&
	                                         stage.script.beat.succeeded == 1));
	cr_expect_eq(stage.script.beat.failed, 0);
	cr_expect_eq(stage.script.beat.concurrency, 2);
	cr_expect_eq(stage_close(&stage), 0);
}
