/* Calls that wait for tasks to end. Tasks that this manager ends are reported at once; batched polls find those that
 * other managers end. */
#ifndef REEVE_MANAGER_CORE_WAITS_H
#define REEVE_MANAGER_CORE_WAITS_H

#include "manager/core/base.h"

/* All tasks have ended, or the time has passed. `asked`: how many different ones there are; `ended` has those that
 * have ended. `error`: the database could not be queried. */
typedef void wait_done(void *arg, int asked, const int64_t *ended, int count, const struct reeve_error *error);

struct waits *waits_create(struct base *base);
void waits_destroy(struct waits *waits);

struct waiter;

/* The memory of a wait for one id. */
enum { WAIT_BYTES = 200 };

/* Waits for tasks for up to wait_ms (0: only checks). The ids are copied; duplicates count once. `origin`: see
 * store_op. *waiter is for waits_cancel; it is set before `done` can be called, and invalid after that. `waiter` may be
 * NULL. */
void waits_add(struct waits *waits, const int64_t *ids, int count, int64_t wait_ms, uint64_t origin, wait_done *done,
    void *arg, struct waiter **waiter);

/* Ends a wait with CANCELLED because its caller has gone: at once, or when the first query is answered. */
void waits_cancel(struct waiter *waiter);

/* Whether there are other managers. If not, there is a query at most twice a second all the same, for ends that other
 * sessions commit. */
void waits_others(struct waits *waits, bool others);

/* Handles the end of a task. Cheap if no call waits for it. */
void waits_ended(struct waits *waits, int64_t id);

#endif
