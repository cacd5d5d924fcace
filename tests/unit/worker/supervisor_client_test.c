/* The supervisor and its client without a worker: what they start, and when. */
#include "worker/supervisor_client.h"

#include "process.h"
#include "worker/spawn_message.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static struct supervisor_client *client;
static int event_fd, nothing;

static void died(void *arg)
{
	*(bool *)arg = true;
}

static void open_client(bool *dead)
{
	struct reeve_error error;

	client = supervisor_client_create(&error);
	cr_assert(client);
	cr_assert(supervisor_client_watch(client, died, dead, &error));
	event_fd = eventfd(0, EFD_CLOEXEC);
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
}

static int64_t latest_ms; /* spawn_spec.latest_ms of the next process; 0: no limit */

static void start(struct spawned *spawned, char *script)
{
	static char shell[] = "sh", flag[] = "-c";
	char *arguments[] = {shell, flag, script, NULL};
	const char *environment[] = {NULL};
	struct spawn_spec spec = {.path = "/bin/sh",
	    .arguments = arguments,
	    .environment = environment,
	    .fds = {nothing, nothing, nothing, nothing},
	    .event_fd = event_fd,
	    .latest_ms = latest_ms};
	struct reeve_error error;

	cr_assert(supervisor_client_start(client, &spec, spawned, &error), "%s", error.message);
}

static struct spawn_end end_of(const struct spawned *spawned)
{
	struct pollfd ready = {.fd = event_fd, .events = POLLIN};
	struct spawn_end end = {0};
	uint64_t count;

	while (!supervisor_client_ended(client, spawned, &end)) {
		cr_assert_eq(poll(&ready, 1, PROCESS_PATIENCE_MS), 1, "it does not end");
		cr_assert_eq(read(event_fd, &count, sizeof count), (ssize_t)sizeof count);
	}
	return end;
}

static struct spawn_end run(char *script)
{
	struct spawned spawned;

	start(&spawned, script);
	return end_of(&spawned);
}

/* Sets a lease that ends after this time and returns its end. */
static int64_t lease(int64_t length_ms)
{
	int64_t until_ms = clock_monotonic_ms() + length_ms;

	lease_set(supervisor_client_lease(client), until_ms, length_ms > 0 ? length_ms : 1000);
	supervisor_client_renewed(client);
	return until_ms;
}

Test(supervisor_client, starts_nothing_without_a_lease)
{
	char script[] = "exit 3";
	bool dead = false;
	struct spawn_end end;

	open_client(&dead);
	cr_expect(run(script).lease, "before any lease was given");
	lease(60 * 1000);
	end = run(script);
	cr_expect_not(end.lease);
	cr_expect_eq(WEXITSTATUS(end.status), 3);
	lease(-1);
	end = run(script);
	cr_expect(end.lease, "after its end");
	cr_expect_eq(end.start_error, 0);
	lease(60 * 1000);
	cr_expect_not(run(script).lease, "with a new one");
	supervisor_client_destroy(client);
	cr_expect_not(dead);
}

/* Returns the last time that processes have written to this file from /proc/uptime, as clock_monotonic_ms would. */
static int64_t last_breath(const char *path)
{
	struct timespec up;
	double seconds, last = 0;
	FILE *in = fopen(path, "r");

	cr_assert(in);
	while (fscanf(in, "%lf", &seconds) == 1)
		last = seconds > last ? seconds : last;
	fclose(in);
	cr_assert_gt(last, 0);
	clock_gettime(CLOCK_BOOTTIME, &up);
	return clock_monotonic_ms() - ((int64_t)up.tv_sec * 1000 + up.tv_nsec / 1000000 - (int64_t)(last * 1000));
}

Test(supervisor_client, kills_what_runs_when_the_lease_is_over_and_goes_on_with_a_new_one)
{
	char script[256], after[] = "true", breath[] = "/tmp/reeve-breath.XXXXXX";
	struct spawned one, other;
	struct spawn_end end;
	bool dead = false;
	int64_t until_ms;

	close(mkstemp(breath));
	snprintf(script, sizeof script,
	    "trap '' TERM; sleep 1000 & setsid sleep 1000 & "
	    "while :; do read -r up idle </proc/uptime; echo $up >>%s; sleep 0.02; done",
	    breath);
	open_client(&dead);
	lease(3000);
	start(&one, script);
	start(&other, script);
	usleep(200 * 1000);
	until_ms = lease(4500); /* this renewal moves the end of the lease */
	end = end_of(&one);
	cr_expect(end.lease);
	cr_expect(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL);
	cr_expect(end_of(&other).lease);
	cr_expect_geq(clock_monotonic_ms(), until_ms - 200);
	cr_expect_lt(last_breath(breath), until_ms);
	unlink(breath);
	lease(60 * 1000);
	cr_expect_not(run(after).lease);
	supervisor_client_destroy(client);
}

/* The supervisor reads the lease and the number of functions one after the other. It must not kill this process, in
 * which the function runs. */
Test(supervisor_client, a_function_that_begins_with_a_new_lease_is_left_alone)
{
	enum { TIMES = 3000 };
	bool dead = false;
	struct lease *shared;

	open_client(&dead);
	shared = supervisor_client_lease(client);
	for (int i = 0; i < TIMES; i++) {
		int64_t until_us;

		lease(-1);
		for (until_us = clock_monotonic_us() + i % 40; clock_monotonic_us() < until_us;)
			;
		lease_set(shared, clock_monotonic_ms() + 60 * 1000, 60 * 1000);
		atomic_fetch_add(&shared->functions, 1);
		supervisor_client_renewed(client);
		while (!dead && atomic_load(&shared->seen_ms) != atomic_load(&shared->watchdog_ms))
			;
		atomic_fetch_sub(&shared->functions, 1);
	}
	supervisor_client_destroy(client);
	cr_expect_not(dead);
}

/* The lease has been renewed and is valid, but the attempt's time is over, and another worker may have the task. */
Test(supervisor_client, nothing_is_started_when_it_is_too_late_for_it)
{
	char script[] = "true";
	struct spawn_end end;
	bool dead = false;

	open_client(&dead);
	lease(60 * 1000);
	latest_ms = clock_monotonic_ms() + 20 * 1000;
	end = run(script);
	cr_expect_not(end.lease);
	cr_expect_eq(end.status, 0);
	latest_ms = clock_monotonic_ms() - 1;
	cr_expect(run(script).lease);
	supervisor_client_destroy(client);
}

Test(supervisor_client, what_ended_by_itself_ended_by_itself)
{
	char script[] = "exit 4";
	struct spawned spawned;
	struct spawn_end end;
	bool dead = false;

	open_client(&dead);
	lease(2000);
	start(&spawned, script);
	usleep(2100 * 1000);
	end = end_of(&spawned);
	cr_expect_not(end.lease);
	cr_expect_eq(WEXITSTATUS(end.status), 4);
	supervisor_client_destroy(client);
}

/* So many starts wait for the supervisor that the socket takes no message when a process is retired. */
Test(supervisor_client, a_retired_process_is_killed_although_the_supervisor_was_busy)
{
	char script[] = "sleep 1000";
	struct spawned spawned;
	bool dead = false;
	pid_t supervisor, child;
	char path[64];

	open_client(&dead);
	lease(60 * 1000);
	start(&spawned, script);
	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	supervisor = process_read(path);
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", supervisor, supervisor);
	child = process_read(path);
	kill(supervisor, SIGSTOP);
	for (int i = 0; i < 2000; i++)
		lease(60 * 1000);
	supervisor_client_retire(client, &spawned, 0);
	kill(supervisor, SIGCONT);
	for (int64_t until_ms = clock_monotonic_ms() + PROCESS_PATIENCE_MS;
	     !process_gone_by(child, clock_monotonic_ms() + 10) && clock_monotonic_ms() < until_ms;)
		lease(60 * 1000); /* the next heartbeats */
	cr_expect(process_gone(child));
	cr_expect_not(dead);
	supervisor_client_destroy(client);
}

/* It reads the lease for every event, also between the renewal and the message about it. */
Test(supervisor_client, a_supervisor_that_reads_a_renewal_before_the_message_is_not_hung)
{
	char script[] = "exit 3";
	bool dead = false;
	struct spawn_end end;
	struct lease *shared;

	open_client(&dead);
	shared = supervisor_client_lease(client);
	lease_set(shared, clock_monotonic_ms() + 60 * 1000, 60 * 1000);
	run(script);
	cr_assert_eq(atomic_load(&shared->seen_ms), atomic_load(&shared->watchdog_ms));
	supervisor_client_renewed(client);
	end = run(script);
	cr_expect_not(end.lost);
	cr_expect_eq(WEXITSTATUS(end.status), 3);
	supervisor_client_destroy(client);
	cr_expect_not(dead);
}

Test(supervisor_client, can_be_destroyed_with_a_frozen_supervisor)
{
	char script[] = "true";
	struct spawned spawned;
	bool dead = false;
	pid_t supervisor;
	char path[64];

	open_client(&dead);
	lease(60 * 1000);
	start(&spawned, script);
	end_of(&spawned);
	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	supervisor = process_read(path);
	kill(supervisor, SIGSTOP);
	supervisor_client_destroy(client);
	cr_expect(process_gone(supervisor));
	cr_expect_not(dead);
}

Test(supervisor_client, kills_what_a_frozen_supervisor_started)
{
	char script[] = "kill -STOP $PPID; sleep 1000";
	struct spawned spawned;
	bool dead = false;

	open_client(&dead);
	lease(60 * 1000);
	start(&spawned, script);
	usleep(200 * 1000);
	supervisor_client_kill(client);
	cr_expect(end_of(&spawned).lost);
	supervisor_client_destroy(client);
	cr_expect(dead);
}

/* Reads the children of a process, in the order in which they were started, once it has `count`. */
static void read_children(pid_t parent, pid_t *children, int count)
{
	int64_t until_ms = clock_monotonic_ms() + PROCESS_PATIENCE_MS;
	int found = 0;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
	while (found < count && clock_monotonic_ms() < until_ms) {
		FILE *in = fopen(path, "r");

		for (found = 0; found < count && in && fscanf(in, "%d", &children[found]) == 1;)
			found++;
		if (in)
			fclose(in);
		usleep(1000);
	}
	cr_assert_eq(found, count);
}

/* When the lease ends, the first of many programs still runs, and all others have just ended. Only this test reads the
 * supervisor's reports. */
Test(supervisor_client, many_ends_do_not_delay_the_end_of_the_lease)
{
	enum { COUNT = 100 };
	char script[] = "exec sleep 1000";
	pid_t supervisor, children[COUNT];
	int before = 0, socket = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct spawned spawned[COUNT];
	struct reeve_error error;
	struct spawn_exit message;
	siginfo_t stopped;
	char path[64];

	close(socket); /* the client gets it next */
	client = supervisor_client_create(&error);
	cr_assert(client);
	event_fd = -1;
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	lease(60 * 1000);
	for (int i = 0; i < COUNT; i++)
		start(&spawned[i], script);
	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	supervisor = process_read(path);
	read_children(supervisor, children, COUNT);
	kill(supervisor, SIGSTOP);
	cr_assert_eq(waitid(P_PID, (id_t)supervisor, &stopped, WSTOPPED), 0);
	for (int i = 1; i < COUNT; i++) {
		kill(children[i], SIGKILL);
		cr_assert(process_gone_by(children[i], clock_monotonic_ms() + PROCESS_PATIENCE_MS));
	}
	lease(-1);
	kill(supervisor, SIGCONT);
	for (;; before++) {
		cr_assert_eq(recv(socket, &message, sizeof message, 0), (ssize_t)sizeof message);
		if (message.id == spawned[0].id)
			break;
		cr_expect_not(message.lease);
	}
	cr_expect(message.lease);
	cr_expect_lt(before, COUNT / 2);
	kill(supervisor, SIGKILL);
}
