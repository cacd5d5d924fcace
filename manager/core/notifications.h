/*
 * Notifications from other managers and from SQL. The main one says that streams have tasks from a given time on. A
 * notification is only a hint: any role of the database can send one, and some are lost. The tables are authoritative.
 * So a notification only makes this manager read there earlier, within limits; the rescan of the last seconds and the
 * full rescan find what was missed.
 *
 * Other notifications: "queues": settings of queues have changed. "schedules": definitions of schedules have changed.
 * "identities": identities have changed.
 * "command …": a worker command was stored (control.h). "inbox": the inbox has tasks to ingest (inbox.h).
 *
 * A notification about streams is "MANAGER ROUTE PRIORITY RUN_AT", all numbers, and ";ROUTE PRIORITY RUN_AT" for each
 * further stream; route 0 means any stream. MANAGER 0 is an application that used SQL. It names only one stream and
 * adds UNTIL: its tasks are due before that time.
 */
#ifndef REEVE_MANAGER_CORE_NOTIFICATIONS_H
#define REEVE_MANAGER_CORE_NOTIFICATIONS_H

#include "manager/core/base.h"

struct control;
struct late;
struct notifications;
struct routes;
struct ready_cache;

struct notifications_neighbours {
	struct routes *routes;
	struct ready_cache *cache;
	struct late *late;
	struct control *control;
};

struct notifications *notifications_create(struct base *base, const struct notifications_neighbours *neighbours);
void notifications_destroy(struct notifications *notifications);

/* Handles a notification. */
void notifications_receive(struct notifications *notifications, const char *payload);

#endif
