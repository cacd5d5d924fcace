/*
 * What follows a commit that made tasks ready or ended tasks: the ready cache, the other managers, calls that wait for
 * the tasks, and the job "batches" are informed. Code that changes tasks calls these functions after its commit, and
 * informs none of those itself.
 *
 * All functions are cheap, and are called on the loop's thread. An event that is not passed here is found later: by the
 * rescans of the ready cache, by the polls of the waiting calls, by the job "batches".
 */
#ifndef REEVE_MANAGER_CORE_TASK_EVENTS_H
#define REEVE_MANAGER_CORE_TASK_EVENTS_H

#include "manager/core/base.h"

struct routes;
struct waits;
struct notifier;
struct ready_cache;

/* The modules that are informed. All outlive the events. */
struct task_events_neighbours {
	struct routes *routes;
	struct ready_cache *cache;
	struct notifier *notifier;
	struct waits *waits;
};

struct ready_task {
	int64_t id, version; /* the version since which it waits */
	int64_t due_us;
	int route; /* 0: it is in the inbox, and not ready */
	int32_t priority;
	int32_t bytes; /* of its details; −1: unknown */
};

struct task_events;

struct task_events *task_events_create(struct base *base, const struct task_events_neighbours *neighbours);
void task_events_destroy(struct task_events *events);

/* Handles a task that waits, for the first time or again. If its route is not known here, another manager created it:
 * then the routes are reloaded, and discovery follows. */
void task_ready(struct task_events *events, const struct ready_task *task);

/* Rewinds a stream to its beginning, or all if its route is 0, because tasks may have become ready without a
 * notification. */
void tasks_may_be_ready(struct task_events *events, int route, int32_t priority);

/* Handles the end of a task. `waited`: it was not executing, so it may be in the ready cache. */
void task_ended(struct task_events *events, int64_t id, bool waited);

/* Handles tasks of batches that were created or have ended. */
void batches_changed(struct task_events *events);

/* Ends the events of a commit. `unknown`: an earlier try of the commit made changes that are not known here, so
 * everything is read again. */
void task_events_end(struct task_events *events, bool unknown);

#endif
