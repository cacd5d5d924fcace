/*
 * What managers notify each other of, as it is heard here: "there is work in these streams, from this time on". A notification is a hint and no more: any
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
#ifndef REEVE_MANAGER_CORE_NOTIFICATIONS_H
#define REEVE_MANAGER_CORE_NOTIFICATIONS_H

#include "manager/core/base.h"

struct control;
struct late;
struct notifications;
struct routes;
struct window;

struct notifications_neighbours {
	struct routes *routes;
	struct window *window;
	struct late *late;
	struct control *control;
};

struct notifications *notifications_create(struct base *base, const struct notifications_neighbours *neighbours);
void notifications_destroy(struct notifications *notifications);

/* A notification has come. */
void notifications_hear(struct notifications *notifications, const char *payload);

#endif
