/* Calls that wait for tasks to end. Ends seen by this manager are told at once; others' are found by batched looks. */
#ifndef REEVE_MANAGER_CORE_WAITS_H
#define REEVE_MANAGER_CORE_WAITS_H

#include "manager/core/base.h"

/* All have ended, or the time is over: which have. `error` if it could not be looked up. */
typedef void wait_done(void *arg, const int64_t *ended, int ended_count, const struct reeve_error *error);

struct waits *waits_create(struct base *base);
void waits_destroy(struct waits *waits);

struct waiter;

/* What a wait for one id takes in memory. */
enum { WAIT_BYTES = 160 };

/* Waits for tasks, at most so long (0: only looks). The ids are copied; doubles count once. `origin`: see store_op. *waiter, which may be NULL, is set
 * for waits_cancel before `done` can be called, after which there is none. */
void waits_add(struct waits *waits, const int64_t *ids, int count, int64_t wait_ms, uint64_t origin, wait_done *done,
    void *arg, struct waiter **waiter);

/* Nobody wants to know any more: ends it with CANCELLED, at once or when the database has answered. */
void waits_cancel(struct waiter *waiter);

/* A task has ended. Cheap when nobody waits for it. */
void waits_ended(struct waits *waits, int64_t id);

#endif
