/* Child processes: how they start, and how they end. */
#include "manager/embedded/child.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct child_spec shell(const char *const *argv)
{
	return (struct child_spec){.argv = argv, .input = -1, .output = -1, .death_signal = SIGKILL};
}

Test(child, shows_how_it_ended)
{
	const char *argv[] = {"/bin/sh", "-c", "exit 3", NULL};
	struct child_spec spec = shell(argv);
	struct reeve_error error = {0};
	char ending[64];
	int status;

	pid_t pid = child_start(&spec, &error);
	cr_assert(gt(int, pid, 0), "%s", error.message);
	cr_assert(child_wait(pid, -1, -1, &status));
	cr_assert(eq(str, (char *)child_ending(status, ending, sizeof ending), "exited with code 3"));

	const char *killed[] = {"/bin/sh", "-c", "kill -9 $$", NULL};
	spec = shell(killed);
	pid = child_start(&spec, &error);
	cr_assert(child_wait(pid, -1, -1, &status));
	cr_assert(eq(str, (char *)child_ending(status, ending, sizeof ending), "was killed by signal 9 (Killed)"));
}

Test(child, says_which_program_could_not_be_started)
{
	const char *argv[] = {"/nowhere/program", NULL};
	struct child_spec spec = shell(argv);
	struct reeve_error error = {0};

	cr_assert(eq(int, child_start(&spec, &error), -1));
	cr_assert(eq(str, error.message, "cannot start /nowhere/program: No such file or directory"));
	cr_assert(eq(int, waitpid(-1, NULL, WNOHANG), -1), "the child that failed was not waited for");
}

Test(child, stops_waiting_at_its_timeout_or_when_interrupted)
{
	const char *argv[] = {"/bin/sleep", "1000", NULL};
	struct child_spec spec = shell(argv);
	int status, ends[2];

	pid_t pid = child_start(&spec, NULL);
	cr_assert(not(child_wait(pid, 0, -1, &status)));
	cr_assert(not(child_wait(pid, 50, -1, &status)));
	cr_assert(eq(int, pipe(ends), 0));
	cr_assert(eq(int, (int)write(ends[1], "x", 1), 1));
	cr_assert(not(child_wait(pid, -1, ends[0], &status)));
	kill(pid, SIGKILL);
	cr_assert(child_wait(pid, -1, -1, &status));
	close(ends[0]);
	close(ends[1]);
}

Test(child, starts_with_nothing_blocked_and_in_its_own_session)
{
	/* Fields 1 and 6 of stat are the process and its session. The mask of blocked signals is in status. */
	const char *argv[] = {"/bin/sh", "-c",
	    "read pid name state parent group session rest </proc/self/stat;"
	    "[ $session = $$ ] && grep -q '^SigBlk:\t0000000000000000$' /proc/self/status",
	    NULL};
	struct child_spec spec = shell(argv);
	sigset_t some;
	int status;

	sigemptyset(&some);
	sigaddset(&some, SIGTERM);
	sigaddset(&some, SIGCHLD);
	sigprocmask(SIG_BLOCK, &some, NULL);
	pid_t pid = child_start(&spec, NULL);
	cr_assert(child_wait(pid, -1, -1, &status));
	cr_assert(eq(int, status, 0));
}

Test(child, ends_with_its_parent)
{
	const char *argv[] = {"/bin/sleep", "1000", NULL};
	struct child_spec spec = shell(argv);
	int ends[2];
	pid_t pid;

	/* The pipe's write end is the standard output of the sleeping child: it closes when that child ends. */
	cr_assert(eq(int, pipe(ends), 0));
	spec.output = ends[1];
	pid_t parent = fork();
	if (parent == 0) {
		close(ends[0]);
		pid = child_start(&spec, NULL);
		if (write(ends[1], &pid, sizeof pid) != sizeof pid)
			_exit(1);
		pause();
	}
	close(ends[1]);
	cr_assert(eq(int, (int)read(ends[0], &pid, sizeof pid), (int)sizeof pid));
	cr_assert(gt(int, pid, 0));
	struct pollfd closed = {.fd = ends[0], .events = POLLIN};
	cr_assert(eq(int, poll(&closed, 1, 50), 0), "the child has ended already");
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	cr_assert(eq(int, poll(&closed, 1, 10000), 1), "the child outlived its parent");
	close(ends[0]);
}
