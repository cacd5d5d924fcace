/* The runner of jobs, on a clock that the test moves, and with its own table. */
#include "manager/jobs/jobs.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

enum { EVERY, GREEDY, SLOW, ASKED, BACKING_OFF, RETRIED, NUMBER };

static const struct job_spec table[NUMBER] = {
    [EVERY] = {.name = "every", .first_ms = 30, .every_ms = 100},
    [GREEDY] = {.name = "greedy", .every_ms = 1000},
    [SLOW] = {.name = "slow", .every_ms = 1000, .more_ms = 0},
    [ASKED] = {.name = "asked", .first_ms = JOB_NEVER, .pause_ms = 10, .pause_times = 4, .pause_max_ms = 500},
    [BACKING_OFF] = {.name = "backing off", .every_ms = 1000, .retry_ms = 10, .retry_max_ms = 50},
    [RETRIED] = {.name = "retried", .first_ms = JOB_NEVER, .scope = JOB_ANY},
};

static int64_t now_ms, alarm_ms;
static struct jobs *jobs;

/* What a run of a job does, and the results of the runs so far. */
static struct {
	bool nothing_to_do, stays; /* stays: it runs until the test ends it */
	bool more;
	int64_t takes_ms;
	int runs;
	int64_t last_ms, worst_ms; /* when the last run began; the longest time between two runs */
} made[NUMBER];

static int64_t clock_ms(void)
{
	return now_ms;
}

static void timer_set(void *arg, int64_t at_ms)
{
	(void)arg;
	alarm_ms = at_ms < alarm_ms ? at_ms : alarm_ms;
}

static bool run(void *arg)
{
	int job = (int)(intptr_t)arg;
	int64_t since = now_ms - made[job].last_ms;
	made[job].worst_ms = since > made[job].worst_ms ? since : made[job].worst_ms;
	made[job].last_ms = now_ms;
	made[job].runs++;
	now_ms += made[job].takes_ms;
	if (made[job].nothing_to_do)
		return false;
	if (!made[job].stays)
		jobs_done(jobs, job, NULL, made[job].more);
	return true;
}

static void begin_with(int first, int last)
{
	static const struct jobs_host host = {.now_ms = clock_ms, .alarm = timer_set};
	memset(made, 0, sizeof made);
	now_ms = 5000;
	alarm_ms = JOB_NEVER;
	jobs = jobs_create(table, NUMBER, &host);
	for (int job = first; job <= last; job++) {
		made[job].last_ms = now_ms;
		jobs_bind(jobs, job, run, (void *)(intptr_t)job);
	}
}

/* Lets time pass and runs the jobs whenever their timer fires, as the loop does. */
static void pass(int64_t ms)
{
	int64_t until_ms = now_ms + ms;
	while (alarm_ms <= until_ms) {
		now_ms = alarm_ms > now_ms ? alarm_ms : now_ms;
		alarm_ms = JOB_NEVER;
		jobs_run(jobs);
	}
	now_ms = until_ms > now_ms ? until_ms : now_ms;
}

static void fail(int job, const char *message)
{
	struct reeve_error error;
	error_set(&error, STATUS(INTERNAL), "%s", message);
	jobs_done(jobs, job, &error, true);
}

Test(jobs, run_at_their_interval_from_their_first_time_on)
{
	begin_with(EVERY, EVERY);
	pass(29);
	cr_expect_eq(made[EVERY].runs, 0);
	pass(1);
	cr_expect_eq(made[EVERY].runs, 1);
	pass(99);
	cr_expect_eq(made[EVERY].runs, 1);
	pass(1001);
	cr_expect_eq(made[EVERY].runs, 12);
	jobs_every(jobs, EVERY, 10);
	pass(200);
	cr_expect_geq(made[EVERY].runs, 12 + 10);
	jobs_destroy(jobs);
}

/* GREEDY takes no time, so its next run is due in the pass in which it has run; SLOW takes longer than the interval of
 * the others. */
Test(jobs, one_that_always_has_more_to_do_starves_none, .timeout = 20)
{
	begin_with(EVERY, ASKED);
	made[GREEDY].more = made[SLOW].more = true;
	made[SLOW].takes_ms = 150;
	int64_t worst_ms = 0;
	for (int i = 0; i < 100; i++) {
		int64_t asked_ms = now_ms;
		int before = made[ASKED].runs;
		jobs_ask(jobs, ASKED);
		while (made[ASKED].runs == before) {
			now_ms = alarm_ms > now_ms ? alarm_ms : now_ms;
			alarm_ms = JOB_NEVER;
			jobs_run(jobs);
		}
		worst_ms = made[ASKED].last_ms - asked_ms > worst_ms ? made[ASKED].last_ms - asked_ms : worst_ms;
	}
	cr_expect_gt(made[GREEDY].runs, 90);
	cr_expect_leq(worst_ms, 150 + 10, "%d ms", (int)worst_ms);
	cr_expect_leq(made[EVERY].worst_ms, 100 + 150, "%d ms", (int)made[EVERY].worst_ms);
	jobs_destroy(jobs);
}

/* With one pass per timer, a job that is later in the table waits no longer than an earlier one. */
Test(jobs, the_one_that_has_been_due_longest_runs_first)
{
	begin_with(EVERY, SLOW);
	made[EVERY].takes_ms = made[SLOW].takes_ms = 1;
	pass(500);
	jobs_at(jobs, SLOW, now_ms - 5);
	jobs_at(jobs, EVERY, now_ms - 4);
	jobs_run(jobs);
	cr_expect_lt(made[SLOW].last_ms, made[EVERY].last_ms);
	jobs_destroy(jobs);
}

Test(jobs, one_that_is_under_way_is_not_begun_again_but_once_more_after_it)
{
	begin_with(ASKED, ASKED);
	made[ASKED].stays = true;
	jobs_ask(jobs, ASKED);
	pass(1);
	cr_expect_eq(made[ASKED].runs, 1);
	cr_expect(jobs_running(jobs, ASKED));
	jobs_ask(jobs, ASKED);
	jobs_ask(jobs, ASKED);
	jobs_at(jobs, ASKED, now_ms);
	pass(1000);
	cr_expect_eq(made[ASKED].runs, 1);
	made[ASKED].stays = false;
	jobs_done(jobs, ASKED, NULL, false);
	pass(1000);
	cr_expect_eq(made[ASKED].runs, 2);
	jobs_destroy(jobs);
}

Test(jobs, a_request_waits_for_the_pause_after_the_last_run)
{
	begin_with(ASKED, ASKED);
	jobs_ask(jobs, ASKED);
	pass(0);
	cr_expect_eq(made[ASKED].runs, 1, "at once");
	jobs_ask(jobs, ASKED);
	pass(9);
	cr_expect_eq(made[ASKED].runs, 1);
	pass(1);
	cr_expect_eq(made[ASKED].runs, 2, "after the shortest pause");
	made[ASKED].takes_ms = 20;
	pass(10);
	jobs_ask(jobs, ASKED);
	pass(20);
	cr_expect_eq(made[ASKED].runs, 3);
	jobs_ask(jobs, ASKED);
	pass(79);
	cr_expect_eq(made[ASKED].runs, 3);
	made[ASKED].takes_ms = 1000;
	pass(1);
	cr_expect_eq(made[ASKED].runs, 4, "four times as long as it took");
	made[ASKED].takes_ms = 0;
	jobs_ask(jobs, ASKED);
	pass(499);
	cr_expect_eq(made[ASKED].runs, 4);
	pass(1);
	cr_expect_eq(made[ASKED].runs, 5, "but not for ever");
	jobs_at(jobs, ASKED, now_ms + 3);
	pass(3);
	cr_expect_eq(made[ASKED].runs, 6, "what has its time does not wait for it");
	jobs_destroy(jobs);
}

/* The pause depends only on the duration of the search. */
Test(jobs, the_pause_goes_by_the_time_until_the_work_was_found)
{
	begin_with(ASKED, ASKED);
	made[ASKED].stays = true;
	jobs_ask(jobs, ASKED);
	pass(5);
	jobs_found(jobs, ASKED);
	pass(15);
	jobs_ask(jobs, ASKED);
	jobs_done(jobs, ASKED, NULL, false);
	pass(4);
	cr_expect_eq(made[ASKED].runs, 1);
	pass(1);
	cr_expect_eq(made[ASKED].runs, 2);
	jobs_destroy(jobs);
}

Test(jobs, more_to_do_is_done_soon_and_nothing_to_do_is_no_run)
{
	begin_with(GREEDY, GREEDY);
	made[GREEDY].more = true;
	for (int i = 0; i < 5; i++)
		jobs_run(jobs);
	cr_expect_eq(made[GREEDY].runs, 5);
	made[GREEDY].nothing_to_do = true;
	jobs_run(jobs);
	cr_expect_eq(made[GREEDY].runs, 6);
	pass(500);
	cr_expect_eq(made[GREEDY].runs, 6);
	cr_expect_not(jobs_running(jobs, GREEDY));
	pass(500);
	cr_expect_eq(made[GREEDY].runs, 7);
	jobs_destroy(jobs);
}

/* The retry delay grows with each failure, also if runs are requested; one success resets it. */
Test(jobs, a_failure_is_retried_later_and_later)
{
	static const int rests[] = {10, 20, 40, 50, 50};
	begin_with(BACKING_OFF, BACKING_OFF);
	made[BACKING_OFF].stays = true;
	pass(0);
	for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
		fail(BACKING_OFF, "it does not work");
		jobs_ask(jobs, BACKING_OFF);
		jobs_at(jobs, BACKING_OFF, 0);
		pass(rests[i] - 1);
		cr_expect_eq(made[BACKING_OFF].runs, 1 + (int)i);
		pass(1);
		cr_expect_eq(made[BACKING_OFF].runs, 2 + (int)i);
	}
	jobs_done(jobs, BACKING_OFF, NULL, false);
	pass(949);
	cr_expect_eq(made[BACKING_OFF].runs, 6);
	pass(51);
	cr_expect_eq(made[BACKING_OFF].runs, 7);
	fail(BACKING_OFF, "it does not work");
	pass(10);
	cr_expect_eq(made[BACKING_OFF].runs, 8);
	jobs_destroy(jobs);
}

static void expect_log(const char *expected)
{
	char text[2000] = "", *at = text;
	FILE *log = cr_get_redirected_stderr();
	size_t length = fread(text, 1, sizeof text - 1, log);
	text[length] = 0;
	for (const char *line = expected; *line; line = strchr(line, '\n') + 1) {
		char part[200];
		snprintf(part, sizeof part, "%.*s", (int)strcspn(line, "\n"), line);
		at = strstr(at, part);
		cr_assert_not_null(at, "\"%s\" is not in, or not in this order: %s", part, text);
		at += strlen(part);
	}
	cr_expect_null(strstr(at, "retried:"), "more than that: %s", text);
}

static void run_and_fail(const char *message)
{
	jobs_at(jobs, RETRIED, now_ms);
	pass(0);
	fail(RETRIED, message);
}

Test(jobs, a_failure_is_logged_once_until_it_is_another_and_so_is_its_end, .init = cr_redirect_stderr)
{
	begin_with(RETRIED, RETRIED);
	made[RETRIED].stays = true;
	for (int i = 0; i < 100; i++) {
		run_and_fail("the first problem");
		pass(1000);
	}
	run_and_fail("the second problem");
	run_and_fail("the third, too soon");
	made[RETRIED].stays = false;
	jobs_at(jobs, RETRIED, now_ms);
	pass(1000);
	jobs_at(jobs, RETRIED, now_ms);
	pass(1000);
	fflush(stderr);
	expect_log("retried: the first problem; tried again when it is asked for, here or by another manager\n"
	           "retried: the second problem; tried again when it is asked for, here or by another manager\n"
	           "retried: works again, after 102 failures\n");
	jobs_destroy(jobs);
}

/* Another session held the lock. */
Test(jobs, what_was_unavailable_once_is_not_logged, .init = cr_redirect_stderr)
{
	struct reeve_error error;
	begin_with(RETRIED, RETRIED);
	made[RETRIED].stays = true;
	for (int i = 0; i < 3; i++) {
		jobs_at(jobs, RETRIED, now_ms);
		pass(0);
		error_set(&error, STATUS(UNAVAILABLE), i < 2 ? "locked" : "never seen");
		jobs_done(jobs, RETRIED, i == 1 ? NULL : &error, false);
	}
	jobs_at(jobs, RETRIED, now_ms);
	pass(0);
	error_set(&error, STATUS(UNAVAILABLE), "still locked");
	jobs_done(jobs, RETRIED, &error, false);
	fflush(stderr);
	expect_log("retried: still locked;\n");
	jobs_destroy(jobs);
}

Test(jobs, nothing_runs_and_nothing_is_logged_after_the_stop, .init = cr_redirect_stderr)
{
	begin_with(EVERY, RETRIED);
	made[RETRIED].stays = true;
	jobs_at(jobs, RETRIED, now_ms);
	pass(0);
	int runs = made[GREEDY].runs;
	jobs_stop(jobs);
	alarm_ms = JOB_NEVER;
	fail(RETRIED, "the manager stops");
	jobs_ask(jobs, ASKED);
	cr_expect_eq(alarm_ms, JOB_NEVER);
	jobs_run(jobs);
	cr_expect_eq(made[GREEDY].runs, runs);
	cr_expect_eq(made[ASKED].runs, 0);
	expect_log("");
	jobs_destroy(jobs);
}

Test(jobs, the_managers_table_is_complete)
{
	for (int i = 0; i < JOBS; i++) {
		const struct job_spec *spec = &manager_jobs[i];
		cr_assert_not_null(spec->name, "job %d", i);
		cr_expect(spec->every_ms || spec->first_ms == JOB_NEVER, "%s would run once", spec->name);
		cr_expect_leq(spec->retry_ms, spec->retry_max_ms, "%s", spec->name);
	}
}
