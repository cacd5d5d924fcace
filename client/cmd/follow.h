/* Waiting for tasks on behalf of a user. */
#ifndef REEVE_CLIENT_FOLLOW_H
#define REEVE_CLIENT_FOLLOW_H

#include <reeve/client.h>
#include <stdbool.h>

enum follow_mode {
	FOLLOW_RESULT,  /* one task: its result goes to standard output */
	FOLLOW_TABLE,   /* a line for each task, in the order asked */
	FOLLOW_SUMMARY, /* how many ended how, and the first that did not complete, on standard error */
};

/* Waits until all have ended, at most timeout_ms (negative: without limit), showing progress on a terminal. With `json`
 * each ended task is one JSON object instead. Returns the exit code: 1 if one did not complete. */
int follow_tasks(struct reeve_client *client, const int64_t *ids, size_t count, enum follow_mode mode,
    int64_t timeout_ms, bool json);

#endif
