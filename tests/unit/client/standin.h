/*
 * A manager that keeps its tasks in memory: a real rpc_server on a thread of its own, behind which tests of the client
 * and of its command run. It answers as a manager does, and what tests want out of the ordinary is asked for by the
 * functions below. All of them may be called from any thread.
 */
#ifndef REEVE_TESTS_CLIENT_STANDIN_H
#define REEVE_TESTS_CLIENT_STANDIN_H

#include "common/error.h"
#include "common/uuid.h"

#include <stddef.h>
#include <stdint.h>

struct standin;

enum { STANDIN_MAX_DETAILS = 2000, STANDIN_SUBMITS = 64 };

/* Starts it on a free port of this machine. */
struct standin *standin_start(void);
void standin_stop(struct standin *standin);

/* "tcp://127.0.0.1:12345" */
const char *standin_url(const struct standin *standin);

/* The next `count` submits fail with this code, `after` further ones have been answered. */
void standin_fail_submits(struct standin *standin, int after, int count, reeve_status code);

/* A submit with a task of this type among its tasks fails with PERMISSION_DENIED. */
void standin_refuse_type(struct standin *standin, const char *type);

/* Holds submits back until so many wait together, then answers them, the last first; 0: answers at once. */
void standin_hold_submits(struct standin *standin, int count);

/* Every task submitted from now on ends at once, so; the result or error is its details. 0: it waits. */
void standin_end_tasks_as(struct standin *standin, int task_status);

/* Ends a task with this status; the text is its result if it completed, else its error. */
void standin_end(struct standin *standin, int64_t id, int task_status, const char *text);

/* At most so many ended tasks in the answer to a Wait; 0: all. */
void standin_cut_waits(struct standin *standin, size_t most);

/* A submit call that arrived. */
struct standin_submit {
	uint8_t request_id[UUID_BYTES];
	size_t count;
};

/* Copies the calls so far, at most STANDIN_SUBMITS, and returns their number. */
size_t standin_submits(struct standin *standin, struct standin_submit submits[STANDIN_SUBMITS]);

/* The next `count` Fetches are told to ask again in 50 ms, whatever waits: the manager cannot know yet. */
void standin_know_later(struct standin *standin, int count);

/* How many tasks there are, how many Waits came, and the largest number of ids in one. */
size_t standin_tasks(struct standin *standin);
size_t standin_waits(struct standin *standin, size_t *most_ids);

/* What is known of a task. NULL: there is none. Lives until the stand-in is stopped. */
const char *standin_details(struct standin *standin, int64_t id);
const char *standin_reason(struct standin *standin);

#endif
