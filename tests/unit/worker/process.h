/* Functions for tests that inspect other processes. */
#ifndef REEVE_TESTS_WORKER_PROCESS_H
#define REEVE_TESTS_WORKER_PROCESS_H

#include "common/clock.h"

#include <criterion/criterion.h>
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

/* Reads a process's state ('R', 'Z' …) and its parent. Returns 0 if the process is gone. */
static inline char process_stat(pid_t pid, int *parent)
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
	return end && sscanf(end + 1, " %c %d", &state, parent) == 2 ? state : 0;
}

static inline pid_t process_parent(pid_t pid)
{
	int parent;

	cr_assert(process_stat(pid, &parent));
	return parent;
}

/* Returns true once a process is gone, or is a zombie that its parent has not waited for. */
static inline bool process_gone(pid_t pid)
{
	int parent;
	char state = process_stat(pid, &parent);

	return !state || state == 'Z' || state == 'X';
}

/* Waits until the process is gone, but no longer than until `until_ms`. Returns true if it is gone. */
static inline bool process_gone_by(pid_t pid, int64_t until_ms)
{
	while (!process_gone(pid) && clock_monotonic_ms() < until_ms)
		usleep(1000);
	return process_gone(pid);
}

#endif
