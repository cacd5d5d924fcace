/* Functions as handlers: from the Fetch to the ack. */
#include "fixture.h"

#include <stdatomic.h>

static struct fixture fixture;

static int echo(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	return reeve_outcome_complete(outcome, attempt->details);
}

static int nothing(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)outcome;
	if (attempt->user_data)
		atomic_fetch_add((_Atomic int *)attempt->user_data, 1);
	return 0;
}

/* Runs until it is asked to stop. */
static int until_stopped(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	(void)outcome;
	while (!reeve_attempt_cancelled(attempt))
		usleep(1000);
	return 1;
}

Test(worker, runs_tasks_and_leaves)
{
	struct script_task *task;
	int64_t id;

	fixture_open(&fixture, (struct reeve_worker_options){.queues = "a, b"});
	cr_assert(reeve_worker_handle(fixture.worker, "echo", echo, NULL));
	id = script_add(&fixture.script, "echo", "Grüße");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	task = &fixture.script.tasks[id];
	cr_expect_eq(task->outcome, OUTCOME(COMPLETED));
	cr_expect_str_eq(task->result, "Grüße");
	cr_expect_eq(task->reports, 1);
	cr_expect_str_eq(fixture.script.registered_types, "echo");
	cr_expect_str_eq(fixture.script.registered_queues, "a,b");
	cr_expect_str_eq(fixture.script.registered_name, "test");
	reeve_worker_stop(fixture.worker);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.leaves, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* It reads the URLs from the environment, as programs do. */
Test(worker, finds_its_managers_by_itself)
{
	int64_t id;

	script_init(&fixture.script);
	setenv("REEVE_MANAGER", fixture.script.url, 1);
	fixture.running = false;
	fixture.worker = reeve_worker_create(&(struct reeve_worker_options){.name = "test", .concurrency = 1});
	cr_assert_null(reeve_worker_error(fixture.worker), "%s", reeve_worker_error(fixture.worker));
	reeve_worker_handle(fixture.worker, "echo", echo, NULL);
	id = script_add(&fixture.script, "echo", "here");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_str_eq(fixture.script.tasks[id].result, "here");
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* ---- Outcomes ---- */

static int outcome_by_details(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char long_text[2000] = "";

	memset(long_text, 'x', sizeof long_text - 1);
	if (!strcmp(attempt->details, "fail"))
		return reeve_outcome_fail(outcome, "busy", "try later");
	if (!strcmp(attempt->details, "fatal"))
		return reeve_outcome_fatal(outcome, NULL, "never");
	if (!strcmp(attempt->details, "return"))
		return 7;
	if (!strcmp(attempt->details, "both")) {
		reeve_outcome_fail(outcome, "x", "y");
		return reeve_outcome_complete(outcome, "after all");
	}
	if (!strcmp(attempt->details, "not utf8"))
		return reeve_outcome_complete(outcome, "a\xff");
	if (!strcmp(attempt->details, "bytes"))
		return reeve_outcome_complete_bytes(outcome, "a\0b", 3);
	if (!strcmp(attempt->details, "no bytes"))
		return reeve_outcome_complete_bytes(outcome, NULL, 0);
	if (!strcmp(attempt->details, "too many bytes"))
		return reeve_outcome_complete_bytes(outcome, memset(long_text, 0xff, 800), 800);
	if (!strcmp(attempt->details, "too long"))
		return reeve_outcome_complete(outcome, long_text);
	if (!strcmp(attempt->details, "odd error"))
		return reeve_outcome_fail(outcome, "co\nde", "err\xff");
	return 0;
}

Test(worker, distinguishes_outcomes)
{
	static const struct {
		const char *details;
		Reeve__V1__Outcome outcome;
		const char *result, *error, *code;
	} cases[] = {
	    {"none", OUTCOME(COMPLETED), "", "", ""},
	    {"fail", OUTCOME(FAILED), "", "try later", "busy"},
	    {"fatal", OUTCOME(FATAL), "", "never", ""},
	    {"return", OUTCOME(FAILED), "", "the handler returned 7", "return:7"},
	    {"both", OUTCOME(COMPLETED), "after all", "", ""},
	    {"not utf8", OUTCOME(COMPLETED), "data:application/octet-stream;base64,Yf8=", "", ""},
	    {"bytes", OUTCOME(COMPLETED), "data:application/octet-stream;base64,YQBi", "", ""},
	    {"no bytes", OUTCOME(COMPLETED), "", "", ""},
	    {"too many bytes", OUTCOME(FATAL), "",
	        "the result of 1105 bytes of base64 is longer than the manager accepts (1000 bytes)", "result-too-long"},
	    {"too long", OUTCOME(FATAL), "", "the result of 1999 bytes is longer than the manager accepts (1000 bytes)",
	        "result-too-long"},
	    {"odd error", OUTCOME(FAILED), "", "err\xEF\xBF\xBD", "error"},
	};
	enum { COUNT = sizeof cases / sizeof *cases };

	fixture_open(&fixture, (struct reeve_worker_options){0});
	fixture.script.max_result_bytes = 1000;
	reeve_worker_handle(fixture.worker, "t", outcome_by_details, NULL);
	for (int i = 0; i < COUNT; i++)
		script_add(&fixture.script, "t", cases[i].details);
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == COUNT));
	for (int i = 0; i < COUNT; i++) {
		const struct script_task *task = &fixture.script.tasks[i + 1];

		cr_expect_eq(task->outcome, cases[i].outcome, "%s: outcome %d", cases[i].details, task->outcome);
		cr_expect_str_eq(task->result, cases[i].result, "%s: %s", cases[i].details, task->result);
		cr_expect_str_eq(task->error, cases[i].error, "%s: %s", cases[i].details, task->error);
		cr_expect_str_eq(task->code, cases[i].code, "%s: %s", cases[i].details, task->code);
	}
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(worker, fails_types_it_has_no_handler_for)
{
	int64_t id;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "echo", echo, NULL);
	id = script_add(&fixture.script, "other", "");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(FAILED));
	cr_expect_str_eq(fixture.script.tasks[id].code, "no-handler");
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* ---- Many tasks ---- */

Test(worker, runs_thousands_once_within_its_capacity)
{
	enum { COUNT = 10000 };
	_Atomic int runs = 0;

	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 4, .prefetch = 296});
	reeve_worker_handle(fixture.worker, "nothing", nothing, &runs);
	for (int i = 0; i < COUNT; i++)
		script_add(&fixture.script, "nothing", "");
	fixture_go(&fixture);
	fixture_await_all(&fixture, COUNT);
	cr_expect_eq(atomic_load(&runs), COUNT);
	cr_expect_gt(fixture.script.report_max, 10, "results were not gathered: at most %zu", fixture.script.report_max);
	for (int id = 1; id <= COUNT; id++)
		cr_assert_eq(fixture.script.tasks[id].reports, 1);
	/* Open at the manager are the tasks that the worker has and those whose report is in flight; this limits them. */
	cr_expect_leq(fixture.script.open_max, 3 * 300);
	cr_expect_leq(fixture.script.parked_max, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(worker, never_holds_more_than_its_capacity)
{
	enum { COUNT = 40 };

	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 3, .prefetch = 2, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "wait", until_stopped, NULL);
	fixture.script.heartbeat_ms = 20;
	for (int i = 0; i < COUNT; i++)
		script_add(&fixture.script, "wait", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.beat.held == 5 && fixture.script.beat.running == 3));
	usleep(200 * 1000);
	cr_expect_eq(fixture.script.open_max, 5);
	cr_expect_eq(fixture.script.beat.held, 5);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* Returns at once, unless the details are "slow". */
static int mostly_quick(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	if (!strcmp(attempt->details, "slow"))
		return until_stopped(attempt, outcome);
	return 0;
}

Test(worker, a_slow_task_holds_no_others_up)
{
	enum { QUICK = 1000, COUNT = 300 };
	int64_t slow;

	/* One slot learns that the type is quick, so it takes many tasks at once; then one of them is slow. */
	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 2, .prefetch = 500, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "t", mostly_quick, NULL);
	for (int i = 0; i < QUICK; i++)
		script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == QUICK));
	fixture.script.paused = true;
	for (int i = 0; i < COUNT / 2; i++)
		script_add(&fixture.script, "t", "");
	slow = script_add(&fixture.script, "t", "slow");
	for (int i = 0; i < COUNT / 2; i++)
		script_add(&fixture.script, "t", "");
	fixture.script.paused = false;
	cr_assert(script_wait(&fixture.script, fixture.script.n_done == QUICK + COUNT));
	cr_expect_eq(fixture.script.tasks[slow].state, SCRIPT_ASSIGNED);
	cr_expect_eq(fixture_close(&fixture), 0);
	cr_expect_eq(fixture.script.tasks[slow].outcome, OUTCOME(RETURNED));
}

/* ---- Time ---- */

static int slow_to_end(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	while (!reeve_attempt_cancelled(attempt))
		usleep(1000);
	return reeve_outcome_complete(outcome, "too late");
}

Test(worker, a_function_that_takes_too_long_has_failed)
{
	int64_t id;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "slow", slow_to_end, NULL);
	id = script_add(&fixture.script, "slow", "");
	fixture.script.tasks[id].timeout_ms = 50;
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(FAILED));
	cr_expect_str_eq(fixture.script.tasks[id].code, "timeout");
	cr_expect_str_eq(fixture.script.tasks[id].error, "not done after 50 ms");
	cr_expect_geq(fixture.script.tasks[id].run_ms, 50);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* The details are a number N: asks N times, every 200 ms, for a second more. */
static int extends_itself(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	char text[32];
	int granted = 0;

	for (int i = 0; i < atoi(attempt->details) && !reeve_attempt_cancelled(attempt); i++) {
		granted += reeve_attempt_extend(attempt, 1000);
		usleep(200 * 1000);
	}
	snprintf(text, sizeof text, "granted %d times", granted);
	return reeve_outcome_complete(outcome, text);
}

Test(worker, a_function_may_ask_for_more_time)
{
	int64_t id, bounded, refused;

	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 3});
	reeve_worker_handle(fixture.worker, "t", extends_itself, NULL);
	id = script_add(&fixture.script, "t", "5");
	fixture.script.tasks[id].timeout_ms = 700;
	/* Without extensions it would expire during the run. */
	fixture.script.tasks[id].expires_in_ms = 1800;
	fixture.script.extend_max_ms = 1000;
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(COMPLETED), "%s", fixture.script.tasks[id].error);
	cr_expect_str_eq(fixture.script.tasks[id].result, "granted 5 times");
	cr_expect_geq(fixture.script.tasks[id].run_ms, 1000);
	/* It is granted less than it asks for … */
	fixture.script.extend_max_ms = 100;
	script_lock(&fixture.script);
	fixture.script.paused = true;
	script_unlock(&fixture.script);
	bounded = script_add(&fixture.script, "t", "100");
	fixture.script.tasks[bounded].timeout_ms = 150;
	fixture.script.paused = false;
	fixture_await(&fixture, bounded);
	cr_expect_str_eq(fixture.script.tasks[bounded].code, "timeout");
	/* … or nothing. */
	fixture.script.extend_max_ms = 0;
	fixture.script.paused = true;
	refused = script_add(&fixture.script, "t", "1");
	fixture.script.tasks[refused].timeout_ms = 5000;
	fixture.script.paused = false;
	fixture_await(&fixture, refused);
	cr_expect_str_eq(fixture.script.tasks[refused].result, "granted 0 times");
	cr_expect_eq(fixture_close(&fixture), 0);
}

static int asks_nobody(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	struct fixture *of = attempt->user_data;
	int64_t start_ms = clock_monotonic_ms();
	bool granted;

	script_stop(&of->script);
	granted = reeve_attempt_extend(attempt, 1000);
	if (granted || clock_monotonic_ms() - start_ms > 8000)
		return reeve_outcome_fatal(outcome, "granted", "by nobody, or it took too long");
	return 0;
}

Test(worker, more_time_that_no_manager_can_grant)
{
	int64_t id;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "t", asks_nobody, &fixture);
	id = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.tasks[id].state == SCRIPT_ASSIGNED));
	sleep(6);
	script_start(&fixture.script);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(COMPLETED), "%s", fixture.script.tasks[id].error);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(worker, gives_back_what_waited_too_long_to_be_started)
{
	int64_t first, second;

	/* One slot: the second task waits for the first until it has too little time left. */
	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 1, .prefetch = 1, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "wait", until_stopped, NULL);
	first = script_add(&fixture.script, "wait", "");
	second = script_add(&fixture.script, "wait", "");
	fixture.script.tasks[second].timeout_ms = 1000;
	fixture.script.tasks[second].expires_in_ms = 6000;
	fixture_go(&fixture);
	fixture_await(&fixture, second);
	cr_expect_eq(fixture.script.tasks[second].outcome, OUTCOME(RETURNED));
	cr_expect_str_eq(fixture.script.tasks[second].code, "waited");
	cr_expect_eq(fixture.script.tasks[first].state, SCRIPT_ASSIGNED);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(worker, runs_what_never_had_the_time_but_not_beyond_its_end)
{
	int64_t id;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "slow", slow_to_end, NULL);
	id = script_add(&fixture.script, "slow", "");
	fixture.script.tasks[id].expires_in_ms = 1200; /* less than its timeout: it is stopped a second before it expires */
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(FAILED));
	cr_expect_str_eq(fixture.script.tasks[id].error, "not done before it expires");
	cr_expect_lt(fixture.script.tasks[id].reported_ms - fixture.script.tasks[id].assigned_ms, 1200);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* ---- Errors ---- */

static int run_code(struct reeve_worker *worker, const char *says)
{
	int code = reeve_worker_run(worker);

	cr_expect(reeve_worker_error(worker) && strstr(reeve_worker_error(worker), says), "%s instead of %s",
	    reeve_worker_error(worker), says);
	reeve_worker_destroy(worker);
	return code;
}

Test(worker, wrong_usage_is_refused)
{
	struct reeve_worker *worker = reeve_worker_create(&(struct reeve_worker_options){0});

	cr_expect_eq(run_code(worker, "no handlers"), 2);

	worker = reeve_worker_create(&(struct reeve_worker_options){.types = "echo,other"});
	reeve_worker_handle(worker, "echo", echo, NULL);
	cr_expect_eq(run_code(worker, "type other has no handler"), 2);

	worker = reeve_worker_create(&(struct reeve_worker_options){.queues = "a,,b"});
	cr_expect_eq(run_code(worker, "queues: name 2 is empty"), 2);

	worker = reeve_worker_create(&(struct reeve_worker_options){.concurrency = 10001});
	cr_expect_eq(run_code(worker, "concurrency is 10001, must be 0 to 10000"), 2);

	worker = reeve_worker_create(&(struct reeve_worker_options){.name = ""});
	cr_expect_eq(run_code(worker, "name is empty"), 2);

	worker = reeve_worker_create(&(struct reeve_worker_options){.managers = "nowhere"});
	reeve_worker_handle(worker, "echo", echo, NULL);
	cr_expect_eq(run_code(worker, "nowhere"), 2);

	worker = reeve_worker_create(&(struct reeve_worker_options){0});
	cr_expect(reeve_worker_handle(worker, "echo", echo, NULL));
	cr_expect_not(reeve_worker_handle(worker, "echo", echo, NULL));
	cr_expect_eq(run_code(worker, "type echo has two handlers"), 2);

	worker = reeve_worker_create(&(struct reeve_worker_options){0});
	cr_expect_not(reeve_worker_handle(worker, "", echo, NULL));
	cr_expect_eq(run_code(worker, "type is empty"), 2);
	reeve_worker_destroy(NULL);
}

Test(worker, a_refused_worker_ends)
{
	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "echo", echo, NULL);
	fixture.script.register_code = STATUS(PERMISSION_DENIED);
	fixture.script.register_failures = 1;
	fixture_go(&fixture);
	cr_expect_eq(fixture_join(&fixture), 4);
	cr_expect_str_eq(reeve_worker_error(fixture.worker), "the manager refuses this worker: scripted");
	fixture_close(&fixture);
}

Test(worker, keeps_trying_to_register)
{
	int64_t id;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "echo", echo, NULL);
	fixture.script.register_code = STATUS(INTERNAL);
	fixture.script.register_failures = 2;
	id = script_add(&fixture.script, "echo", "");
	fixture_run_worker(&fixture); /* before there is a manager */
	usleep(50 * 1000);
	script_start(&fixture.script);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.registers, 3);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(worker, waits_for_a_name_that_another_has)
{
	int64_t id;

	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "echo", echo, NULL);
	fixture.script.register_code = STATUS(ALREADY_EXISTS);
	fixture.script.register_failures = 3;
	id = script_add(&fixture.script, "echo", "");
	fixture_go(&fixture);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.registers, 4);
	cr_expect_eq(fixture.script.previous, 0);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(worker, waiting_for_its_name_it_can_be_stopped)
{
	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "echo", echo, NULL);
	fixture.script.register_code = STATUS(ALREADY_EXISTS);
	fixture.script.register_failures = 1000;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.registers == 2));
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(worker, stops_without_any_manager)
{
	fixture_open(&fixture, (struct reeve_worker_options){0});
	reeve_worker_handle(fixture.worker, "echo", echo, NULL);
	fixture_run_worker(&fixture);
	usleep(50 * 1000);
	cr_expect_eq(fixture_close(&fixture), 0);
}
