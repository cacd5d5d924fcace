/*
 * The processes that `reeve dev` looks after: each is started again when it ends by itself, soon the first time and
 * ever later while it keeps ending soon.
 */
#ifndef REEVE_CMD_DEV_MEMBERS_H
#define REEVE_CMD_DEV_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MEMBER_ARGUMENTS = 16 };

struct member {
	char name[32];                      /* "manager", "dev-1" */
	const char *argv[MEMBER_ARGUMENTS]; /* argv[0] is a path; ends with NULL */
	pid_t pid;                          /* 0: not running */
	int status;                         /* waitpid's, of its last end */
	int64_t started_ms;                 /* on the monotonic clock */
	int64_t start_at_ms;                /* when it is due to be started again */
	int64_t rest_ms;                    /* how long it rested before its last start */
};

/* Starts a member. False: it could not be started, which is logged. */
bool member_start(struct member *member);

/* Notes that a member has ended, if it has. True if it is not running. */
bool member_ended(struct member *member);

/* Whether a member ended for a reason that starting it again would not mend: wrong options or handlers, an address that
 * somebody else has, a database that refuses. */
bool member_hopeless(const struct member *member);

/* Notes which members have ended, logs it, and starts those whose rest is over, but for the hopeless. Returns after how many milliseconds it
 * wants to be called again at the latest; −1: not before a child ends. */
int64_t members_tend(struct member *members, size_t count);

/* Sends SIGTERM to all of them and waits until they have ended; SIGKILL when `timeout_ms` have passed, or when
 * `stop_fd` (−1: none) becomes readable. */
void members_stop(struct member *members, size_t count, int64_t timeout_ms, int stop_fd);

#endif
