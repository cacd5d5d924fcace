/*
 * What follows a commit that made tasks ready, or ended some: the window, the other managers, whoever waits for the tasks, and their
 * batches learn of it. Everything that changes tasks calls these functions after its commit; it tells none of those itself.
 *
 * All of them are cheap, allocate nothing, and are called on the loop's thread. What is not told is found later: by the window's
 * looks, by the waits' looks, by the job "batches".
 */
#ifndef REEVE_MANAGER_CORE_TASK_EVENTS_H
#define REEVE_MANAGER_CORE_TASK_EVENTS_H

#include "manager/core/base.h"

struct routes;
struct waits;
struct wakes;
struct window;

/* Who is told. All outlive the events. */
struct task_events_neighbours {
	struct routes *routes;
	struct window *window;
	struct wakes *wakes;
	struct waits *waits;
};

struct ready_task {
	int64_t id, version; /* the version since which it waits */
	int64_t due_us;
	int route;           /* 0: it waits to be admitted, and is not ready */
	int32_t priority;
	int32_t bytes;       /* of its details; −1: not known */
};

struct task_events;

struct task_events *task_events_create(struct base *base, const struct task_events_neighbours *neighbours);
void task_events_destroy(struct task_events *events);

/* A task waits, or waits anew. If its route is not known here, which another manager made then, the routes are read: its streams
 * are looked for after that. */
void task_ready(struct task_events *events, const struct ready_task *task);

/* Tasks of this stream may have been made ready by somebody who could not tell: it is read from its beginning. */
void tasks_may_be_ready(struct task_events *events, int route, int32_t priority);

/* A task has ended. `waited`: it did not run, and may be a candidate. */
void task_ended(struct task_events *events, int64_t id, bool waited);

/* Tasks of batches have been made or ended. */
void batches_changed(struct task_events *events);

/* All that a commit has changed was told. `unknown`: an earlier try of it changed what nobody was told of, so that everything is
 * read again. */
void task_events_end(struct task_events *events, bool unknown);

#endif
