/*
 * Starts child processes and waits for them. Between fork and exec the child only makes system calls, so that a parent
 * with several threads can start children, too. If a call fails, the child sends errno through a pipe that exec would
 * close.
 */
#include "manager/embedded/child.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes `target` a duplicate of `fd`, or of /dev/null if `fd` is −1. */
static bool redirect(int fd, int target)
{
	if (fd < 0)
		fd = open("/dev/null", O_RDWR);
	if (fd < 0)
		return false;
	return fd == target || dup2(fd, target) == target;
}

static void reset_signals(void)
{
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool become(const struct child_spec *spec)
{
	if (!spec->change_user)
		return true;
	return setgroups(1, &spec->gid) == 0 && setresgid(spec->gid, spec->gid, spec->gid) == 0 &&
	    setresuid(spec->uid, spec->uid, spec->uid) == 0;
}

/* Prepares the child and executes the program. Returns only after a failure, with errno. */
static void turn_into(const struct child_spec *spec, pid_t parent)
{
	reset_signals();
	setsid();
	if (!become(spec))
		return;
	/* The change of user clears the death signal, so set it afterwards. If the parent has ended before, getppid()
	 * differs. */
	prctl(PR_SET_PDEATHSIG, spec->death_signal);
	if (getppid() != parent)
		_exit(127);
	if (spec->folder && chdir(spec->folder) != 0)
		return;
	if (!redirect(spec->input, STDIN_FILENO))
		return;
	if (spec->output >= 0 && (!redirect(spec->output, STDOUT_FILENO) || !redirect(spec->output, STDERR_FILENO)))
		return;
	execv(spec->argv[0], (char *const *)spec->argv);
}

pid_t child_start(const struct child_spec *spec, struct reeve_error *error)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0) {
		error_set(error, STATUS(INTERNAL), "cannot start %s: pipe: %s", spec->argv[0], strerror(errno));
		return -1;
	}
	/* Block all signals, so that the parent's handlers cannot run in the child before it has reset them. */
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		turn_into(spec, parent);
		int problem = errno;
		if (write(ends[1], &problem, sizeof problem) != sizeof problem)
			_exit(126);
		_exit(127);
	}
	int problem = pid < 0 ? errno : 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (pid > 0) {
		ssize_t got;
		do
			got = read(ends[0], &problem, sizeof problem);
		while (got < 0 && errno == EINTR);
		if (got == sizeof problem)
			waitpid(pid, NULL, 0);
		else
			problem = 0;
	}
	close(ends[0]);
	if (problem) {
		error_set(error, STATUS(INTERNAL), "cannot start %s: %s", spec->argv[0], strerror(problem));
		return -1;
	}
	return pid;
}

bool child_wait(pid_t pid, int64_t timeout_ms, int stop_fd, int *status)
{
	int64_t end = clock_monotonic_ms() + timeout_ms;
	for (;;) {
		pid_t got = waitpid(pid, status, WNOHANG);
		if (got == pid)
			return true;
		if (got < 0 && errno != EINTR) { /* no child of ours any more, so it cannot be running */
			*status = 0;
			return true;
		}
		if (timeout_ms >= 0 && clock_monotonic_ms() >= end)
			return false;
		struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
		if (poll(&stop, 1, 10) > 0)
			return false;
	}
}

const char *child_ending(int status, char *out, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(out, size, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(out, size, "exited with code %d", WEXITSTATUS(status));
	return out;
}
