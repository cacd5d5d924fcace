/* Checks of a task before it is submitted: clients check what they send, managers what they get. */
#ifndef REEVE_COMMON_CHECK_TASK_H
#define REEVE_COMMON_CHECK_TASK_H

#include "common/error.h"

#include <reeve/v1/task.pb-c.h>
#include <stdint.h>

/* Checks a task of a request; texts may be NULL. `field` is "tasks[3]", or "" for a task alone, and begins the error's
 * message. SQL checks the same of tasks that it submits: sql/functions/task_check.sql. */
bool check_task(
    const char *field, const Reeve__V1__TaskSpec *task, int64_t max_details_bytes, struct reeve_error *error);

/* Checks that a policy's numbers are in range and belong to its kind. `field` is "tasks[3].retry", for example. */
bool check_retry(const char *field, const Reeve__V1__RetryPolicy *policy, struct reeve_error *error);

/* Returns why a text is no source, as a phrase to follow its name, or NULL. "callback of batch N" is reserved: it marks
 * the callback tasks that Reeve creates for a batch, which do not start a stopped queue. */
const char *task_source_problem(const char *text);

/* Returns why a text is no W3C traceparent, as such a phrase, or NULL. */
const char *task_traceparent_problem(const char *text);

#endif
