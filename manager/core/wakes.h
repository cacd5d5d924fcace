/* Notifies other managers that streams have tasks from a time on. notifications.h describes the payload. */
#ifndef REEVE_MANAGER_CORE_WAKES_H
#define REEVE_MANAGER_CORE_WAKES_H

#include "manager/core/base.h"

struct db_clock;
struct dispatch;
struct wakes;
struct window;

struct wakes *wakes_create(struct base *base, const struct db_clock *clock, struct window *window, struct dispatch *dispatch);
void wakes_destroy(struct wakes *wakes);

/* Sets whether other live managers exist. When the first one appears, it is notified to rescan everything. */
void wakes_others(struct wakes *wakes, bool others);

/* Notifies the others of a task of this stream that is due at run_at. */
void wakes_tell(struct wakes *wakes, int route, int32_t priority, int64_t run_at_us);

#endif
