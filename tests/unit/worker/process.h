/* Functions for tests that inspect other processes. */
#ifndef REEVE_TESTS_WORKER_PROCESS_H
#define REEVE_TESTS_WORKER_PROCESS_H

#include "common/clock.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { PROCESS_PATIENCE_MS = 20 * 1000 };

/* Reads a process id from a file; waits until another process has written it. */
static inline pid_t process_read(const char *path)
{
	int64_t until_ms = clock_monotonic_ms() + PROCESS_PATIENCE_MS;
	int pid = 0;

	while (pid == 0 && clock_monotonic_ms() < until_ms) {
		FILE *in = fopen(path, "r");

		if (in && fscanf(in, "%d\n", &pid) != 1)
			pid = 0;
		if (in)
			fclose(in);
		usleep(1000);
	}
	cr_assert_neq(pid, 0, "no process id in %s", path);
	return pid;
}

/* Reads a process's state ('R', 'Z' …), its parent and its flags. Returns 0 if the process is gone. */
static inline char process_stat(pid_t pid, int *parent, unsigned *flags)
{
	char path[64], line[512] = "", *end, state;
	FILE *in;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	in = fopen(path, "r");
	if (in && !fgets(line, sizeof line, in))
		line[0] = '\0';
	if (in)
		fclose(in);
	end = strrchr(line, ')');
	return end && sscanf(end + 1, " %c %d %*d %*d %*d %*d %u", &state, parent, flags) == 3 ? state : 0;
}

static inline pid_t process_parent(pid_t pid)
{
	unsigned flags;
	int parent;

	cr_assert(process_stat(pid, &parent, &flags));
	return parent;
}

/* Returns true once a process is gone, or is a zombie that its parent has not waited for. */
static inline bool process_gone(pid_t pid)
{
	unsigned flags;
	int parent;
	char state = process_stat(pid, &parent, &flags);

	return !state || state == 'Z' || state == 'X';
}

/* Waits until the process is gone, but no longer than until `until_ms`. Returns true if it is gone. */
static inline bool process_gone_by(pid_t pid, int64_t until_ms)
{
	while (!process_gone(pid) && clock_monotonic_ms() < until_ms)
		usleep(1000);
	return process_gone(pid);
}

/* Returns true once a process runs nothing of its program any more: SIGKILL is pending, or it is ending. On a busy
 * machine it may still take long until it is gone. */
static inline bool process_killed(pid_t pid)
{
	enum { EXITING = 0x4, SIGNALLED = 0x400 }; /* flags: PF_EXITING and PF_SIGNALED of the kernel */
	unsigned long long pending = 0;
	char path[64], line[256];
	unsigned flags;
	int parent;
	FILE *in;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	in = fopen(path, "r");
	while (in && fgets(line, sizeof line, in) && sscanf(line, "SigPnd: %llx", &pending) != 1)
		;
	if (in)
		fclose(in);
	return pending >> (SIGKILL - 1) & 1 || !process_stat(pid, &parent, &flags) || flags & (EXITING | SIGNALLED);
}

/* Waits until SIGKILL has reached the process, but no longer than until `until_ms`. Returns true if it has. */
static inline bool process_killed_by(pid_t pid, int64_t until_ms)
{
	while (!process_killed(pid) && clock_monotonic_ms() < until_ms)
		usleep(1000);
	return process_killed(pid);
}

#endif
