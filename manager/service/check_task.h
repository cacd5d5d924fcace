/* Checks of the task in a submit or schedule. */
#ifndef REEVE_MANAGER_SERVICE_CHECK_TASK_H
#define REEVE_MANAGER_SERVICE_CHECK_TASK_H

#include "common/error.h"

#include <reeve/v1/task.pb-c.h>
#include <stdint.h>

/* Checks one task of a request. `field` is "tasks[3]" (or "task"), and begins the error's message. */
bool check_task(
    const char *field, const Reeve__V1__TaskSpec *spec, int64_t max_details_bytes, struct reeve_error *error);

#endif
