/* Workers that exit without a stop (once, until_empty), remarks, and resting periods of slots. */
#include "fixture.h"

#include <stdatomic.h>

static struct fixture fixture;
static _Atomic int runs;
static _Atomic int64_t last_ended_ms, shortest_ms;

/* A handler whose details select the outcome. Records the shortest time between the end of one run and the start of the
 * next. */
static int act(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	int64_t gap_ms = clock_monotonic_ms() - atomic_load(&last_ended_ms);

	if (atomic_fetch_add(&runs, 1) && gap_ms < atomic_load(&shortest_ms))
		atomic_store(&shortest_ms, gap_ms);
	reeve_outcome_remark(outcome, "wrong");
	reeve_outcome_remark(outcome, attempt->details);
	reeve_outcome_stack_trace(outcome, "at act");
	reeve_outcome_retry_in(outcome, 1234);
	if (!strcmp(attempt->details, "fail"))
		reeve_outcome_fail(outcome, "code", "error");
	atomic_store(&last_ended_ms, clock_monotonic_ms());
	return 0;
}

static void open_stage(struct reeve_worker_options options)
{
	fixture_open(&fixture, options);
	reeve_worker_handle(fixture.worker, "t", act, NULL);
	atomic_store(&shortest_ms, INT64_MAX);
}

Test(modes, functions_say_more)
{
	int64_t bad, good;

	open_stage((struct reeve_worker_options){0});
	bad = script_add(&fixture.script, "t", "fail");
	good = script_add(&fixture.script, "t", "well");
	fixture_go(&fixture);
	fixture_await(&fixture, bad);
	fixture_await(&fixture, good);
	cr_expect_str_eq(fixture.script.tasks[bad].remark, "fail");
	cr_expect_str_eq(fixture.script.tasks[bad].stack, "at act");
	cr_expect_eq(fixture.script.tasks[bad].retry_in_ms, 1234);
	cr_expect_str_eq(fixture.script.tasks[good].remark, "well");
	cr_expect_str_eq(fixture.script.tasks[good].stack, "");
	cr_expect_eq(fixture.script.tasks[good].retry_in_ms, 0);
	cr_expect_eq(fixture_close(&fixture), 0);
}

static _Atomic int steps;

static int go_on(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char text[2001];

	(void)attempt;
	memset(text, 0xc3, sizeof text - 1); /* invalid UTF-8 */
	text[sizeof text - 1] = '\0';
	reeve_outcome_remark(outcome, "at first");
	while (atomic_load(&steps) < 1)
		usleep(5000);
	reeve_outcome_remark(outcome, text);
	while (atomic_load(&steps) < 2)
		usleep(5000);
	reeve_outcome_remark(outcome, "at last");
	return 0;
}

Test(modes, remarks_go_out_while_it_runs_and_each_once)
{
	const struct script_task *task;
	int64_t id;
	int beats;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	fixture.script.heartbeat_ms = 30;
	reeve_worker_handle(fixture.worker, "t", go_on, NULL);
	id = script_add(&fixture.script, "t", "");
	task = &fixture.script.tasks[id];
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, task->times_seen == 1));
	cr_expect_str_eq(task->seen, "at first");
	beats = fixture.script.heartbeats;
	cr_assert(script_wait(&fixture.script, fixture.script.heartbeats > beats + 3));
	cr_expect_eq(task->times_seen, 1);
	atomic_store(&steps, 1);
	cr_assert(script_wait(&fixture.script, task->times_seen == 2));
	cr_expect_eq(strlen(task->seen), 999, "whole characters in its place");
	atomic_store(&steps, 2);
	fixture_await(&fixture, id);
	cr_expect_str_eq(task->remark, "at last");
	cr_expect_eq(fixture_close(&fixture), 0);
}

static int report(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)outcome;
	reeve_attempt_log(attempt, "one\ntwo");
	reeve_attempt_progress(attempt, 40, "page 1");
	while (atomic_load(&steps) < 1)
		usleep(5000);
	reeve_attempt_log(attempt, "three");
	while (atomic_load(&steps) < 2)
		usleep(5000);
	reeve_attempt_log(attempt, "four");
	reeve_attempt_progress(attempt, 100, NULL);
	return 0;
}

Test(modes, functions_report_progress_and_log_lines)
{
	const struct script_task *task;
	int64_t id;
	int calls;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "t", report, NULL);
	id = script_add(&fixture.script, "t", "");
	task = &fixture.script.tasks[id];
	fixture_go(&fixture);
	cr_assert(
	    script_wait(&fixture.script, task->logged && !strcmp(task->logged, "one\ntwo\n") && task->progress == 40));
	cr_expect_str_eq(task->seen, "page 1");
	/* What a manager does not take yet is sent again, and nothing else. */
	script_lock(&fixture.script);
	fixture.script.progress_status = REEVE__V1__RESULT_STATUS__RESULT_STATUS_LATER;
	calls = fixture.script.progress_calls;
	script_unlock(&fixture.script);
	atomic_store(&steps, 1);
	cr_assert(script_wait(&fixture.script, fixture.script.progress_calls >= calls + 2));
	cr_expect_str_eq(task->logged, "one\ntwo\n");
	atomic_store(&steps, 2);
	fixture_await(&fixture, id);
	cr_expect_str_eq(task->logged, "one\ntwo\nthree\nfour\n");
	cr_expect_eq(task->lines_missing, 0);
	cr_expect_eq(task->progress, 100);
	cr_expect_str_eq(task->remark, "page 1");
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(modes, once_reports_a_failure)
{
	open_stage((struct reeve_worker_options){.once = true});
	script_add(&fixture.script, "t", "fail");
	fixture_go(&fixture);
	cr_expect_eq(fixture_join(&fixture), 1);
	cr_expect_str_eq(reeve_worker_error(fixture.worker), "1 of 1 attempts did not complete");
	fixture_close(&fixture);
}

Test(modes, once_reports_that_its_result_was_late)
{
	int64_t id;

	open_stage((struct reeve_worker_options){.once = true});
	id = script_add(&fixture.script, "t", "well");
	fixture.script.tasks[id].status = RESULT_STATUS(LOST);
	fixture_go(&fixture);
	cr_expect_eq(fixture_join(&fixture), 1);
	fixture_close(&fixture);
}

Test(modes, a_slot_keeps_the_resting_period)
{
	/* The prefetch has room for the other tasks: they wait in the worker, and no other thread of it takes them. */
	open_stage((struct reeve_worker_options){.concurrency = 1, .prefetch = 5});
	for (int i = 0; i < 4; i++)
		fixture.script.tasks[script_add(&fixture.script, "t", "well")].resting_ms = 300;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 4));
	cr_expect_geq(atomic_load(&shortest_ms), 300);
	cr_expect_gt(fixture.script.idle_first_ms, 0);
	cr_expect_eq(fixture.script.idle_last_ms, 0);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* The slot's resting period ends later than the second task expires. */
Test(modes, what_a_rest_keeps_waiting_is_returned_in_time)
{
	int64_t first, second;

	open_stage((struct reeve_worker_options){.concurrency = 1, .prefetch = 1});
	first = script_add(&fixture.script, "t", "well");
	second = script_add(&fixture.script, "t", "well");
	fixture.script.tasks[first].resting_ms = 60 * 60 * 1000;
	fixture.script.tasks[second].timeout_ms = 1000;
	fixture.script.tasks[second].expires_in_ms = 6000;
	fixture_go(&fixture);
	fixture_await(&fixture, second);
	cr_expect_eq(fixture.script.tasks[second].outcome, OUTCOME(RETURNED));
	cr_expect_str_eq(fixture.script.tasks[second].code, "waited");
	cr_expect_eq(atomic_load(&runs), 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* Returns true if a parked Fetch takes nothing of the queue "default". */
static bool none_of_default(void)
{
	for (size_t i = 0; i < sizeof fixture.script.parked / sizeof *fixture.script.parked; i++) {
		const struct script_parked *parked = &fixture.script.parked[i];

		if (parked->call && parked->limited_slots == 0 && !strcmp(parked->limited, "default"))
			return true;
	}
	return false;
}

Test(modes, what_could_not_start_for_a_rest_is_not_prefetched)
{
	open_stage((struct reeve_worker_options){.concurrency = 1, .prefetch = 2});
	fixture.script.tasks[script_add(&fixture.script, "t", "well")].resting_ms = 60 * 60 * 1000;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == 1 && none_of_default()));
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(modes, a_resting_slot_is_offered_to_other_queues)
{
	int64_t other, begin_ms;
	struct script_parked *parked = fixture.script.parked;

	open_stage((struct reeve_worker_options){.concurrency = 2});
	fixture.script.tasks[script_add(&fixture.script, "t", "well")].resting_ms = 60 * 60 * 1000;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script,
	    fixture.script.n_done == 1 && fixture.script.parked_now == 1 && parked->call && parked->slots == 2 &&
	        parked->limited_slots == 1 && !strcmp(parked->limited, "default")));
	/* The other slot works, and the resting period does not delay the stop. */
	other = script_add(&fixture.script, "t", "well");
	fixture_await(&fixture, other);
	begin_ms = clock_monotonic_ms();
	cr_expect_eq(fixture_close(&fixture), 0);
	cr_expect_lt(clock_monotonic_ms() - begin_ms, 5000);
}
