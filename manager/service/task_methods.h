/* Methods of TaskService that are in files of their own: submits (task_submit.c), manual changes (task_changes.c),
 * summaries and log lines (task_summaries.c). */
#ifndef REEVE_MANAGER_SERVICE_TASK_METHODS_H
#define REEVE_MANAGER_SERVICE_TASK_METHODS_H

#include "manager/service/method.h"

/* A call that waits for tasks is answered after this time at the latest. */
enum { WAIT_MAX_MS = 60000 };

rpc_method task_submit, task_submit_and_wait;
rpc_method task_cancel, task_discard, task_retry, task_update, task_purge;
extern const struct method task_errors, task_executions, task_logs;

#endif
