/*
 * What managers notify each other of: "there is work in these streams, from this time on". A notification is a hint and no more: any
 * role of the database can send one, and some are lost. What counts is in the tables. So a notification makes this manager read
 * there, at most so often, and the trailing look and the reading of everything find what was missed.
 *
 * Beside these, "queues" says that settings of queues have changed, "schedules" that definitions of schedules have,
 * "order …" that a worker was ordered something (control.h), and "arrivals" that tasks submitted by SQL are to be admitted
 * (arrivals.h).
 *
 * A wake is "MANAGER ROUTE PRIORITY RUN_AT", numbers, and ";ROUTE PRIORITY RUN_AT" for each further stream; route 0 means any.
 * MANAGER 0 is SQL: an application's, which adds UNTIL to the only stream, before which what it has is due.
 */
#ifndef REEVE_MANAGER_CORE_WAKES_H
#define REEVE_MANAGER_CORE_WAKES_H

#include "manager/core/core.h"

struct wakes *wakes_create(struct core *core);
void wakes_destroy(struct wakes *wakes);

/* Whether other managers live that are to be notified. The first are told to look at everything. */
void wakes_others(struct wakes *wakes, bool others);

/* A task of this stream waits from run_at on. */
void wakes_tell(struct wakes *wakes, int route, int32_t priority, int64_t run_at_us);

/* A notification has come. */
void wakes_hear(struct wakes *wakes, const char *payload);

/* Sends what has gathered, and acts on what was put off. Returns when to be called again. */
int64_t wakes_turn(struct wakes *wakes, int64_t now_ms);

#endif
