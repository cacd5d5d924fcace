/*
 * The managers of the database, this one among them: all are equal. Each has a row that it ticks; one whose ticks have
 * stood still for a few seconds, on this manager's clock, counts as gone until they go on.
 *
 * Those that live share the tasks out by their ids, so that they rarely try the same ones: a slice is a remainder of the
 * id, for the place of a manager among the living. It is a preference and no more (window.h): nobody waits for a
 * manager that is gone, or one that has no worker for a task.
 */
#ifndef REEVE_MANAGER_CORE_CLUSTER_H
#define REEVE_MANAGER_CORE_CLUSTER_H

#include "manager/core/base.h"

struct wakes;
struct window;

struct cluster *cluster_create(struct base *base, struct wakes *wakes, struct window *window);
void cluster_destroy(struct cluster *cluster);

/* A tick has come back: these have not stopped. Tells the window and the wakes what has changed. */
void cluster_ticked(struct cluster *cluster, const struct store_peer *rows, int count);

/* How many live, this one included; at least 1. */
int cluster_alive(const struct cluster *cluster);

#endif
