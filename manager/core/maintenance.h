/*
 * Maintenance jobs: the manager's heartbeat, which also reads the clock (db_clock.h), reclaiming expired attempts,
 * partitions and retention, counts and statistics, and the deadlines of operations.
 */
#ifndef REEVE_MANAGER_CORE_MAINTENANCE_H
#define REEVE_MANAGER_CORE_MAINTENANCE_H

#include "manager/core/base.h"

struct cluster;
struct db_clock;
struct queues;
struct reports;
struct routes;
struct maintenance;
struct ready_cache;

struct maintenance_neighbours {
	struct db_clock *clock;
	struct cluster *cluster;
	struct routes *routes;
	struct queues *queues;
	struct ready_cache *cache;
	struct reports *reports;
};

struct maintenance *maintenance_create(struct base *base, const struct maintenance_neighbours *neighbours);
void maintenance_destroy(struct maintenance *maintenance);

/* Returns whether a heartbeat has succeeded lately. */
bool maintenance_fresh(const struct maintenance *maintenance);

#endif
