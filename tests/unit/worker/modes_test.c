/* Workers that exit without a stop (once, until_empty), remarks, and resting periods of slots. */
#include "stage.h"

#include <stdatomic.h>

static struct stage stage;
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
	reeve_outcome_stack(outcome, "at act");
	reeve_outcome_retry_in(outcome, 1234);
	if (!strcmp(attempt->details, "fail"))
		reeve_outcome_fail(outcome, "code", "error");
	atomic_store(&last_ended_ms, clock_monotonic_ms());
	return 0;
}

static void open_stage(struct reeve_worker_options options)
{
	stage_open(&stage, options);
	reeve_worker_handle(stage.worker, "t", act, NULL);
	atomic_store(&shortest_ms, INT64_MAX);
}

Test(modes, functions_say_more)
{
	int64_t bad, good;

	open_stage((struct reeve_worker_options){0});
	bad = script_add(&stage.script, "t", "fail");
	good = script_add(&stage.script, "t", "well");
	stage_go(&stage);
	stage_await(&stage, bad);
	stage_await(&stage, good);
	cr_expect_str_eq(stage.script.tasks[bad].remark, "fail");
	cr_expect_str_eq(stage.script.tasks[bad].stack, "at act");
	cr_expect_eq(stage.script.tasks[bad].retry_in_ms, 1234);
	cr_expect_str_eq(stage.script.tasks[good].remark, "well");
	cr_expect_str_eq(stage.script.tasks[good].stack, "");
	cr_expect_eq(stage.script.tasks[good].retry_in_ms, 0);
	cr_expect_eq(stage_close(&stage), 0);
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
	reeve_outcome_remark(outcome, NULL);
	while (atomic_load(&steps) < 3)
		usleep(5000);
	reeve_outcome_remark(outcome, "at last");
	return 0;
}

Test(modes, remarks_go_out_while_it_runs_and_each_once)
{
	const struct script_task *task;
	int64_t id;
	int beats;

	stage_open(&stage, (struct reeve_worker_options){0});
	stage.script.heartbeat_ms = 30;
	reeve_worker_handle(stage.worker, "t", go_on, NULL);
	id = script_add(&stage.script, "t", "");
	task = &stage.script.tasks[id];
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, task->times_seen == 1));
	cr_expect_str_eq(task->seen, "at first");
	beats = stage.script.heartbeats;
	cr_assert(script_wait(&stage.script, stage.script.heartbeats > beats + 3));
	cr_expect_eq(task->times_seen, 1);
	atomic_store(&steps, 1);
	cr_assert(script_wait(&stage.script, task->times_seen == 2));
	cr_expect_eq(strlen(task->seen), 999, "whole characters in its place");
	atomic_store(&steps, 2);
	cr_assert(script_wait(&stage.script, task->times_seen == 3));
	cr_expect_str_eq(task->seen, "");
	atomic_store(&steps, 3);
	stage_await(&stage, id);
	cr_expect_str_eq(task->remark, "at last");
	cr_expect_eq(stage_close(&stage), 0);
}

Test(modes, once_does_one)
{
	open_stage((struct reeve_worker_options){.once = true, .concurrency = 8, .prefetch = 100});
	for (int i = 0; i < 5; i++)
		script_add(&stage.script, "t", "well");
	stage_go(&stage);
	cr_expect_eq(stage_join(&stage), 0);
	cr_expect_eq(stage.script.n_done, 1);
	cr_expect_eq(stage.script.open, 0);
	cr_expect_eq(stage.script.leaves, 1);
	cr_expect_eq(atomic_load(&runs), 1);
	stage_close(&stage);
}

Test(modes, once_tells_that_it_failed)
{
	open_stage((struct reeve_worker_options){.once = true});
	script_add(&stage.script, "t", "fail");
	stage_go(&stage);
	cr_expect_eq(stage_join(&stage), 1);
	cr_expect_str_eq(reeve_worker_error(stage.worker), "1 of 1 attempts did not complete");
	stage_close(&stage);
}

Test(modes, once_tells_that_its_result_came_too_late)
{
	int64_t id;

	open_stage((struct reeve_worker_options){.once = true});
	id = script_add(&stage.script, "t", "well");
	stage.script.tasks[id].status = RESULT_STATUS(LOST);
	stage_go(&stage);
	cr_expect_eq(stage_join(&stage), 1);
	stage_close(&stage);
}

Test(modes, until_empty_ends_when_nothing_is_left)
{
	open_stage((struct reeve_worker_options){.until_empty = true, .concurrency = 3, .prefetch = 2});
	for (int i = 0; i < 500; i++)
		script_add(&stage.script, "t", "well");
	stage_go(&stage);
	cr_expect_eq(stage_join(&stage), 0);
	cr_expect_eq(stage.script.n_done, 500);
	cr_expect_eq(stage.script.leaves, 1);
	stage_close(&stage);
}

Test(modes, the_two_do_not_go_together)
{
	struct reeve_worker *worker = reeve_worker_create(&(struct reeve_worker_options){.once = true, .until_empty = true});

	cr_expect_str_eq(reeve_worker_error(worker), "once and until_empty do not go together");
	reeve_worker_destroy(worker);
}

Test(modes, a_slot_rests)
{
	/* The prefetch has room for the other tasks: they wait in the worker, and no other thread of it takes them. */
	open_stage((struct reeve_worker_options){.concurrency = 1, .prefetch = 5});
	for (int i = 0; i < 4; i++)
		stage.script.tasks[script_add(&stage.script, "t", "well")].resting_ms = 300;
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 4));
	cr_expect_geq(atomic_load(&shortest_ms), 300);
	cr_expect_gt(stage.script.idle_first_ms, 0);
	cr_expect_eq(stage.script.idle_last_ms, 0);
	cr_expect_eq(stage_close(&stage), 0);
}

Test(modes, a_slot_that_rests_is_not_offered)
{
	int64_t other, begin_ms;
	uint32_t slots = 0;

	open_stage((struct reeve_worker_options){.concurrency = 2});
	stage.script.tasks[script_add(&stage.script, "t", "well")].resting_ms = 60 * 60 * 1000;
	stage_go(&stage);
	cr_assert(script_wait(&stage.script, stage.script.n_done == 1 && stage.script.parked_now == 1));
	script_lock(&stage.script);
	for (int i = 0; i < SCRIPT_CALLS_MAX; i++)
		slots += stage.script.parked[i].call ? stage.script.parked[i].slots : 0;
	script_unlock(&stage.script);
	cr_expect_eq(slots, 1);
	/* The other slot works, and the resting period does not delay the stop. */
	other = script_add(&stage.script, "t", "well");
	stage_await(&stage, other);
	begin_ms = clock_monotonic_ms();
	cr_expect_eq(stage_close(&stage), 0);
	cr_expect_lt(clock_monotonic_ms() - begin_ms, 5000);
}
