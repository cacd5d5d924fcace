/*
 * Maintenance jobs: the manager's heartbeat, which also reads the clock (db_clock.h), reclaiming expired attempts,
 * partitions and retention, counts and statistics, and the deadlines of operations.
 */
#ifndef REEVE_MANAGER_CORE_UPKEEP_H
#define REEVE_MANAGER_CORE_UPKEEP_H

#include "manager/core/base.h"

struct cluster;
struct db_clock;
struct queues;
struct reports;
struct routes;
struct upkeep;
struct window;

struct upkeep_neighbours {
	struct db_clock *clock;
	struct cluster *cluster;
	struct routes *routes;
	struct queues *queues;
	struct window *window;
	struct reports *reports;
};

struct upkeep *upkeep_create(struct base *base, const struct upkeep_neighbours *neighbours);
void upkeep_destroy(struct upkeep *upkeep);

/* Returns whether a heartbeat has succeeded lately. */
bool upkeep_fresh(const struct upkeep *upkeep);

#endif
