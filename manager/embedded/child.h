/*
 * Child processes that do not outlive their parent. Each has its own session, so that a terminal's Ctrl-C reaches only
 * the parent. The kernel sends it a signal when the parent ends, for whatever reason.
 */
#ifndef REEVE_EMBEDDED_CHILD_H
#define REEVE_EMBEDDED_CHILD_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child_spec {
	const char *const *argv; /* argv[0] is the program's path; ends with NULL */
	const char *folder;      /* its working directory; NULL: the parent's */
	bool change_user;        /* run as uid and gid, without other groups */
	uid_t uid;
	gid_t gid;
	int input;        /* its standard input; −1: /dev/null */
	int output;       /* its standard output and standard error; −1: the parent's */
	int death_signal; /* which signal it gets when the thread that started it ends */
};

/* Starts a program with default signal handlers and no blocked signals. Returns its process id, or −1 with *error
 * (INTERNAL), which names the program and the reason. */
pid_t child_start(const struct child_spec *spec, struct reeve_error *error);

/* Waits up to `timeout_ms` (0: only checks; −1: no limit) for a child to end, or until `stop_fd` (−1: none) becomes
 * readable. Returns true and sets *status as waitpid does if the child has ended. */
bool child_wait(pid_t pid, int64_t timeout_ms, int stop_fd, int *status);

/* Writes "exited with code 3" or "was killed by signal 9 (Killed)" into `out` and returns it. */
const char *child_ending(int status, char *out, size_t size);

#endif
