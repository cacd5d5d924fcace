/*
 * The database's clock, from the heartbeats of this manager and the others: its actual time, and the estimate that
 * decides what is due. The estimate does not go back with the clock; it follows the clock again when that shows the
 * latest time it has ever shown. Times are microseconds since 1970; 0 before the first reading.
 */
#ifndef REEVE_MANAGER_CORE_DB_CLOCK_H
#define REEVE_MANAGER_CORE_DB_CLOCK_H

#include "manager/core/base.h"

struct db_clock;

struct db_clock *db_clock_create(const struct base *base);
void db_clock_destroy(struct db_clock *clock);

/* Returns the estimate: its last reading plus the monotonic time since. */
int64_t db_clock_us(const struct db_clock *clock);

/* Returns the actual time, from the last reading of the clock; it goes back with the clock. */
int64_t db_clock_shown_us(const struct db_clock *clock);

/* Returns the latest time that the clock can show now: the last heartbeat may have read it at any moment of its
 * duration. */
int64_t db_clock_latest_us(const struct db_clock *clock);

/* Returns the time to which the clock was last set back, as this or another manager saw it; 0: never. */
int64_t db_clock_set_back_us(const struct db_clock *clock);

/* The changes by a reading. */
enum {
	DB_CLOCK_JUMPED = 1, /* the clock has deviated from the monotonic clock since the last reading */
	DB_CLOCK_BACK = 2,   /* due tasks may be before the cursors: the clock was set back, or the estimate changed */
};

/* Reads the answer of a heartbeat that was sent at `sent_ms` (monotonic). Returns the changes, ored. */
unsigned db_clock_read(struct db_clock *clock, const struct store_manager_heartbeat *heartbeat, int64_t sent_ms);

#endif
