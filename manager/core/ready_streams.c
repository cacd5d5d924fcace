/* The streams: which exist, which are listed, and the positions of their cursors. */
#include "manager/core/ready_internal.h"

#include "manager/core/discovery.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct stream *stream_find(struct ready_cache *cache, int route, int32_t priority)
{
	struct stream_key key = {route, priority};
	struct stream *s;
	HASH_FIND(hh, cache->streams, &key, sizeof key, s);
	return s;
}

struct route_streams *ready_route(struct ready_cache *cache, int route)
{
	if (route >= cache->route_count) {
		cache->routes = mem_extend(cache->routes, sizeof *cache->routes, &cache->route_count, route);
		cache->over = mem_realloc(cache->over, sizeof *cache->over * (size_t)cache->route_count);
	}
	return &cache->routes[route];
}

bool stream_wanted(const struct stream *s)
{
	return ready_route(s->cache, s->key.route)->wanted;
}

static void stream_unlist(struct stream *s)
{
	if (!s->place.level)
		return;
	levels_remove(&s->cache->active, &s->place);
	ready_route(s->cache, s->key.route)->active--;
}

void stream_update(struct stream *s)
{
	struct ready_cache *cache = s->cache;
	struct route_streams *r = ready_route(cache, s->key.route);
	bool suspended = s->suspended_until_ms && base_now(cache->base) < s->suspended_until_ms;
	bool active = (s->count > 0 || s->unread) && r->wanted && !suspended;
	if (active && !s->place.level) {
		levels_add(&cache->active, &s->place, s->key.priority);
		r->active++;
	} else if (!active && s->place.level) {
		stream_unlist(s);
		if (r->active < ready_route_limit(cache))
			discovery_more(cache->discovery, s->key.route);
	}
}

struct stream *stream_add(struct ready_cache *cache, int route, int32_t priority)
{
	struct route_streams *r = ready_route(cache, route);
	struct stream *s = mem_calloc(1, sizeof *s);
	s->key = (struct stream_key){route, priority};
	s->cache = cache;
	s->cursor_run_at = s->kept_run_at = STORE_TIME_BEGIN;
	s->next_due_us = STORE_TIME_NEVER;
	s->unread = UNREAD_CHANGE;
	s->unread_from_us = STORE_TIME_BEGIN;
	HASH_ADD(hh, cache->streams, key, sizeof s->key, s);
	DL_APPEND2(r->streams, s, route_prev, route_next);
	cache->routes_used += !r->count++;
	stream_update(s);
	ready_route_grown(cache, route);
	return s;
}

void stream_free(struct stream *s)
{
	struct ready_cache *cache = s->cache;
	struct route_streams *r = ready_route(cache, s->key.route);
	stream_unlist(s);
	deadlines_remove(&cache->timers, &s->timer);
	stream_forget_passed(s);
	DL_DELETE2(r->streams, s, route_prev, route_next);
	cache->routes_used -= !--r->count;
	HASH_DEL(cache->streams, s);
	free(s);
}

bool stream_behind_cursor(const struct stream *s, int64_t run_at_us, int64_t id)
{
	return run_at_us < s->cursor_run_at || (run_at_us == s->cursor_run_at && id <= s->cursor_id);
}

void stream_note_position(struct stream *s, int64_t run_at_us, int64_t id)
{
	if (!s->reading)
		return;
	if (!s->noted || run_at_us < s->noted_run_at || (run_at_us == s->noted_run_at && id < s->noted_id)) {
		s->noted_run_at = run_at_us;
		s->noted_id = id;
	}
	s->noted = true;
}

void stream_rewind(struct stream *s, int64_t run_at_us, int64_t id)
{
	if (stream_behind_cursor(s, run_at_us, id + 1)) {
		s->cursor_run_at = run_at_us;
		s->cursor_id = id;
		s->reread = s->reading;
	}
	if (run_at_us < s->kept_run_at || (run_at_us == s->kept_run_at && id < s->kept_id)) {
		s->kept_run_at = run_at_us;
		s->kept_id = id;
	}
	stream_note_position(s, run_at_us, id);
	s->too_long = false;
	if (s->unread <= UNREAD_POLL || run_at_us < s->unread_from_us)
		s->unread_from_us = run_at_us;
	if (s->unread != UNREAD_BACKLOG)
		s->unread = UNREAD_CHANGE;
	s->asked = false;
	stream_update(s);
}

void ready_route_wanted(struct ready_cache *cache, int route, bool wanted)
{
	struct route_streams *r = ready_route(cache, route);
	struct stream *s, *tmp;
	if (r->wanted == wanted)
		return;
	r->wanted = wanted;
	discovery_want(cache->discovery, route, wanted);
	DL_FOREACH_SAFE2 (r->streams, s, tmp, route_next) {
		if (!wanted)
			stream_let_go(s);
		if (!wanted && !s->taken && !s->reading) {
			stream_free(s);
			continue;
		}
		stream_update(s);
		stream_schedule(s);
		stream_read(s);
	}
}

void ready_read_passed(struct ready_cache *cache, bool (*accept)(void *arg, const struct stream *stream), void *arg)
{
	struct stream *s, *tmp;
	DL_FOREACH_SAFE2 (cache->passed, s, tmp, passed_next) {
		if (s->count || s->failed || !accept(arg, s))
			continue;
		stream_read_unsharded(s, 0);
		stream_read_asked(s);
	}
}

/* --- discovery and iteration ------------------------------------------------------------------------------------ */

bool ready_discovered(struct ready_cache *cache)
{
	ready_trim(cache);
	bool ready = discovery_ready(cache->discovery);
	ready_read_unread(cache);
	return ready;
}

bool ready_searches(const struct ready_cache *cache, bool (*accepts)(const void *arg, int route), const void *arg)
{
	return discovery_searches(cache->discovery, accepts, arg);
}

static struct stream *stream_at(struct place *place)
{
	return place ? (struct stream *)((char *)place - offsetof(struct stream, place)) : NULL;
}

void ready_match(struct ready_cache *cache)
{
	bool over = cache->rounds >= cache->held_until_round;
	cache->lets = cache->holding && over;
	cache->holding = !over;
}

struct stream *ready_first(struct ready_cache *cache)
{
	return stream_at(levels_first(&cache->active));
}

struct stream *ready_next(struct stream *s)
{
	return stream_at(levels_next(&s->place));
}

void ready_begin_at(struct stream *s)
{
	levels_begin_at(&s->place);
}

int stream_route(const struct stream *s)
{
	return s->key.route;
}

int32_t stream_priority(const struct stream *s)
{
	return s->key.priority;
}

int64_t stream_all_read_ms(const struct stream *s)
{
	return s->all_read_ms;
}

int stream_count(const struct stream *s)
{
	return s->count;
}

void stream_set_stuck(struct stream *s, int64_t waits)
{
	s->stuck = waits;
}

int64_t stream_stuck(const struct stream *s)
{
	return s->count ? s->stuck : 0;
}

bool stream_unread(const struct stream *s)
{
	return s->unread != UNREAD_NOTHING;
}

bool stream_failing(const struct stream *s)
{
	return s->failed;
}

const struct candidate *stream_peek(const struct stream *s)
{
	return s->candidates ? &s->candidates->c : NULL;
}

const struct candidate *stream_peek_next(const struct candidate *c)
{
	const struct known *next = ((const struct known *)c)->next;
	return next ? &next->c : NULL;
}
