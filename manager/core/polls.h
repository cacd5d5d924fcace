/* Polls with their times, taken in turn between callers: a caller with few is not delayed by one with many. */
#ifndef REEVE_MANAGER_CORE_POLLS_H
#define REEVE_MANAGER_CORE_POLLS_H

#include "common/deadlines.h"

struct poll_caller;

/* Embedded in what is polled for. Zeroed: it has no time. */
struct poll {
	struct deadline deadline;
	struct poll_caller *caller;
};

/* Ready when zeroed. */
struct polls {
	struct poll_caller *callers; /* those that have polls */
	struct deadlines next;       /* of each caller that is not in `due` */
	struct poll_caller *due;     /* take turns */
};

/* Adds a poll for a caller. `origin`: see store_op. */
void polls_add(struct polls *polls, struct poll *poll, uint64_t origin, int64_t at_ms);

/* Another caller needs the same poll. It counts for the caller that has fewer polls. */
void polls_share(struct polls *polls, struct poll *poll, uint64_t origin);

/* Removes a poll. */
void polls_remove(struct polls *polls, struct poll *poll);

/* Returns the next poll whose time has come, or NULL. The caller of this function then gives it a later time. */
struct poll *polls_take(struct polls *polls, int64_t now_ms);
void polls_later(struct polls *polls, struct poll *poll, int64_t at_ms);

/* Returns the time of the earliest poll: a time in the past if it is due, INT64_MAX if there is none. */
int64_t polls_next_ms(const struct polls *polls);

/* Frees the memory when no poll is left. */
void polls_free(struct polls *polls);

#endif
