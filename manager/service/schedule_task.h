/* The task of a schedule, as calls describe it and as the table keeps it: the JSON that the function submit_task takes.
 */
#ifndef REEVE_MANAGER_SERVICE_SCHEDULE_TASK_H
#define REEVE_MANAGER_SERVICE_SCHEDULE_TASK_H

#include "common/error.h"

#include <jansson.h>
#include <reeve/v1/task.pb-c.h>
#include <stdbool.h>

/* Puts one field of the task, by its name in the contract, into `spec`; null where it has its default. False: there is
 * no such field. */
bool schedule_task_put(json_t *spec, const char *field, const Reeve__V1__TaskSpec *task);

/* Puts all fields that don't have their defaults. */
void schedule_task_put_all(json_t *spec, const Reeve__V1__TaskSpec *task);

/* Makes a message from what the table keeps. Free it with reeve__v1__task_spec__free_unpacked. */
Reeve__V1__TaskSpec *schedule_task_from(const char *spec);

#endif
