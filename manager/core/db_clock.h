/*
 * The database's clock, as the ticks of this manager and of the others have told it: as it is, and as this manager estimates the time
 * that has been counted by. The estimate does not follow a clock that is set back; it returns to the clock when that shows as late
 * a time as it ever has. Times are microseconds since 1970; 0 before the first reading.
 */
#ifndef REEVE_MANAGER_CORE_DB_CLOCK_H
#define REEVE_MANAGER_CORE_DB_CLOCK_H

#include "manager/core/base.h"

struct db_clock;

struct db_clock *db_clock_create(const struct base *base);
void db_clock_destroy(struct db_clock *clock);

/* The estimate: its last reading plus the monotonic time since. */
int64_t db_clock_us(const struct db_clock *clock);

/* The clock as it is, by its last reading: it goes back when that does. */
int64_t db_clock_shown_us(const struct db_clock *clock);

/* The latest that the clock may show now, whenever during the last tick it was read. */
int64_t db_clock_latest_us(const struct db_clock *clock);

/* What the clock showed when it was last set back, as this or another manager saw it; 0: never. */
int64_t db_clock_set_back_us(const struct db_clock *clock);

/* What a reading has changed. */
enum {
	DB_CLOCK_JUMPED = 1, /* the clock has run differently from ours since the last one */
	DB_CLOCK_BACK = 2,   /* what is due now may lie behind what has been read: it was set back, or the estimate was changed */
};

/* A tick that was sent at `sent_ms` has come back. Returns what it has changed, ored. */
unsigned db_clock_read(struct db_clock *clock, const struct store_tick *tick, int64_t sent_ms);

#endif
