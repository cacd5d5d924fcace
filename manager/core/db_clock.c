/* See db_clock.h. */
#include "manager/core/db_clock.h"

#include "common/log.h"

#include <stdlib.h>

enum { JUMP_MS = 250 };

/* The monotonic clock counts whole milliseconds: without this the estimate could be ahead, and a task claimed too
 * early. */
enum { ROUNDING_MS = 1 };

struct db_clock {
	const struct base *base;
	int64_t reading_us, reading_ms;               /* the reading that the estimate uses, and its monotonic time */
	int64_t shown_us, shown_from_ms, shown_to_ms; /* the clock at the last heartbeat, read between these two times */
	int64_t set_back_us;                          /* the clock at the last heartbeat that found it set back */
};

struct db_clock *db_clock_create(const struct base *base)
{
	struct db_clock *c = mem_calloc(1, sizeof *c);
	c->base = base;
	return c;
}

void db_clock_destroy(struct db_clock *c)
{
	free(c);
}

int64_t db_clock_us(const struct db_clock *c)
{
	return c->reading_us ? c->reading_us + (base_now(c->base) - c->reading_ms) * 1000 : 0;
}

int64_t db_clock_shown_us(const struct db_clock *c)
{
	return c->shown_us ? c->shown_us + (base_now(c->base) - c->shown_to_ms - ROUNDING_MS) * 1000 : 0;
}

int64_t db_clock_latest_us(const struct db_clock *c)
{
	return c->shown_us ? c->shown_us + (base_now(c->base) - c->shown_from_ms) * 1000 : 0;
}

int64_t db_clock_set_back_us(const struct db_clock *c)
{
	return c->set_back_us;
}

/* Returns by how many milliseconds the clock has deviated from the monotonic clock since the last heartbeat, beyond
 * what the duration of the two readings explains; 0 if that is no more than JUMP_MS. */
static int64_t jump_of(const struct db_clock *c, int64_t now_us, int64_t from_ms, int64_t to_ms)
{
	int64_t passed_ms = (now_us - c->shown_us) / 1000;
	int64_t min_ms = from_ms - c->shown_to_ms, max_ms = to_ms - c->shown_from_ms;
	int64_t jump_ms = passed_ms > max_ms ? passed_ms - max_ms : passed_ms < min_ms ? passed_ms - min_ms : 0;
	return jump_ms > JUMP_MS || jump_ms < -JUMP_MS ? jump_ms : 0;
}

/* Adopts the furthest estimate of all managers while the clock shows less than one of them has seen: the tasks of that
 * time must be claimed here, too. When no manager's estimate counts any more, sets an estimate that is ahead back to
 * the clock. Returns true if more tasks are due now. */
static bool follow_shared_estimate(
    struct db_clock *c, const struct store_manager_heartbeat *heartbeat, int64_t sent_ms, int64_t now_ms)
{
	int64_t min_us = heartbeat->ahead_us ? heartbeat->ahead_us : heartbeat->now_us;
	int64_t ahead_ms = (db_clock_us(c) - min_us) / 1000;
	if (heartbeat->ahead_us ? ahead_ms >= -JUMP_MS : ahead_ms <= now_ms - sent_ms + JUMP_MS)
		return false;
	c->reading_us = min_us;
	c->reading_ms = now_ms + ROUNDING_MS;
	if (!heartbeat->ahead_us)
		return false;
	if (!c->set_back_us)
		c->set_back_us = heartbeat->set_back_us;
	return true;
}

unsigned db_clock_read(struct db_clock *c, const struct store_manager_heartbeat *heartbeat, int64_t sent_ms)
{
	int64_t now_ms = base_now(c->base), jump_ms = c->shown_us ? jump_of(c, heartbeat->now_us, sent_ms, now_ms) : 0;
	bool back = jump_ms < 0;
	if (jump_ms)
		log_warn(NULL, "the database's clock has jumped by %lld ms", (long long)jump_ms);
	if (back)
		c->set_back_us = heartbeat->now_us;
	c->shown_us = heartbeat->now_us;
	c->shown_from_ms = sent_ms;
	c->shown_to_ms = now_ms;
	/* The estimate never goes back here: what was due stays due when the clock is set back. */
	if (heartbeat->now_us > db_clock_us(c)) {
		c->reading_us = heartbeat->now_us;
		c->reading_ms = now_ms + ROUNDING_MS;
	}
	back |= follow_shared_estimate(c, heartbeat, sent_ms, now_ms);
	return (jump_ms ? DB_CLOCK_JUMPED : 0) | (back ? DB_CLOCK_BACK : 0);
}
