/* What a worker's watchdog does when the lease is over and the worker cannot act. */
#include "captured_stderr.h"
#include "process.h"
#include "program.h"
#include "short_lease.h"
#include "tests/tools/counting.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

static const char stubborn[] =
    "[handler t]\ndirectory = @\n"
    "exec = sh -c 'trap \"\" TERM; (setsid sh -c \"echo \\$\\$ > escaped; exec sleep 1000\" &); "
    "sleep 1000 & echo $! > child; echo $$ > leader; wait; wait; sleep 1000'\n";

/* Starts a reeve-worker with a task that ignores SIGTERM, and a child of it that has its own session and has lost its
 * parent. */
static pid_t start_stubborn(pid_t *leader, pid_t *child, pid_t *escaped)
{
	const char *file;
	pid_t worker;

	script_init(&fixture.script);
	short_lease();
	fixture.script.lease_ms = 3 * LEASE_MS; /* so that it does not end while a busy machine delays the beginning */
	file = write_handlers(stubborn);
	worker = start_program(
	    (const char *[]){"--manager", fixture.script.url, "--handlers", file, "--concurrency", "1", NULL}, NULL);
	script_start(&fixture.script);
	script_add(&fixture.script, "t", "");
	*leader = process_read(own("leader"));
	*child = process_read(own("child"));
	*escaped = process_read(own("escaped"));
	return worker;
}

/* Waits until the program has ended with that code, and frees the fixture. */
static void expect_end(pid_t worker, int code)
{
	cr_expect_eq(wait_program(worker), code);
	unlink_all();
	script_free(&fixture.script);
}

static void end_program(pid_t worker)
{
	kill(worker, SIGTERM);
	expect_end(worker, 0);
}

Test(watchdog, kills_the_programs_of_a_frozen_worker)
{
	pid_t worker, leader, child, escaped;
	int64_t end_ms;

	worker = start_stubborn(&leader, &child, &escaped);
	kill(worker, SIGSTOP);
	usleep(50 * 1000);
	end_ms = lease_end_ms();
	cr_expect(process_killed_by(leader, end_ms));
	cr_expect(process_killed_by(child, end_ms));
	cr_expect(process_killed_by(escaped, end_ms));
	cr_expect_gt(clock_monotonic_ms(), end_ms - LEASE_MS / 2, "much too early");
	sleep_until(end_ms + 200);
	/* After SIGCONT it reports LEASE_ENDED, and keeps its incarnation as long as no manager has declared it lost. */
	kill(worker, SIGCONT);
	fixture_await(&fixture, 1);
	cr_expect_eq(fixture.script.tasks[1].outcome, OUTCOME(LEASE_ENDED));
	unlink(own("leader"));
	script_add(&fixture.script, "t", "");
	process_read(own("leader"));
	cr_expect_eq(fixture.script.registers, 1);
	script_command(&fixture.script, COMMAND(CANCEL), 2, 0);
	fixture_await(&fixture, 2);
	end_program(worker);
}

Test(watchdog, kills_the_programs_of_a_worker_that_dies)
{
	pid_t worker, leader, child, escaped;
	int64_t now_ms;

	worker = start_stubborn(&leader, &child, &escaped);
	kill(worker, SIGSTOP);
	kill(worker, SIGKILL);
	now_ms = clock_monotonic_ms();
	cr_expect(process_killed_by(leader, now_ms + LEASE_MS / 2));
	cr_expect(process_killed_by(child, now_ms + LEASE_MS / 2));
	cr_expect(process_killed_by(escaped, now_ms + LEASE_MS / 2));
	expect_end(worker, -1);
}

Test(watchdog, a_frozen_supervisor_is_killed_with_its_programs)
{
	pid_t worker, leader, child, escaped;

	worker = start_stubborn(&leader, &child, &escaped);
	kill(process_parent(leader), SIGSTOP);
	hold_heartbeats(true);
	cr_expect(process_killed_by(leader, lease_end_ms() + 4000));
	cr_expect(process_killed_by(child, lease_end_ms() + 4000));
	hold_heartbeats(false);
	cr_expect(process_killed_by(escaped, clock_monotonic_ms() + 1000));
	fixture_await(&fixture, 1);
	expect_end(worker, 1);
}

/* A watchdog that hangs enforces nothing, so the worker must notice and exit. */
Test(watchdog, a_frozen_supervisor_is_noticed_within_the_lease)
{
	pid_t worker, leader, child, escaped;

	worker = start_stubborn(&leader, &child, &escaped);
	kill(process_parent(leader), SIGSTOP);
	cr_expect(process_gone_by(leader, clock_monotonic_ms() + PROCESS_PATIENCE_MS));
	cr_expect(process_killed_by(escaped, clock_monotonic_ms() + 1000));
	fixture_await(&fixture, 1);
	cr_expect_str_eq(fixture.script.tasks[1].code, "supervisor");
	expect_end(worker, 1);
}

/* A worker whose function counts in shared memory while it runs. */
static struct counting *counting;

static pid_t start_counting(const char *option)
{
	int fd;

	script_init(&fixture.script);
	short_lease();
	fd = open(own("counting"), O_RDWR | O_CREAT, 0600);
	cr_assert_eq(ftruncate(fd, sizeof *counting), 0);
	counting = mmap(NULL, sizeof *counting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	script_start(&fixture.script);
	return start_named("lease-worker",
	    (const char *[]){"--manager", fixture.script.url, "--counting", own("counting"), option, NULL}, NULL);
}

/* Waits for the worker's end. Returns true if SIGKILL was the cause. */
static bool ended_by_kill(pid_t worker)
{
	int status;

	cr_assert_eq(waitpid(worker, &status, 0), worker);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void end_counting(void)
{
	munmap(counting, sizeof *counting);
	unlink_all();
	script_free(&fixture.script);
}

Test(watchdog, kills_the_worker_whose_function_does_not_stop)
{
	int64_t end_ms;
	pid_t worker = start_counting(NULL);
	int count;

	script_add(&fixture.script, "count", "");
	cr_assert(script_wait(&fixture.script, atomic_load(&counting->begun) == 1));
	usleep(300 * 1000); /* one or two renewals */
	hold_heartbeats(true);
	end_ms = lease_end_ms();
	cr_assert(process_killed_by(worker, end_ms));
	cr_expect_gt(clock_monotonic_ms(), end_ms - LEASE_MS / 2, "much too early");
	sleep_until(end_ms);
	count = atomic_load(&counting->count);
	cr_expect(ended_by_kill(worker));
	cr_expect_eq(atomic_load(&counting->count), count);
	end_counting();
}

Test(watchdog, kills_the_frozen_worker_in_which_a_function_runs)
{
	pid_t worker = start_counting(NULL);
	int count;

	atomic_store(&counting->cancellable, true); /* it would stop if it could check */
	script_add(&fixture.script, "count", "");
	cr_assert(script_wait(&fixture.script, atomic_load(&counting->begun) == 1));
	kill(worker, SIGSTOP);
	usleep(50 * 1000);
	count = atomic_load(&counting->count);
	cr_assert(process_killed_by(worker, lease_end_ms()));
	cr_expect(ended_by_kill(worker));
	cr_expect_eq(atomic_load(&counting->count), count);
	end_counting();
}

/* When it continues, its log has the time for which the lease has been over. */
Test(watchdog, leaves_a_frozen_worker_in_which_nothing_runs)
{
	int64_t until_ms;
	pid_t worker;

	stderr_capture();
	worker = start_counting(NULL);
	script_add(&fixture.script, "count", "");
	cr_assert(script_wait(&fixture.script, atomic_load(&counting->begun) == 1));
	atomic_store(&counting->finish, true);
	fixture_await(&fixture, 1);
	usleep(50 * 1000);
	hold_heartbeats(true);
	kill(worker, SIGSTOP);
	cr_expect_not(process_killed_by(worker, lease_end_ms() + 500));
	kill(worker, SIGCONT);
	for (until_ms = clock_monotonic_ms() + PROCESS_PATIENCE_MS; clock_monotonic_ms() < until_ms; usleep(1000))
		if (strstr(stderr_text(), " the lease has been over for "))
			break;
	cr_expect(strstr(stderr_text(), " the lease has been over for "), "%s", stderr_text());
	cr_expect_not(strstr(stderr_text(), " -"), "%s", stderr_text());
	hold_heartbeats(false);
	script_add(&fixture.script, "count", "");
	fixture_await(&fixture, 2);
	cr_expect_eq(fixture.script.tasks[2].outcome, OUTCOME(COMPLETED));
	kill(worker, SIGTERM);
	cr_expect_eq(wait_program(worker), 0);
	end_counting();
}

/* Without a supervisor the worker is not killed, but the function sees the cancellation the first time it checks. */
Test(watchdog, a_worker_without_one_is_asked_to_stop_when_it_is_continued)
{
	pid_t worker = start_counting("--no-supervisor");
	int count;

	atomic_store(&counting->cancellable, true);
	script_add(&fixture.script, "count", "");
	cr_assert(script_wait(&fixture.script, atomic_load(&counting->begun) == 1));
	kill(worker, SIGSTOP);
	usleep(50 * 1000);
	count = atomic_load(&counting->count);
	sleep_until(lease_end_ms() + 100);
	kill(worker, SIGCONT);
	fixture_await(&fixture, 1);
	cr_expect_leq(atomic_load(&counting->count), count + 1);
	kill(worker, SIGTERM);
	cr_expect_eq(wait_program(worker), 0);
	end_counting();
}
