/*
 * The limit of the streams of a route. A stream is active if it has or may have candidates. When a route has more than
 * twice the limit, it keeps as many as the limit says, first the active ones, of these the highest priorities; the others
 * are dropped. Discovery goes on below those that are kept as soon as fewer than the limit are active. When a search from
 * the top finds enough of them, the active ones below are dropped.
 *
 * With the limit of candidates this bounds the cache's memory (invariant I7). The limit is above the number of tasks
 * that a Fetch may exclude, so that excluded tasks do not hide others.
 */
#include "manager/core/window_internal.h"

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

int window_route_limit(const struct window *w)
{
	int limit = w->base->options.priorities_limit, all = w->base->options.streams_limit;
	if ((int)HASH_COUNT(w->streams) <= all)
		return limit;
	int share = all / w->routes_used;
	share = share < STREAMS_LEAST ? STREAMS_LEAST : share;
	return share < limit ? share : limit;
}

static void trim_later(struct window *w, int route)
{
	struct route_streams *r = window_route(w, route);
	if (!r->over)
		w->over[w->over_count++] = route;
	r->over = true;
	jobs_at(w->base->jobs, JOB_STREAMS, r->trim_ms);
}

void window_route_grown(struct window *w, int route)
{
	if (window_route(w, route)->count > 2 * window_route_limit(w))
		trim_later(w, route);
}

bool window_enough(void *window, int route, int32_t from)
{
	struct window *w = window;
	struct route_streams *r = window_route(w, route);
	int limit = window_route_limit(w), found = 0;
	const struct stream *s;
	if (r->active < limit)
		return false;
	DL_FOREACH2 (r->streams, s, route_next)
		found += s->place.level && s->key.priority >= from;
	if (found >= limit && found < r->active) { /* those below must not go before what is unknown between them */
		r->cut = true;
		r->cut_below = from;
		trim_later(w, route);
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
	struct window *w = s->window;
	bool soon = s->count || s->unread || s->passed.id;
	if (!s->place.level)
		window_check_at(w, s->key.route, soon ? db_clock_shown_us(w->clock) + AGAIN_US : s->next_due_us);
	stream_let_go(s);
	stream_free(s);
}

/* Drops the active streams below a priority that are not in use. */
static void route_cut(struct window *w, int route, int32_t below)
{
	struct route_streams *r = window_route(w, route);
	struct stream *s, *tmp;
	r->cut = false;
	discovery_forget(w->discovery, route, below);
	DL_FOREACH_SAFE2 (r->streams, s, tmp, route_next)
		if (s->place.level && s->key.priority < below && !s->taken && !s->reading)
			drop(s);
}

static void route_trim(struct window *w, int route)
{
	struct route_streams *r = window_route(w, route);
	int limit = window_route_limit(w), count = 0, dropped = 0;
	if (r->cut)
		route_cut(w, route, r->cut_below);
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
		discovery_forget(w->discovery, route, all[limit]->key.priority + 1);
	for (int i = limit; i < limit + dropped; i++)
		drop(all[i]);
	free(all);
	if (r->count > 2 * limit)
		r->trim_ms = base_now(w->base) + TRIM_AGAIN_MS;
}

void window_trim(struct window *w)
{
	int count = w->over_count;
	w->over_count = 0;
	for (int i = 0; i < count; i++) {
		int route = w->over[i];
		struct route_streams *r = window_route(w, route);
		r->over = false;
		if (r->cut || r->trim_ms <= base_now(w->base)) {
			route_trim(w, route);
			if (r->active < window_route_limit(w))
				discovery_more(w->discovery, route);
		}
		window_route_grown(w, route);
	}
}

void window_check_at(struct window *w, int route, int64_t due_us)
{
	struct route_streams *r = window_route(w, route);
	if (due_us == STORE_TIME_NEVER)
		return;
	if (!r->check_us || due_us < r->check_us)
		r->check_us = due_us;
	int64_t soon_ms = base_now(w->base) + SOON_MS;
	if (!w->check_ms || soon_ms < w->check_ms)
		w->check_ms = soon_ms;
	jobs_at(w->base->jobs, JOB_STREAMS, w->check_ms);
}

int64_t window_check_dropped(struct window *w, int64_t now_ms)
{
	int64_t shown_us = db_clock_shown_us(w->clock), next_us = STORE_TIME_NEVER;
	if (!w->check_ms)
		return INT64_MAX;
	if (now_ms < w->check_ms)
		return w->check_ms;
	for (int route = 0; route < w->route_count; route++) {
		struct route_streams *r = &w->routes[route];
		if (!r->check_us)
			continue;
		if (!r->wanted || r->check_us <= shown_us) {
			r->check_us = 0;
			discovery_again(w->discovery, route);
		} else if (r->check_us < next_us) {
			next_us = r->check_us;
		}
	}
	int64_t left_ms = next_us == STORE_TIME_NEVER ? 0 : (next_us - shown_us) / 1000 + 1;
	left_ms = left_ms < SOON_MS ? SOON_MS : left_ms < CHECK_MS ? left_ms : CHECK_MS;
	w->check_ms = next_us == STORE_TIME_NEVER ? 0 : now_ms + left_ms;
	return w->check_ms ? w->check_ms : INT64_MAX;
}
