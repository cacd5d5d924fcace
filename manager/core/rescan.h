/*
 * Tasks that an application's own transaction committed long after it had created them: they are far before the cursor
 * of their stream. If the cursor went back there, it would walk again over all tasks since then. These are all still in
 * the index, because the same transaction has kept them from being cleaned up. Instead only the second in which such a
 * task is due is read, and the cursor stays.
 */
#ifndef REEVE_MANAGER_CORE_RESCAN_H
#define REEVE_MANAGER_CORE_RESCAN_H

#include "manager/core/base.h"

struct ready_cache;

struct late *rescan_create(struct base *base, struct ready_cache *cache);
void rescan_destroy(struct late *late);

/* Makes the ready cache read tasks of a stream that are due from `from_us` on and before `until_us`, and may have been
 * committed after the cursor had passed. Reads only this stretch if the cursor is far beyond it; else the cursor goes
 * back. */
void rescan_rewind(struct late *late, int route, int32_t priority, int64_t from_us, int64_t until_us);

#endif
