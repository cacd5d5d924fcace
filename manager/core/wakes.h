/*
 * What managers tell each other: "there is work in this stream, from this time on". A hint, sent at most every few
 * milliseconds and only while other managers live; the trailing look and the reading of everything find what is missed.
 *
 * Beside these, "queues" says that settings of queues have changed, "schedules" that definitions of schedules have,
 * "order …" that a worker was ordered something (control.h), and "arrivals" that tasks submitted by SQL are to be admitted
 * (arrivals.h).
 *
 * A wake is "MANAGER ROUTE PRIORITY RUN_AT", numbers; route 0 means any. MANAGER 0 is SQL: an application's, which adds
 * UNTIL, before which what it has is due.
 */
#ifndef REEVE_MANAGER_CORE_WAKES_H
#define REEVE_MANAGER_CORE_WAKES_H

#include "manager/core/core.h"

struct wakes *wakes_create(struct core *core);
void wakes_destroy(struct wakes *wakes);

/* Whether there is anybody to tell. */
void wakes_others(struct wakes *wakes, bool others);

/* A task of this stream waits from run_at on. */
void wakes_tell(struct wakes *wakes, int route, int32_t priority, int64_t run_at_us);

/* Somebody has told something. */
void wakes_hear(struct wakes *wakes, const char *payload);

/* Sends what has gathered. Returns when to be called again. */
int64_t wakes_turn(struct wakes *wakes, int64_t now_ms);

#endif
