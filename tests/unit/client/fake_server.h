/*
 * A fake manager for tests of the client library and of the command: a real rpc_server on its own thread, with the
 * tasks in memory. It answers as a manager does; the functions below set the exceptions. All of them may be called from
 * any thread.
 */
#ifndef REEVE_TESTS_CLIENT_FAKE_SERVER_H
#define REEVE_TESTS_CLIENT_FAKE_SERVER_H

#include "common/error.h"
#include "common/uuid.h"

#include <stddef.h>
#include <stdint.h>

struct fake_server;

enum { FAKE_SERVER_MAX_DETAILS = 2000, FAKE_SERVER_SUBMITS = 64 };

/* Starts the fake on a free port of this machine. */
struct fake_server *fake_server_start(void);
void fake_server_stop(struct fake_server *fake_server);

/* "tcp://127.0.0.1:12345" */
const char *fake_server_url(const struct fake_server *fake_server);

/* The next `count` submits fail with this code, after `after` submits have been answered. */
void fake_server_fail_submits(struct fake_server *fake_server, int after, int count, reeve_status code);

/* A submit with a task of this type fails with PERMISSION_DENIED. */
void fake_server_refuse_type(struct fake_server *fake_server, const char *type);

/* Keeps submits until this many wait together, then answers them, the last one first; 0: answers at once. */
void fake_server_hold_submits(struct fake_server *fake_server, int count);

/* Every task submitted from now on ends at once with this status; its result or error is its details. 0: it waits. */
void fake_server_end_tasks_as(struct fake_server *fake_server, int task_status);

/* Ends a task with this status; `text` is its result if it completed, otherwise its error. */
void fake_server_end(struct fake_server *fake_server, int64_t id, int task_status, const char *text);

/* Limits the number of ended tasks in the answer to a Wait; 0: no limit. */
void fake_server_cut_waits(struct fake_server *fake_server, size_t most);

/* A submit call that arrived. */
struct fake_server_submit {
	uint8_t request_id[UUID_BYTES];
	size_t count;
};

/* Copies the calls so far, up to FAKE_SERVER_SUBMITS, and returns their number. */
size_t fake_server_submits(struct fake_server *fake_server, struct fake_server_submit submits[FAKE_SERVER_SUBMITS]);

/* The next `count` Fetches are answered that they should come again in 50 ms, even if tasks wait, as by a manager that
 * has not read them yet. */
void fake_server_know_later(struct fake_server *fake_server, int count);

/* Return the number of tasks, and of Waits; *max_ids is the largest number of ids in a Wait. */
size_t fake_server_tasks(struct fake_server *fake_server);
size_t fake_server_waits(struct fake_server *fake_server, size_t *max_ids);

/* Return a task's details (NULL: there is no such task), and the reason of the last Cancel. The strings live until
 * fake_server_stop. */
const char *fake_server_details(struct fake_server *fake_server, int64_t id);
const char *fake_server_reason(struct fake_server *fake_server);

#endif
