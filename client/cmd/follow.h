/* Waiting for tasks on behalf of a user. */
#ifndef REEVE_CLIENT_FOLLOW_H
#define REEVE_CLIENT_FOLLOW_H

#include <reeve/client.h>
#include <stdbool.h>

enum follow_mode {
	FOLLOW_RESULT,  /* one task: its result on standard output */
	FOLLOW_TABLE,   /* a line for each task, in the order of the ids */
	FOLLOW_SUMMARY, /* the counts by status, and the first task that did not complete, on standard error */
};

/* Waits until all tasks have ended, up to timeout_ms (negative: no limit), with progress on a terminal. With `json`,
 * prints a JSON object for each ended task instead. Returns the exit code: 1 if any task did not complete. */
int follow_tasks(struct reeve_client *client, const int64_t *ids, size_t count, enum follow_mode mode,
    int64_t timeout_ms, bool json);

#endif
