/*
 * The jobs that tend the database: the tick, which says that this manager lives and reads the clock (db_clock.h), taking back expired attempts,
 * partitions and forgetting, counts and statistics.
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

/* Whether the database has answered lately. */
bool upkeep_fresh(const struct upkeep *upkeep);

#endif
