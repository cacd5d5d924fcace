/* Reads a list of stretches one after another, in pages. If the list is full, or a read fails or finds too much, the
 * cursor goes back instead. */
#include "manager/core/rescan.h"

#include "manager/core/ready.h"

#include <stdlib.h>
#include <string.h>

enum { STRETCHES_MAX = 256, PAGE = 1000 };

struct stretch {
	int route;
	int32_t priority;
	int64_t from_us, until_us, after_id;
};

struct late {
	struct base *base;
	struct ready_cache *cache;
	struct stretch list[STRETCHES_MAX];
	int count;
	bool reading; /* the first one is being read */
	struct store_rescan op;
};

struct late *rescan_create(struct base *base, struct ready_cache *cache)
{
	struct late *late = mem_calloc(1, sizeof *late);
	late->base = base;
	late->cache = cache;
	return late;
}

void rescan_destroy(struct late *late)
{
	free(late);
}

static void read_next(struct late *late);

static void first_done(struct late *late)
{
	memmove(late->list, late->list + 1, sizeof *late->list * (size_t)--late->count);
}

static void on_read(struct store_op *op, const struct reeve_error *error)
{
	struct late *late = (struct late *)((char *)op - offsetof(struct late, op));
	struct ready_cache *cache = late->cache;
	struct stretch *s = &late->list[0];
	late->reading = false;
	if (error) {
		ready_rewind(cache, s->route, s->priority, s->from_us);
		first_done(late);
	} else {
		bool added = ready_late(cache, s->route, s->priority, late->op.candidates, late->op.count);
		if (!added) {
			ready_rewind(cache, s->route, s->priority, s->from_us);
			first_done(late);
		} else if (late->op.count == late->op.limit) {
			s->from_us = late->op.candidates[late->op.count - 1].run_at_us;
			s->after_id = late->op.candidates[late->op.count - 1].id;
		} else {
			first_done(late);
		}
	}
	read_next(late);
	base_dispatch(late->base);
}

static void read_next(struct late *late)
{
	const struct stretch *s = &late->list[0];
	if (late->reading || !late->count)
		return;
	late->reading = true;
	late->op = (struct store_rescan){
	    .op.done = on_read,
	    .route = s->route,
	    .priority = s->priority,
	    .after_run_at_us = s->from_us,
	    .after_id = s->after_id,
	    .until_us = s->until_us,
	    .limit = PAGE,
	};
	store_rescan(late->base->store, &late->op);
}

static void rescan_add(struct late *late, int route, int32_t priority, int64_t from_us, int64_t until_us)
{
	/* Without the stretch being read: that read may have been too early. */
	for (int i = late->reading; i < late->count; i++) {
		const struct stretch *s = &late->list[i];
		if (s->route == route && s->priority == priority && s->from_us == from_us && s->until_us == until_us)
			return;
	}
	if (late->count == STRETCHES_MAX) {
		ready_rewind(late->cache, route, priority, from_us);
		return;
	}
	late->list[late->count++] = (struct stretch){route, priority, from_us, until_us, 0};
	read_next(late);
}

void rescan_rewind(struct late *late, int route, int32_t priority, int64_t from_us, int64_t until_us)
{
	if (until_us != STORE_TIME_NEVER && ready_passed_by(late->cache, route, priority, until_us))
		rescan_add(late, route, priority, from_us, until_us);
	else
		ready_rewind(late->cache, route, priority, from_us);
}
