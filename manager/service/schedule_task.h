/* The task of a schedule, as the JSON that the table stores and the SQL function submit_task takes. */
#ifndef REEVE_MANAGER_SERVICE_SCHEDULE_TASK_H
#define REEVE_MANAGER_SERVICE_SCHEDULE_TASK_H

#include "common/error.h"

#include <jansson.h>
#include <reeve/v1/task.pb-c.h>
#include <stdbool.h>

/* Puts one field of the task into `spec`, as null if it has its default. `field` is its name in the .proto. Returns
 * false if there is no such field. */
bool schedule_task_put(json_t *spec, const char *field, const Reeve__V1__TaskSpec *task);

/* Puts all fields that differ from their defaults. */
void schedule_task_put_all(json_t *spec, const Reeve__V1__TaskSpec *task);

#endif
