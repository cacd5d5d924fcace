/* Calls that wait for tasks to end. Ends seen by this manager are told at once; others' are found by batched looks. */
#ifndef REEVE_MANAGER_CORE_WAITS_H
#define REEVE_MANAGER_CORE_WAITS_H

#include "manager/core/core.h"

/* All have ended, or the time is over: which have. `error` if it could not be looked up. */
typedef void wait_done(void *arg, const int64_t *ended, int ended_count, const struct reeve_error *error);

struct waits *waits_create(struct core *core);
void waits_destroy(struct waits *waits);

/* Waits for tasks, at most so long (0: only looks). The ids are copied; doubles count once. */
void waits_add(struct waits *waits, const int64_t *ids, int count, int64_t wait_ms, wait_done *done, void *arg);

/* A task has ended. Cheap when nobody waits for it. */
void waits_ended(struct waits *waits, int64_t id);

/* Ends waits whose time is over, looks again. Returns when to be called next. */
int64_t waits_turn(struct waits *waits, int64_t now_ms);

#endif
