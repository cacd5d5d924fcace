/* What a worker does when its heartbeats are not answered. */
#include "process.h"
#include "short_lease.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic int runs;
static _Atomic bool go_on;
static _Atomic int64_t asked_ms; /* when a function last saw that it is to stop */

static int until_go_on(const struct reeve_attempt *attempt, struct reeve_outcome *outcome)
{
	atomic_fetch_add(&runs, 1);
	for (; !atomic_load(&go_on); usleep(1000)) {
		if (!reeve_attempt_cancelled(attempt))
			continue;
		atomic_store(&asked_ms, clock_monotonic_ms());
		return strcmp(attempt->details, "completes") ? 1 : reeve_outcome_complete(outcome, "all the same");
	}
	return reeve_outcome_complete(outcome, "went on");
}

/* The lease is longer: the watchdog would kill this process if a function got no processor between the request to stop
 * and the end. */
static void open_functions(int concurrency)
{
	fixture_open(
	    &fixture, (struct reeve_worker_options){.concurrency = concurrency, .prefetch = 1, .drain_timeout_ms = 1});
	reeve_worker_handle(fixture.worker, "t", until_go_on, NULL);
	short_lease();
	fixture.script.lease_ms = 3 * LEASE_MS;
}

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
	cr_expect_lt(atomic_load(&asked_ms), end_ms);
	cr_expect_geq(atomic_load(&asked_ms), end_ms - fixture.script.lease_ms / 2, "much too early");
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
	fixture.script.lease_ms = 3 * LEASE_MS; /* SIGTERM comes an eighth of it before SIGKILL */
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
	cr_expect(process_killed_by(child, end_ms));
	for (int i = 0; i < 2; i++) {
		int asked = first_sent(leaders[i], SIGTERM), killed = first_sent(leaders[i], SIGKILL);

		cr_assert_geq(asked, 0);
		cr_expect_lt(asked, killed);
		cr_expect_geq(sent->all[asked].at_ms, end_ms - 3 * LEASE_MS / 2, "much too early");
		cr_expect_lt(sent->all[killed].at_ms, end_ms);
	}
	cr_expect_eq(fixture.script.tasks[polite].outcome, OUTCOME(LEASE_ENDED));
	cr_expect_eq(fixture.script.tasks[stubborn].outcome, OUTCOME(LEASE_ENDED));
	/* The worker has killed the group; the watchdog must find the process that left it. */
	cr_expect(process_killed_by(escaped, end_ms));
	hold_heartbeats(false);
	unlink_all();
	cr_expect_eq(fixture_close(&fixture), 0);
}
