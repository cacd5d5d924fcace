/*
 * What recurs: the tick that reads the clock, taking back expired attempts, partitions and forgetting, ending operations
 * that waited too long.
 */
#ifndef REEVE_MANAGER_CORE_UPKEEP_H
#define REEVE_MANAGER_CORE_UPKEEP_H

#include "manager/core/core.h"

struct upkeep *upkeep_create(struct core *core);
void upkeep_destroy(struct upkeep *upkeep);

/* See core_database_us. */
int64_t upkeep_database_us(const struct upkeep *upkeep);

/* See core_clock_us. */
int64_t upkeep_clock_us(const struct upkeep *upkeep);

/* See core_set_back_us. */
int64_t upkeep_set_back_us(const struct upkeep *upkeep);

/* Whether the database has answered lately. */
bool upkeep_fresh(const struct upkeep *upkeep);

/* There is something for the tables' chore. */
void upkeep_tables(struct upkeep *upkeep);

/* Does what is due. Returns when to be called again. */
int64_t upkeep_turn(struct upkeep *upkeep, int64_t now_ms);

#endif
