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

/* The option that names the `store` of the functions below. */
#define OPT_RESULT_STORE(type, member)                                                                                 \
	OPT_TEXT(0, "result-store", OPTION_AT(type, member), "DIR",                                                        \
	    "print long results, read from the workers' result directory as mounted here, instead of their addresses")

/* Waits until all tasks have ended, up to timeout_ms (negative: no limit), with progress on a terminal. With `json`,
 * prints a JSON object for each ended task instead. `store`: a directory from which FOLLOW_RESULT reads stored results;
 * NULL: it writes their address. With `logs`, prints the tasks' progress and log lines on standard error as they come.
 * Returns the exit code: 1 if any task did not complete. */
int follow_tasks(struct reeve_client *client, const int64_t *ids, size_t count, enum follow_mode mode,
    const char *store, int64_t timeout_ms, bool json, bool logs);

/* The same for tasks that a call has submitted and awaited: asks only for those that had not ended by its answer. */
int follow_submitted(struct reeve_client *client, const Reeve__V1__SubmitAndWaitResponse *answer, enum follow_mode mode,
    const char *store, bool json);

#endif
