/* What a worker does when its heartbeats are not answered, and what its watchdog does when the worker cannot act. */
#include "captured_stderr.h"
#include "fixture.h"
#include "process.h"
#include "program.h"
#include "tests/tools/counting.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LEASE_MS = 1000, HEARTBEAT_MS = 150 };

static struct fixture fixture;
static _Atomic int runs;
static _Atomic bool go_on;

static void short_lease(void)
{
	fixture.script.lease_ms = LEASE_MS;
	fixture.script.heartbeat_ms = HEARTBEAT_MS;
}

static const char *own(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", fixture.script.directory, name);
	return path;
}

/* Writes a handlers file; @ is replaced by the script's directory. */
static const char *write_handlers(const char *handlers)
{
	FILE *out = fopen(own("handlers.ini"), "w");

	for (; *handlers; handlers++)
		if (*handlers == '@')
			fputs(fixture.script.directory, out);
		else
			fputc(*handlers, out);
	fclose(out);
	return own("handlers.ini");
}

static void unlink_all(void)
{
	DIR *directory = opendir(fixture.script.directory);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "manager"))
			unlink(own(entry->d_name));
	closedir(directory);
}

static void hold_heartbeats(bool hold)
{
	script_lock(&fixture.script);
	fixture.script.hold_heartbeats = hold;
	script_unlock(&fixture.script);
}

/* Returns the latest time at which the worker's current lease ends. */
static int64_t lease_end_ms(void)
{
	int64_t end_ms;

	script_lock(&fixture.script);
	end_ms = fixture.script.renewed_ms + LEASE_MS;
	script_unlock(&fixture.script);
	return end_ms;
}

static void sleep_until(int64_t until_ms)
{
	while (clock_monotonic_ms() < until_ms)
		usleep(1000);
}

static int until_go_on(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	atomic_fetch_add(&runs, 1);
	while (!atomic_load(&go_on))
		if (reeve_attempt_cancelled(attempt))
			return strcmp(attempt->details, "completes") ? 1 : reeve_outcome_complete(outcome, "all the same");
		else
			usleep(1000);
	return reeve_outcome_complete(outcome, "went on");
}

static void open_functions(int concurrency)
{
	fixture_open(
	    &fixture, (struct reeve_worker_options){.concurrency = concurrency, .prefetch = 1, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "t", until_go_on, NULL);
	short_lease();
}

/* ---- The worker itself ---- */

Test(lease, functions_are_asked_to_stop_before_its_end_and_things_go_on_with_a_new_one)
{
	int64_t id, other, waiting, last, end_ms;

	open_functions(2);
	id = script_add(&fixture.script, "t", "");
	other = script_add(&fixture.script, "t", "completes");
	waiting = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&runs) == 2 && fixture.script.beat.held == 3));
	hold_heartbeats(true);
	end_ms = lease_end_ms();
	fixture_await(&fixture, id);
	fixture_await(&fixture, other);
	cr_expect_lt(fixture.script.tasks[id].reported_ms, end_ms);
	cr_expect_geq(fixture.script.tasks[id].reported_ms, end_ms - LEASE_MS / 2, "much too early");
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(LEASE_ENDED));
	cr_expect_str_eq(fixture.script.tasks[id].code, "lease");
	cr_expect_eq(fixture.script.tasks[other].outcome, OUTCOME(COMPLETED));
	/* The waiting task is not started, nor is a task that now arrives in the answer to a parked Fetch. */
	last = script_add(&fixture.script, "t", "");
	sleep_until(end_ms + 300);
	cr_expect_eq(atomic_load(&runs), 2);
	cr_expect_eq(fixture.script.tasks[waiting].state, SCRIPT_ASSIGNED);
	/* Heartbeats continue; the next answered one is a lease for the same incarnation. */
	atomic_store(&go_on, true);
	hold_heartbeats(false);
	fixture_await(&fixture, waiting);
	fixture_await(&fixture, last);
	cr_expect_eq(fixture.script.tasks[waiting].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(fixture.script.tasks[last].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(fixture.script.registers, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(lease, tasks_of_a_fetch_that_ended_wait_for_a_new_one)
{
	int64_t id;

	open_functions(1);
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, fixture.script.parked_now == 1 && fixture.script.beat.seq >= 1));
	hold_heartbeats(true);
	sleep_until(lease_end_ms() + 100);
	id = script_add(&fixture.script, "t", "");
	cr_assert(script_wait(&fixture.script, fixture.script.tasks[id].state == SCRIPT_ASSIGNED));
	/* The worker holds it: the unanswered heartbeats name it. */
	cr_assert(script_wait(&fixture.script, fixture.script.beat.first_held == id));
	cr_expect_eq(atomic_load(&runs), 0);
	atomic_store(&go_on, true);
	hold_heartbeats(false);
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].outcome, OUTCOME(COMPLETED));
	cr_expect_eq(fixture.script.tasks[id].deliveries, 1);
	cr_expect_eq(fixture_close(&fixture), 0);
}

Test(lease, a_worker_that_was_lost_registers_again)
{
	int64_t id;

	open_functions(1);
	id = script_add(&fixture.script, "t", "");
	fixture_go(&fixture);
	cr_assert(script_wait(&fixture.script, atomic_load(&runs) == 1));
	hold_heartbeats(true);
	fixture_await(&fixture, id);
	sleep_until(lease_end_ms() + 100);
	script_lock(&fixture.script);
	fixture.script.lost = true;
	fixture.script.hold_heartbeats = false;
	script_unlock(&fixture.script);
	cr_assert(script_wait(&fixture.script, fixture.script.registers == 2));
	cr_expect_eq(fixture.script.previous, 1);
	atomic_store(&go_on, true);
	id = script_add(&fixture.script, "t", "");
	fixture_await(&fixture, id);
	cr_expect_eq(fixture.script.tasks[id].incarnation, 2);
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* The program is linked with --wrap=kill. The supervisor sends the signals in a process of its own, forked by
 * fixture_open: what is sent is noted in memory that both share. So it does not matter how soon a handler gets the
 * processor after its SIGTERM. */
static struct sent {
	_Atomic int count;
	struct {
		pid_t pid;
		int signal;
		int64_t at_ms;
	} all[100];
} * sent;

int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);

int __wrap_kill(pid_t pid, int signal)
{
	int i = sent ? atomic_fetch_add(&sent->count, 1) : INT_MAX;

	if (i < (int)(sizeof sent->all / sizeof *sent->all)) {
		sent->all[i].pid = pid;
		sent->all[i].signal = signal;
		sent->all[i].at_ms = clock_monotonic_ms();
	}
	return __real_kill(pid, signal);
}

/* Returns the position in sent->all of the first such signal to a group, or -1. */
static int first_sent(pid_t group, int signal)
{
	for (int i = 0; i < (int)(sizeof sent->all / sizeof *sent->all); i++)
		if (sent->all[i].pid == -group && sent->all[i].signal == signal)
			return i;
	return -1;
}

Test(lease, programs_are_asked_to_end_then_killed_before_its_end)
{
	int64_t polite, stubborn, end_ms;
	pid_t leaders[2], child, escaped;

	sent = mmap(NULL, sizeof *sent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(sent, MAP_FAILED);
	fixture_open(&fixture, (struct reeve_worker_options){.concurrency = 2, .kill_grace_ms = 3600 * 1000});
	short_lease();
	cr_assert(reeve_worker_handle_file(fixture.worker,
	    write_handlers("[handler polite]\ndirectory = @\n"
	                   "exec = sh -c 'trap \"exit 0\" TERM; echo $$ > polite; sleep 1000 & wait'\n"
	                   "[handler stubborn]\ndirectory = @\n"
	                   "exec = sh -c 'trap \"\" TERM; setsid sh -c \"echo \\$\\$ > escaped; exec sleep 1000\" & "
	                   "sleep 1000 & echo $! > child; echo $$ > leader; wait; wait; sleep 1000'\n")));
	polite = script_add(&fixture.script, "polite", "");
	stubborn = script_add(&fixture.script, "stubborn", "");
	fixture_go(&fixture);
	leaders[0] = process_read(own("polite"));
	leaders[1] = process_read(own("leader"));
	child = process_read(own("child"));
	escaped = process_read(own("escaped"));
	hold_heartbeats(true);
	end_ms = lease_end_ms();
	fixture_await(&fixture, polite);
	fixture_await(&fixture, stubborn);
	cr_expect(process_gone(leaders[1]));
	cr_expect(process_gone_by(child, end_ms));
	for (int i = 0; i < 2; i++) {
		int asked = first_sent(leaders[i], SIGTERM), killed = first_sent(leaders[i], SIGKILL);

		cr_assert_geq(asked, 0);
		cr_expect_lt(asked, killed);
		cr_expect_geq(sent->all[asked].at_ms, end_ms - LEASE_MS / 2, "much too early");
		cr_expect_lt(sent->all[killed].at_ms, end_ms);
	}
	cr_expect_eq(fixture.script.tasks[polite].outcome, OUTCOME(LEASE_ENDED));
	cr_expect_eq(fixture.script.tasks[stubborn].outcome, OUTCOME(LEASE_ENDED));
	/* The worker has killed the group; the watchdog must find the process that left it. */
	cr_expect(process_gone_by(escaped, end_ms));
	hold_heartbeats(false);
	unlink_all();
	cr_expect_eq(fixture_close(&fixture), 0);
}

/* ---- The watchdog ---- */

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

static void end_program(pid_t worker)
{
	kill(worker, SIGTERM);
	cr_expect_eq(wait_program(worker), 0);
	unlink_all();
	script_free(&fixture.script);
}

Test(watchdog, kills_the_programs_of_a_frozen_worker)
{
	pid_t worker, leader, child, escaped;
	int64_t end_ms;

	worker = start_stubborn(&leader, &child, &escaped);
	kill(worker, SIGSTOP);
	usleep(50 * 1000);
	end_ms = lease_end_ms();
	cr_expect(process_gone_by(leader, end_ms));
	cr_expect(process_gone_by(child, end_ms));
	cr_expect(process_gone_by(escaped, end_ms));
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
	cr_expect(process_gone_by(leader, now_ms + LEASE_MS / 2));
	cr_expect(process_gone_by(child, now_ms + LEASE_MS / 2));
	cr_expect(process_gone_by(escaped, now_ms + LEASE_MS / 2));
	cr_expect_eq(wait_program(worker), -1);
	unlink_all();
	script_free(&fixture.script);
}

Test(watchdog, a_frozen_supervisor_is_killed_with_its_programs)
{
	pid_t worker, leader, child, escaped;

	worker = start_stubborn(&leader, &child, &escaped);
	kill(process_parent(leader), SIGSTOP);
	hold_heartbeats(true);
	cr_expect(process_gone_by(leader, lease_end_ms() + 4000));
	cr_expect(process_gone_by(child, lease_end_ms() + 4000));
	hold_heartbeats(false);
	cr_expect(process_gone_by(escaped, clock_monotonic_ms() + 1000));
	cr_expect_eq(wait_program(worker), 1);
	fixture_await(&fixture, 1);
	unlink_all();
	script_free(&fixture.script);
}

/* A watchdog that hangs enforces nothing, so the worker must notice and exit. */
Test(watchdog, a_frozen_supervisor_is_noticed_within_the_lease)
{
	pid_t worker, leader, child, escaped;

	worker = start_stubborn(&leader, &child, &escaped);
	kill(process_parent(leader), SIGSTOP);
	cr_expect(process_gone_by(leader, clock_monotonic_ms() + PROCESS_PATIENCE_MS));
	cr_expect(process_gone_by(escaped, clock_monotonic_ms() + 1000));
	cr_expect_eq(wait_program(worker), 1);
	fixture_await(&fixture, 1);
	cr_expect_str_eq(fixture.script.tasks[1].code, "supervisor");
	unlink_all();
	script_free(&fixture.script);
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

/* Returns true if SIGKILL ends the worker by then. */
static bool killed_by(pid_t worker, int64_t until_ms)
{
	int status;

	while (waitpid(worker, &status, WNOHANG) == 0) {
		if (clock_monotonic_ms() >= until_ms)
			return false;
		usleep(1000);
	}
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

	script_add(&fixture.script, "count", "");
	cr_assert(script_wait(&fixture.script, atomic_load(&counting->begun) == 1));
	usleep(300 * 1000); /* one or two renewals */
	hold_heartbeats(true);
	end_ms = lease_end_ms();
	cr_expect(killed_by(worker, end_ms));
	cr_expect_gt(clock_monotonic_ms(), end_ms - LEASE_MS / 2, "much too early");
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
	cr_expect(killed_by(worker, lease_end_ms()));
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
	cr_expect_not(killed_by(worker, lease_end_ms() + 500));
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
