/*
 * The managers of the database, including this one; all are equal. Each writes heartbeats to its own row. A manager
 * without a heartbeat for a few seconds, on this manager's clock, counts as gone until the next one.
 *
 * Live managers divide the tasks by id (ready_shard_of), so that they rarely try the same ones: a manager's shard has
 * the number of its place among the live managers. The shard is only a preference (ready.h): no task waits for a
 * manager that is gone, or that has no worker for it.
 */
#ifndef REEVE_MANAGER_CORE_CLUSTER_H
#define REEVE_MANAGER_CORE_CLUSTER_H

#include "manager/core/base.h"

struct notifier;
struct waits;
struct ready_cache;

struct cluster_neighbours {
	struct notifier *notifier;
	struct waits *waits;
	struct ready_cache *cache;
};

struct cluster *cluster_create(struct base *base, const struct cluster_neighbours *to);
void cluster_destroy(struct cluster *cluster);

/* Call it with the answer of this manager's heartbeat: the rows of the managers that have not stopped. Informs the
 * neighbours of changes. */
void cluster_on_heartbeat(struct cluster *cluster, const struct store_peer *rows, int count);

/* Returns the number of live managers, including this one; at least 1. */
int cluster_alive(const struct cluster *cluster);

#endif
