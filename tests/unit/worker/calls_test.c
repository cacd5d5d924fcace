/* Fetches, reports and heartbeats when calls fail. */
#include "said.h"
#include "stage.h"

#include <stdatomic.h>

static struct stage stage;
static _Atomic int runs;
static _Atomic bool go_on;

static int count_runs(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	atomic_fetch_add(&runs, 1);
	return reeve_outcome_complete(outcome, attempt->details);
}

/* Runs until the test sets go_on, or until it is asked to stop. */
static int until_go_on(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	atomic_fetch_add(&runs, 1);
	while (!atomic_load(&go_on))
		if (reeve_attempt_cancelled(attempt))
			return 1;
		else
			usleep(1000);
	return reeve_outcome_complete(outcome, "went on");
}

/* Runs until the test sets go_on, even if it is asked to stop. */
static int stubborn(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)attempt;
	atomic_fetch_add(&runs, 1);
	while (!atomic_load(&go_on))
		usleep(1000);
	return reeve_outcome_complete(outcome, "went on");
}

/* The third run waits until the test sets go_on; the others complete at once. */
static int third_waits(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	int n = atomic_fetch_add(&runs, 1) + 1;
	while (n == 3 && !atomic_load(&go_on))
		usleep(1000);
	return reeve_outcome_complete(outcome, attempt->details);
}

static void open_stage(reeve_handler *function, int concurrency)
{
	stage_open(&stage, (struct reeve_worker_options){.concurrency = concurrency, .drain_timeout_ms = 1});
	reeve_worker_handle(stage.worker, "t", function, NULL);
	stage.script.heartbeat_ms = 30;
}

/* ---- Fetch ---- */

Test(calls, an_answer_to_another_fetch_is_dropped)
{
	int64_t id;

	open_stage(count_runs, 2);
	stage.script.wrong_fetches = 2;
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	stage_await(&stage, id);
	/* The task came twice in answers to a Fetch that was never sent, and did not run. */
	cr_expect_eq(stage.script.tasks[id].deliveries, 3);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_geq(stage.script.fetches_again, 2);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, an_answer_for_another_incarnation_is_dropped)
{
	int64_t id;

	open_stage(count_runs, 2);
	stage.script.wrong_incarnations = 1;
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	stage_await(&stage, id);
	cr_expect_eq(stage.script.tasks[id].deliveries, 2);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, an_answer_that_is_lost_with_its_manager_comes_again)
{
	int64_t id;

	open_stage(count_runs, 2);
	stage.script.hold_fetches = true;
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.tasks[id].state == SCRIPT_GIVEN));
	script_stop(&stage.script);
	stage.script.hold_fetches = false;
	script_start(&stage.script);
	stage_await(&stage, id);
	cr_expect_eq(stage.script.fetches_again, 1);
	cr_expect_eq(stage.script.tasks[id].deliveries, 2);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(stage.script.registers, 1);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, what_is_delivered_twice_runs_once)
{
	int64_t id;

	/* The task is assigned to a second Fetch although the worker already has it. */
	open_stage(stubborn, 2);
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&runs) == 1));
	script_lock(&stage.script);
	stage.script.tasks[id].state = SCRIPT_QUEUED;
	script_unlock(&stage.script);
	cr_assert(script_wait(&stage.script, stage.script.tasks[id].deliveries == 2));
	usleep(50 * 1000);
	cr_expect_eq(atomic_load(&runs), 1);
	atomic_store(&go_on, true);
	stage_await(&stage, id);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, a_fetch_that_fails_is_sent_again)
{
	int64_t id;

	open_stage(count_runs, 2);
	stage.script.fetch_failures = 3;
	stage.script.fetch_code = STATUS(RESOURCE_EXHAUSTED);
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	stage_await(&stage, id);
	cr_expect_geq(stage.script.fetches_again, 3);
	cr_expect_eq(stage.script.tasks[id].fetch_id, 1);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, one_fetch_is_parked_at_rest)
{
	open_stage(count_runs, 4);
	stage_go(&stage);
	for (int round = 0; round < 20; round++) {
		int64_t id = script_add(&stage.script, "t", "x");

		stage_await(&stage, id);
	}
	cr_assert(script_wait(&stage.script, stage.script.parked_now == 1));
	cr_expect_eq(stage.script.parked_max, 1);
	cr_expect_eq(stage.script.fetches_again, 0);
	/* Each task needs at most one Fetch of its own and one that a report carries. */
	cr_expect_leq(stage.script.fetches, 45);
	cr_expect_eq(stage_close(&stage), 0);
}

/* ---- Report ---- */

Test(calls, results_are_kept_while_the_manager_is_away)
{
	int64_t id, other;

	open_stage(until_go_on, 2);
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&runs) == 1));
	script_stop(&stage.script);
	atomic_store(&go_on, true);
	usleep(300 * 1000);
	script_start(&stage.script);
	stage_await(&stage, id);
	cr_expect_str_eq(stage.script.tasks[id].result, "went on");
	other = script_add(&stage.script, "t", "y");
	stage_await(&stage, other);
	cr_expect_eq(stage.script.registers, 1);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, a_report_without_an_answer_is_sent_again_to_the_next_manager)
{
	int64_t id;

	open_stage(count_runs, 2);
	stage.script.hold_reports = true;
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.reports == 1));
	script_stop(&stage.script);
	stage.script.hold_reports = false;
	script_start(&stage.script);
	stage_await(&stage, id);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(stage.script.tasks[id].reports, 1);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, a_report_is_tried_again_when_there_is_no_room)
{
	int64_t id;

	open_stage(count_runs, 2);
	stage.script.report_failures = 2;
	stage.script.report_code = STATUS(RESOURCE_EXHAUSTED);
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	stage_await(&stage, id);
	cr_expect_eq(stage.script.reports, 3);
	cr_expect_eq(stage_close(&stage), 0);
}

/* Queues 20 tasks. The first report fails, so that the results gather and are sent together. */
static void gather(int64_t *first)
{
	enum { COUNT = 20 };

	open_stage(count_runs, COUNT);
	stage.script.report_failures = 1;
	stage.script.report_code = STATUS(RESOURCE_EXHAUSTED);
	*first = script_add(&stage.script, "t", "first");
	for (int i = 1; i < COUNT; i++)
		script_add(&stage.script, "t", "x");
}

Test(calls, one_invalid_result_does_not_hold_the_others_up)
{
	int64_t bad;

	gather(&bad);
	bad += 7;
	stage.script.invalid_task = bad;
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 20));
	for (int id = 1; id <= 20; id++)
		cr_expect_eq(
		    stage.script.tasks[id].outcome, id == bad ? OUTCOME(FATAL) : OUTCOME(COMPLETED), "task %d", id);
	cr_expect_str_eq(stage.script.tasks[bad].code, "result-refused");
	cr_expect_str_eq(stage.script.tasks[bad].error, "the manager refused the result: as the script says");
	cr_expect_eq(atomic_load(&runs), 20);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, a_result_that_is_never_taken_is_given_up)
{
	int64_t bad;

	gather(&bad);
	stage.script.invalid_task = bad;
	stage.script.invalid_for_ever = true;
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 19));
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 0 && stage.script.beat.seq > 2));
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, a_result_without_a_verdict_is_reported_again)
{
	int64_t id, lost;

	open_stage(count_runs, 2);
	id = script_add(&stage.script, "t", "x");
	lost = script_add(&stage.script, "t", "x");
	stage.script.tasks[id].acks_missing = 2;
	stage.script.tasks[lost].status = RESULT_STATUS(LOST);
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 2));
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 0 && stage.script.beat.seq > 2));
	cr_expect_eq(stage.script.tasks[id].reports, 3);
	cr_expect_eq(stage.script.tasks[lost].reports, 1);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, a_result_that_is_not_judged_yet_is_reported_again_and_holds_up_no_other)
{
	int64_t id;

	open_stage(count_runs, 2);
	id = script_add(&stage.script, "t", "x");
	stage.script.tasks[id].acks_later = 1000;
	for (int i = 0; i < 40; i++)
		script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 40));
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 1 && stage.script.tasks[id].reports > 1));
	script_lock(&stage.script);
	stage.script.tasks[id].acks_later = 1;
	script_unlock(&stage.script);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 41));
	cr_expect_eq(stage_close(&stage), 0);
}

/* Many results that get no ack for a while are sent again in a few reports, not in one each. */
Test(calls, results_that_are_not_judged_yet_go_again_together)
{
	enum { LOCKED = 400, OTHERS = 400 };
	int reports;

	open_stage(count_runs, 20);
	for (int i = 0; i < LOCKED; i++)
		stage.script.tasks[script_add(&stage.script, "t", "x")].acks_later = 3;
	stage_go(&stage);
	for (int i = 0; i < OTHERS; i++)
		script_add(&stage.script, "t", "x");
	cr_assert(script_wait(&stage.script, stage.script.n_done == LOCKED + OTHERS));
	script_lock(&stage.script);
	reports = stage.script.reports;
	script_unlock(&stage.script);
	cr_expect_lt(reports, 3 * LOCKED);
	cr_expect_eq(stage_close(&stage), 0);
}

/* ---- Heartbeats ---- */

Test(calls, heartbeats_go_on_while_all_slots_are_busy)
{
	int64_t before, after;

	open_stage(stubborn, 2);
	for (int i = 0; i < 5; i++)
		script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.beat.running == 2));
	before = stage.script.beat.seq;
	cr_assert(script_wait(&stage.script, stage.script.beat.seq >= before + 10));
	after = stage.script.beat.seq;
	cr_expect_eq(stage.script.beat.held, 2);
	cr_expect_eq(stage.script.beat.incarnation, 1);
	cr_expect_geq(stage.script.beat.highest_fetch_id, 1);
	cr_expect_gt(after, before);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 5));
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, heartbeats_name_what_is_in_the_outbox_and_what_is_waited_for)
{
	int64_t id;

	open_stage(count_runs, 2);
	stage.script.hold_reports = true;
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.reports == 1));
	/* The next heartbeat may have been composed before the report. */
	int seen = stage.script.heartbeats;
	cr_assert(script_wait(&stage.script, stage.script.heartbeats >= seen + 2));
	cr_expect_eq(stage.script.beat.held, 1);
	cr_expect_eq(stage.script.beat.running, 0);
	cr_expect_eq(stage.script.beat.first_held, id);
	/* The Fetch that the report carries, and perhaps a parked one. */
	cr_expect_geq(stage.script.beat.waiting, 1);
	cr_expect_leq(stage.script.beat.waiting, 2);
	script_stop(&stage.script);
	stage.script.hold_reports = false;
	script_start(&stage.script);
	cr_assert(script_wait(&stage.script, stage.script.beat.held == 0));
	cr_expect_eq(stage_close(&stage), 0);
}

/* Each task follows the previous one at once, so there is no news to report until the last one has ended. */
Test(calls, a_busy_worker_with_one_slot_sends_no_more_heartbeats_than_others)
{
	open_stage(third_waits, 1);
	stage.script.heartbeat_ms = 60 * 1000;
	for (int i = 0; i < 3; i++)
		script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&runs) == 3));
	usleep(1300 * 1000); /* news wait for a second */
	script_lock(&stage.script);
	cr_expect_eq(stage.script.heartbeats, 0);
	script_unlock(&stage.script);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&stage.script, stage.script.heartbeats > 0));
	cr_expect_eq(stage.script.beat.held, 0);
	cr_expect_eq(stage.script.beat.succeeded, 3);
	cr_expect_eq(stage_close(&stage), 0);
}

/* ---- Lost workers ---- */

Test(calls, a_lost_worker_stops_everything_and_registers_again)
{
	int64_t running, waiting, later;
	int fetches;

	stage_open(&stage, (struct reeve_worker_options){.concurrency = 1, .prefetch = 1, .drain_timeout_ms = 1});
	reeve_worker_handle(stage.worker, "t", until_go_on, NULL);
	stage.script.heartbeat_ms = 30;
	running = script_add(&stage.script, "t", "x");
	waiting = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&runs) == 1 && stage.script.beat.held == 2));
	script_lock(&stage.script);
	stage.script.lost = true;
	stage.script.paused = true;
	script_unlock(&stage.script);
	cr_assert(script_wait(&stage.script, stage.script.registers == 2));
	stage_await(&stage, running);
	stage_await(&stage, waiting);
	cr_expect_eq(stage.script.tasks[running].outcome, OUTCOME(LEASE_ENDED));
	cr_expect_eq(stage.script.tasks[waiting].outcome, OUTCOME(LEASE_ENDED));
	cr_expect_eq(atomic_load(&runs), 1);
	/* It starts again with a new incarnation. */
	fetches = stage.script.fetches;
	cr_assert(script_wait(&stage.script, stage.script.first_fetch_of_incarnation == 1), "%d", fetches);
	cr_assert(script_wait(&stage.script, stage.script.beat.incarnation == 2 && stage.script.beat.seq >= 2));
	atomic_store(&go_on, true);
	later = script_add(&stage.script, "t", "x");
	stage.script.paused = false;
	stage_await(&stage, later);
	cr_expect_eq(stage.script.tasks[later].incarnation, 2);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, it_registers_only_when_nothing_runs_any_more)
{
	int64_t id;

	open_stage(stubborn, 2);
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, atomic_load(&runs) == 1));
	stage.script.lost = true;
	cr_assert(script_wait(&stage.script, !stage.script.lost));
	usleep(200 * 1000);
	cr_expect_eq(stage.script.registers, 1);
	atomic_store(&go_on, true);
	cr_assert(script_wait(&stage.script, stage.script.registers == 2));
	/* A task that completed nevertheless is reported, and its token decides. */
	stage_await(&stage, id);
	cr_expect_eq(stage.script.tasks[id].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, a_fetch_tells_that_the_incarnation_is_over)
{
	int64_t id;

	said_begin();
	open_stage(count_runs, 2);
	stage.script.heartbeat_ms = 60 * 1000;
	stage.script.fetch_failures = 1;
	stage.script.fetch_code = STATUS(FAILED_PRECONDITION);
	stage.script.fetch_problem = "incarnation 1 has ended; register again";
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	stage_await(&stage, id);
	cr_expect_eq(stage.script.registers, 2);
	cr_expect_eq(stage.script.tasks[id].incarnation, 2);
	cr_expect_eq(stage.script.tasks[id].fetch_id, 1);
	cr_expect(strstr(said_so_far(), ": incarnation 1 has ended; register again; stopping 0 tasks\n"), "%s", said_so_far());
	cr_expect_not(strstr(said_so_far(), "has ended: "), "%s", said_so_far());
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, an_answer_to_a_lost_incarnation_is_dropped)
{
	int64_t id, later;

	/* The answer to the first Fetch is in flight when the incarnation is lost; it never arrives. */
	open_stage(count_runs, 2);
	stage.script.hold_fetches = true;
	id = script_add(&stage.script, "t", "x");
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.tasks[id].state == SCRIPT_GIVEN));
	script_lock(&stage.script);
	stage.script.lost = true;
	stage.script.hold_fetches = false;
	script_unlock(&stage.script);
	cr_assert(script_wait(&stage.script, stage.script.registers == 2));
	later = script_add(&stage.script, "t", "x");
	stage_await(&stage, later);
	cr_expect_eq(stage.script.tasks[id].state, SCRIPT_GIVEN);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(calls, what_a_late_answer_to_a_lost_incarnation_brings_does_not_run)
{
	int64_t id, late;

	/* A report carries a Fetch; its answer comes after the worker has registered again. */
	open_stage(count_runs, 1);
	id = script_add(&stage.script, "t", "x");
	stage.script.delay_reports = true;
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.delayed_call && stage.script.delayed->fetch));
	cr_expect_eq(atomic_load(&runs), 1);
	script_lock(&stage.script);
	stage.script.lost = true;
	stage.script.hold_fetches = true; /* so that the next task goes into the late answer */
	script_unlock(&stage.script);
	cr_assert(script_wait(&stage.script, stage.script.registers == 2 && stage.script.first_fetch_of_incarnation));
	late = script_add(&stage.script, "t", "x");
	script_lock(&stage.script);
	stage.script.delay_reports = false;
	script_unlock(&stage.script);
	stage_await(&stage, id);
	cr_expect_eq(stage.script.tasks[late].state, SCRIPT_GIVEN);
	cr_expect_eq(stage.script.tasks[late].incarnation, 1);
	cr_assert(script_wait(&stage.script, stage.script.beat.incarnation == 2 && stage.script.beat.held == 0));
	usleep(100 * 1000);
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(stage_close(&stage), 0);
}
