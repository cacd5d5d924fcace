/*
 * A fake manager for tests of the client library and of the command: a real rpc_server on its own thread, with the
 * tasks in memory. It answers as a manager does; the functions below set the exceptions. All of them may be called from
 * any thread.
 */
#ifndef REEVE_TESTS_CLIENT_STANDIN_H
#define REEVE_TESTS_CLIENT_STANDIN_H

#include "common/error.h"
#include "common/uuid.h"

#include <stddef.h>
#include <stdint.h>

struct standin;

enum { STANDIN_MAX_DETAILS = 2000, STANDIN_SUBMITS = 64 };

/* Starts the fake on a free port of this machine. */
struct standin *standin_start(void);
void standin_stop(struct standin *standin);

/* "tcp://127.0.0.1:12345" */
const char *standin_url(const struct standin *standin);

/* The next `count` submits fail with this code, after `after` submits have been answered. */
void standin_fail_submits(struct standin *standin, int after, int count, reeve_status code);

/* A submit with a task of this type fails with PERMISSION_DENIED. */
void standin_refuse_type(struct standin *standin, const char *type);

/* Keeps submits until this many wait together, then answers them, the last one first; 0: answers at once. */
void standin_hold_submits(struct standin *standin, int count);

/* Every task submitted from now on ends at once with this status; its result or error is its details. 0: it waits. */
void standin_end_tasks_as(struct standin *standin, int task_status);

/* Ends a task with this status; `text` is its result if it completed, otherwise its error. */
void standin_end(struct standin *standin, int64_t id, int task_status, const char *text);

/* Limits the number of ended tasks in the answer to a Wait; 0: no limit. */
void standin_cut_waits(struct standin *standin, size_t most);

/* A submit call that arrived. */
struct standin_submit {
	uint8_t request_id[UUID_BYTES];
	size_t count;
};

/* Copies the calls so far, up to STANDIN_SUBMITS, and returns their number. */
size_t standin_submits(struct standin *standin, struct standin_submit submits[STANDIN_SUBMITS]);

/* The next `count` Fetches are answered that they should come again in 50 ms, even if tasks wait, as by a manager that
 * has not read them yet. */
void standin_know_later(struct standin *standin, int count);

/* Return the number of tasks, and of Waits; *max_ids is the largest number of ids in a Wait. */
size_t standin_tasks(struct standin *standin);
size_t standin_waits(struct standin *standin, size_t *max_ids);

/* Return a task's details (NULL: there is no such task), and the reason of the last Cancel. The strings live until
 * standin_stop. */
const char *standin_details(struct standin *standin, int64_t id);
const char *standin_reason(struct standin *standin);

#endif
