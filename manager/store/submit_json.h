/* A task as JSON, for the statement that gives an existing task a new version. */
#ifndef REEVE_MANAGER_STORE_SUBMIT_JSON_H
#define REEVE_MANAGER_STORE_SUBMIT_JSON_H

#include "manager/store/store.h"

/* Returns the task as an object with the fields of a row of tasks. The caller frees it with free(). */
char *submit_json(const struct store_task *task);

#endif
