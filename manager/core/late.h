/*
 * Tasks that were committed long after they were made, by an application's own transaction: they lie far behind the window's
 * cursor. Sending that back there would have it walk again over everything that has passed since, all of it still in the
 * index, because the same transaction has kept it from being cleaned up. Instead the second that a task is of is read by
 * itself, and the cursor stays where it is.
 */
#ifndef REEVE_MANAGER_CORE_LATE_H
#define REEVE_MANAGER_CORE_LATE_H

#include "manager/core/base.h"

struct window;

struct late *late_create(struct base *base, struct window *window);
void late_destroy(struct late *late);

/* A stream may have tasks due from one time on, before another, that were not there when its cursor passed: only this stretch is
 * read if the cursor is long past it, else the cursor goes back. */
void late_rewind(struct late *late, int route, int32_t priority, int64_t from_us, int64_t until_us);

#endif
