/* How a worker stops. */
#include "fixture.h"
#include "process.h"

#include <signal.h>
#include <stdatomic.h>

static struct fixture fixture;
static _Atomic int running;
static _Atomic bool go_on;

static int wait_for_test(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	bool stubborn = !strcmp(attempt->details, "stubborn");

	atomic_fetch_add(&running, 1);
	while (!atomic_load(&go_on)) {
		if (reeve_attempt_cancelled(attempt) && !stubborn)
			return 1;
		usleep(1000);
	}
	return reeve_outcome_complete(outcome, "done");
}

static void open_stage(struct reeve_worker_options options)
{
	options.concurrency = 1;
	options.prefetch = 2;
	fixture_open(&fixture, options);
	reeve_worker_handle(fixture.worker, "t", wait_for_test, NULL);
	fixture.script.heartbeat_ms = 20;
}

/* Queues three tasks and waits until one runs and two wait. */
static void fill(const char *details)
{
	script_add(&fixture.script, "t", details);
	script_add(&fixture.script, "t", "");
	script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&running) == 1 && fixture.script.beat.held == 3));
}

Test(drain, returns_what_waits_and_finishes_what_runs)
{
	open_stage((struct reeve_worker_options){0});
	fill("");
	fixture.script.paused = true;
	reeve_worker_stop(fixture.worker);
	fixture_await(&fixture, 2);
	fixture_await(&fixture, 3);
	cr_expect_eq(fixture.script.tasks[2].outcome, OUTCOME(RETURNED));
	cr_expect_eq(fixture.script.tasks[3].outcome, OUTCOME(RETURNED));
	cr_expect_eq(fixture.script.tasks[1].state, SCRIPT_ASSIGNED);
	atomic_store(&go_on, true);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.tasks[1].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(fixture.script.leaves, 1);
	fixture_close(&fixture);
}

Test(drain, stops_what_takes_too_long)
{
	int64_t start_ms;

	open_stage((struct reeve_worker_options){.drain_timeout_ms = 200});
	fill("");
	start_ms = clock_monotonic_ms();
	reeve_worker_stop(fixture.worker);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_geq(clock_monotonic_ms() - start_ms, 200);
	cr_expect_eq(fixture.script.tasks[1].outcome, OUTCOME(RETURNED));
	cr_expect_eq(fixture.script.tasks[1].reports, 1);
	fixture_close(&fixture);
}

Test(drain, a_second_stop_hurries)
{
	open_stage((struct reeve_worker_options){.drain_timeout_ms = 3600 * 1000});
	fill("");
	reeve_worker_stop(fixture.worker);
	fixture_await(&fixture, 3);
	usleep(50 * 1000);
	cr_expect_eq(fixture.script.tasks[1].state, SCRIPT_ASSIGNED);
	reeve_worker_stop(fixture.worker);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.tasks[1].outcome, OUTCOME(RETURNED));
	fixture_close(&fixture);
}

Test(drain, signals_stop_it)
{
	open_stage((struct reeve_worker_options){0});
	reeve_worker_stop_on_signals(fixture.worker);
	fill("");
	kill(getpid(), SIGTERM);
	fixture_await(&fixture, 3);
	kill(getpid(), SIGINT);
	cr_expect_eq(fixture_join(&fixture), 0);
	fixture_close(&fixture);
}

static volatile sig_atomic_t got;

static void note_signal(int number)
{
	got = number;
}

/* The last of two workers has the signals. The former actions are one of the program's own, and the default. */
Test(drain, the_end_of_a_worker_gives_the_signals_back)
{
	struct reeve_worker_options options = {.managers = "tcp://127.0.0.1:1", .no_supervisor = true};
	struct reeve_worker *first, *last;
	struct sigaction now;

	signal(SIGTERM, note_signal);
	signal(SIGINT, SIG_DFL);
	first = reeve_worker_create(&options);
	last = reeve_worker_create(&options);
	reeve_worker_stop_on_signals(first);
	reeve_worker_stop_on_signals(last);
	reeve_worker_destroy(first);
	raise(SIGTERM);
	cr_expect_eq(got, 0);
	reeve_worker_destroy(last);
	raise(SIGTERM);
	cr_expect_eq(got, SIGTERM);
	sigaction(SIGINT, NULL, &now);
	cr_expect_eq(now.sa_handler, SIG_DFL);
}

Test(drain, a_function_that_never_ends_is_given_up)
{
	open_stage((struct reeve_worker_options){.drain_timeout_ms = 1, .kill_grace_ms = 1});
	fill("stubborn");
	cr_expect_eq((reeve_worker_stop(fixture.worker), fixture_join(&fixture)), 1);
	cr_expect_str_eq(reeve_worker_error(fixture.worker), "1 tasks do not end although they were asked to");
	/* No result of its attempt may be reported, and the worker does not leave, because it still holds a task. */
	cr_expect_eq(fixture.script.tasks[1].reports, 0);
	cr_expect_eq(fixture.script.leaves, 0);
	fixture_close(&fixture);
	atomic_store(&go_on, true);
}

Test(drain, results_that_no_manager_accepts_are_logged)
{
	open_stage((struct reeve_worker_options){0});
	fill("");
	script_stop(&fixture.script);
	for (int i = 0; i < 3; i++)
		reeve_worker_stop(fixture.worker);
	cr_expect_eq(fixture_join(&fixture), 3);
	cr_expect(strstr(reeve_worker_error(fixture.worker), "results could not be reported"));
	fixture_close(&fixture);
}

Test(drain, what_a_parked_fetch_was_just_given_goes_back)
{
	int64_t id;

	/* The manager assigns a task to the parked Fetch, and its answer is lost; the worker is stopped at that moment. */
	open_stage((struct reeve_worker_options){0});
	fixture.script.hold_fetches = true;
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.fetches == 1));
	script_lock(&fixture.script);
	fixture.script.n_tasks = 1;
	fixture.script.tasks[1] = (struct script_task){
	    .type = "t", .queue = "q", .state = SCRIPT_ASSIGNED, .incarnation = 1, .fetch_id = 1, .timeout_ms = 1000};
	fixture.script.tasks[1].details = strdup("");
	fixture.script.hold_fetches = false;
	script_unlock(&fixture.script);
	id = 1;
	reeve_worker_stop(fixture.worker);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(RETURNED));
	cr_expect_eq(atomic_load(&running), 0);
	fixture_close(&fixture);
}

Test(drain, a_stop_before_the_run_ends_it_at_once)
{
	open_stage((struct reeve_worker_options){0});
	script_start(&fixture.script);
	reeve_worker_stop(fixture.worker);
	fixture_run_worker(&fixture);
	cr_expect_eq(fixture_join(&fixture), 0);
	cr_expect_eq(fixture.script.registers, 0);
	fixture_close(&fixture);
}

/* The program may read the worker's error then. */
Test(drain, a_worker_that_has_ended_needs_no_supervisor)
{
	pid_t supervisor;
	char path[64];

	open_stage((struct reeve_worker_options){0});
	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	supervisor = process_read(path);
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.fetches == 1));
	reeve_worker_stop(fixture.worker);
	cr_expect_eq(fixture_join(&fixture), 0);
	kill(supervisor, SIGKILL);
	cr_assert(process_gone_by(supervisor, clock_monotonic_ms() + PROCESS_PATIENCE_MS));
	usleep(200 * 1000);
	cr_expect_null(reeve_worker_error(fixture.worker), "%s", reeve_worker_error(fixture.worker));
	fixture_close(&fixture);
}
