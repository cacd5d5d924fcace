/*
 * The limit of the streams of a route. A stream is active if it has or may have candidates. When a route has more than
 * twice the limit, it keeps as many as the limit says, first the active ones, of these the highest priorities; the
 * others are dropped. Discovery goes on below those that are kept as soon as fewer than the limit are active. When a
 * search from the top finds enough of them, the active ones below are dropped.
 *
 * With the limit of candidates this bounds the cache's memory (invariant I7). The limit is above the number of tasks
 * that a Fetch may exclude, so that excluded tasks do not hide others.
 */
#include "manager/core/ready_internal.h"

#include "manager/core/discovery.h"

#include <stdlib.h>
#include <utlist.h>

enum {
	STREAMS_LEAST = 4,   /* each route keeps so many, even if then all have more than their limit */
	TRIM_AGAIN_MS = 100, /* after streams in use could not be dropped */
	AGAIN_US = 1000000,  /* when to search for tasks of dropped streams that may be claimable soon */
	CHECK_MS = 1000,     /* the database's clock may jump: due times are checked at this interval */
	SOON_MS = 100,       /* the minimum interval */
};

int ready_route_limit(const struct ready_cache *cache)
{
	int limit = cache->base->options.priorities_limit, all = cache->base->options.streams_limit;
	if ((int)HASH_COUNT(cache->streams) <= all)
		return limit;
	int share = all / cache->routes_used;
	share = share < STREAMS_LEAST ? STREAMS_LEAST : share;
	return share < limit ? share : limit;
}

static void trim_later(struct ready_cache *cache, int route)
{
	struct route_streams *r = ready_route(cache, route);
	if (!r->over)
		cache->over[cache->over_count++] = route;
	r->over = true;
	jobs_at(cache->base->jobs, JOB_STREAMS, r->trim_ms);
}

void ready_route_grown(struct ready_cache *cache, int route)
{
	if (ready_route(cache, route)->count > 2 * ready_route_limit(cache))
		trim_later(cache, route);
}

bool ready_enough(void *arg, int route, int32_t from)
{
	struct ready_cache *cache = arg;
	struct route_streams *r = ready_route(cache, route);
	int limit = ready_route_limit(cache), found = 0;
	const struct stream *s;
	if (r->active < limit)
		return false;
	DL_FOREACH2 (r->streams, s, route_next)
		found += s->place.level && s->key.priority >= from;
	if (found >= limit && found < r->active) { /* those below must not go before what is unknown between them */
		r->cut = true;
		r->cut_below = from;
		trim_later(cache, route);
	}
	return found >= limit;
}

static int by_use(const void *a, const void *b)
{
	const struct stream *x = *(struct stream *const *)a, *y = *(struct stream *const *)b;
	if (!x->place.level != !y->place.level)
		return x->place.level ? -1 : 1;
	return (x->key.priority < y->key.priority) - (x->key.priority > y->key.priority);
}

/* Drops a stream. One that is not active may be above those kept, where discovery does not go on: notes when to search
 * for it again. */
static void drop(struct stream *s)
{
	struct ready_cache *cache = s->cache;
	bool soon = s->count || s->unread || s->passed.id;
	if (!s->place.level)
		ready_check_at(cache, s->key.route, soon ? db_clock_shown_us(cache->clock) + AGAIN_US : s->next_due_us);
	stream_let_go(s);
	stream_free(s);
}

/* Drops the active streams below a priority that are not in use. */
static void route_cut(struct ready_cache *cache, int route, int32_t below)
{
	struct route_streams *r = ready_route(cache, route);
	struct stream *s, *tmp;
	r->cut = false;
	discovery_forget(cache->discovery, route, below);
	DL_FOREACH_SAFE2 (r->streams, s, tmp, route_next)
		if (s->place.level && s->key.priority < below && !s->taken && !s->reading)
			drop(s);
}

static void route_trim(struct ready_cache *cache, int route)
{
	struct route_streams *r = ready_route(cache, route);
	int limit = ready_route_limit(cache), count = 0, dropped = 0;
	if (r->cut)
		route_cut(cache, route, r->cut_below);
	if (r->count <= 2 * limit)
		return;
	struct stream **all = mem_calloc((size_t)r->count, sizeof(struct stream *)), *s;
	DL_FOREACH2 (r->streams, s, route_next)
		all[count++] = s;
	qsort(all, (size_t)count, sizeof(struct stream *), by_use);
	for (int i = limit; i < count; i++)
		if (!all[i]->taken && !all[i]->reading)
			all[limit + dropped++] = all[i];
	if (dropped && all[limit]->place.level) /* the first one is the highest */
		discovery_forget(cache->discovery, route, all[limit]->key.priority + 1);
	for (int i = limit; i < limit + dropped; i++)
		drop(all[i]);
	free(all);
	if (r->count > 2 * limit)
		r->trim_ms = base_now(cache->base) + TRIM_AGAIN_MS;
}

void ready_trim(struct ready_cache *cache)
{
	int count = cache->over_count;
	cache->over_count = 0;
	for (int i = 0; i < count; i++) {
		int route = cache->over[i];
		struct route_streams *r = ready_route(cache, route);
		r->over = false;
		if (r->cut || r->trim_ms <= base_now(cache->base)) {
			route_trim(cache, route);
			if (r->active < ready_route_limit(cache))
				discovery_more(cache->discovery, route);
		}
		ready_route_grown(cache, route);
	}
}

void ready_check_at(struct ready_cache *cache, int route, int64_t due_us)
{
	struct route_streams *r = ready_route(cache, route);
	if (due_us == STORE_TIME_NEVER)
		return;
	if (!r->check_us || due_us < r->check_us)
		r->check_us = due_us;
	int64_t soon_ms = base_now(cache->base) + SOON_MS;
	if (!cache->check_ms || soon_ms < cache->check_ms)
		cache->check_ms = soon_ms;
	jobs_at(cache->base->jobs, JOB_STREAMS, cache->check_ms);
}

int64_t ready_check_dropped(struct ready_cache *cache, int64_t now_ms)
{
	int64_t shown_us = db_clock_shown_us(cache->clock), next_us = STORE_TIME_NEVER;
	if (!cache->check_ms)
		return INT64_MAX;
	if (now_ms < cache->check_ms)
		return cache->check_ms;
	for (int route = 0; route < cache->route_count; route++) {
		struct route_streams *r = &cache->routes[route];
		if (!r->check_us)
			continue;
		if (!r->wanted || r->check_us <= shown_us) {
			r->check_us = 0;
			discovery_again(cache->discovery, route);
		} else if (r->check_us < next_us) {
			next_us = r->check_us;
		}
	}
	int64_t left_ms = next_us == STORE_TIME_NEVER ? 0 : (next_us - shown_us) / 1000 + 1;
	left_ms = left_ms < SOON_MS ? SOON_MS : left_ms < CHECK_MS ? left_ms : CHECK_MS;
	cache->check_ms = next_us == STORE_TIME_NEVER ? 0 : now_ms + left_ms;
	return cache->check_ms ? cache->check_ms : INT64_MAX;
}
