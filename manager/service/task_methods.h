/* Methods of TaskService that are in files of their own: manual changes (task_changes.c) and summaries
 * (task_summaries.c). */
#ifndef REEVE_MANAGER_SERVICE_TASK_METHODS_H
#define REEVE_MANAGER_SERVICE_TASK_METHODS_H

#include "manager/service/method.h"

rpc_method task_cancel, task_discard, task_retry, task_update, task_purge;
extern const struct method task_errors, task_executions;

#endif
