/*
 * The child processes of `reeve dev`. One that ends unexpectedly is restarted, soon the first time, and after growing
 * delays while it keeps ending soon.
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
	const char *argv[MEMBER_ARGUMENTS]; /* argv[0] is a path; the last is NULL */
	pid_t pid;                          /* 0: not running */
	int status;                         /* waitpid's, of its last exit */
	int64_t started_ms;                 /* on the monotonic clock */
	int64_t start_at_ms;                /* when it is due to be restarted */
	int64_t pause_ms;                   /* the delay before its last start */
};

/* Starts a member. Returns false if that failed, which is logged. */
bool member_start(struct member *member);

/* Returns true if a member is not running; records its status if it has just ended. */
bool member_ended(struct member *member);

/* Returns the exit code of a member that ended for a reason that a restart would not fix: invalid options or handlers,
 * an address in use, a database that refuses; 0: no member ended so. */
int members_hopeless(const struct member *members, int64_t count);

/* Logs which members have ended and restarts those whose delay is over, except hopeless ones. Returns the maximum time
 * in milliseconds until the next call; −1: when a child ends. */
int64_t members_supervise(struct member *members, size_t count);

/* Sends SIGTERM to all members and waits until they have ended; sends SIGKILL after `timeout_ms`, or when `stop_fd`
 * (−1: none) becomes readable. */
void members_stop(struct member *members, size_t count, int64_t timeout_ms, int stop_fd);

#endif
