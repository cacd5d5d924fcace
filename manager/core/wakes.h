/* Notifying other managers that there is work in streams, from a time on: see notifications.h for what they do with it. */
#ifndef REEVE_MANAGER_CORE_WAKES_H
#define REEVE_MANAGER_CORE_WAKES_H

#include "manager/core/base.h"

struct db_clock;
struct dispatch;
struct wakes;
struct window;

struct wakes *wakes_create(struct base *base, const struct db_clock *clock, struct window *window, struct dispatch *dispatch);
void wakes_destroy(struct wakes *wakes);

/* Whether other managers live that are to be notified. The first are told to look at everything. */
void wakes_others(struct wakes *wakes, bool others);

/* A task of this stream waits from run_at on. */
void wakes_tell(struct wakes *wakes, int route, int32_t priority, int64_t run_at_us);

#endif
