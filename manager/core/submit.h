/* Submitting: routes first, then the store, then the window. */
#ifndef REEVE_MANAGER_CORE_SUBMIT_H
#define REEVE_MANAGER_CORE_SUBMIT_H

#include "manager/core/core.h"

/* `made` has one element a task, in order, and lives during the callback. */
typedef void submit_done(void *arg, const struct store_made *made, const struct reeve_error *error);

/* Makes tasks, all or none. `tasks` (their routes are filled in here) and what it leads to must live until `done`. The
 * request id is 16 bytes of a version 7 UUID: older than a day or far in the future, it is refused. `origin`: see store_op. */
void submit_tasks(struct core *core, const uint8_t *request_id, struct store_task *tasks, int count,
    int64_t deadline_ms, uint64_t origin, submit_done *done, void *arg);

/* Whether a request id's time is one that can be told apart from a repeated call. */
bool request_id_timely(const struct core *core, const uint8_t *request_id, struct reeve_error *error);

#endif
