/* Starts programs from this program's directory (or from $REEVE_BIN). */
#ifndef REEVE_TESTS_WORKER_PROGRAM_H
#define REEVE_TESTS_WORKER_PROGRAM_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts a program with these arguments (after its name, ending with NULL). Its standard output and standard error go
 * to the file `output`; NULL: to the same place as ours. Returns its process id. */
static inline pid_t start_named(const char *name, const char *const *arguments, const char *output)
{
	char self[PATH_MAX] = "", path[PATH_MAX + 32];
	const char *folder = getenv("REEVE_BIN"), *argv[32];
	posix_spawn_file_actions_t actions;
	int count = 0;
	pid_t pid;

	cr_assert_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
	snprintf(path, sizeof path, "%s/%s", folder ? folder : dirname(self), name);
	argv[count++] = path;
	while (*arguments && count < 31)
		argv[count++] = *arguments++;
	argv[count] = NULL;
	posix_spawn_file_actions_init(&actions);
	if (output) {
		posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		posix_spawn_file_actions_adddup2(&actions, 1, 2);
	}
	cr_assert_eq(posix_spawn(&pid, path, &actions, NULL, (char *const *)argv, environ), 0, "cannot start %s", path);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static inline pid_t start_program(const char *const *arguments, const char *output)
{
	return start_named("reeve-worker", arguments, output);
}

/* Waits for the process and returns its exit code, or −1 if a signal ended it. */
static inline int wait_program(pid_t pid)
{
	int status = 0;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
