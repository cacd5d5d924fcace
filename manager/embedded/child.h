/*
 * Child processes that do not outlive their parent: each in a session of its own, so that a terminal's Ctrl-C reaches
 * the parent alone, and sent a signal by the kernel when the parent ends, however it ends.
 */
#ifndef REEVE_EMBEDDED_CHILD_H
#define REEVE_EMBEDDED_CHILD_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child_spec {
	const char *const *argv; /* argv[0]: the program's path; ends with NULL */
	const char *folder;      /* where it works; NULL: where the parent does */
	bool change_user;        /* whether to become uid and gid, and leave all other groups */
	uid_t uid;
	gid_t gid;
	int input;        /* its standard input; −1: /dev/null */
	int output;       /* its standard output and standard error; −1: the parent's */
	int death_signal; /* what it is sent when the thread that started it ends */
};

/* Starts a program with default signal handling and nothing blocked. Returns its process id, or −1 with *error: the
 * program could not be started (the message says why and with which program). */
pid_t child_start(const struct child_spec *spec, struct reeve_error *error);

/* Waits for the end of a child at most so many milliseconds (0: only looks; −1: no limit), giving up early when
 * `stop_fd` (−1: none) becomes readable. True: it has ended, and *status is waitpid's. */
bool child_wait(pid_t pid, int64_t timeout_ms, int stop_fd, int *status);

/* "exited with code 3", "was killed by signal 9 (Killed)": into `out`, which is returned. */
const char *child_ending(int status, char *out, size_t size);

#endif
