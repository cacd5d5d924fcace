/* Notifies other managers that streams have tasks from a time on. notifications.h describes the payload. */
#ifndef REEVE_MANAGER_CORE_NOTIFIER_H
#define REEVE_MANAGER_CORE_NOTIFIER_H

#include "manager/core/base.h"

struct db_clock;
struct dispatch;
struct notifier;
struct ready_cache;

struct notifier *notifier_create(
    struct base *base, const struct db_clock *clock, struct ready_cache *cache, struct dispatch *dispatch);
void notifier_destroy(struct notifier *notifier);

/* Sets whether other live managers exist. When the first one appears, it is notified to rescan everything. */
void notifier_others(struct notifier *notifier, bool others);

/* Notifies the others of a task of this stream that is due at run_at. */
void notifier_send(struct notifier *notifier, int route, int32_t priority, int64_t run_at_us);

#endif
