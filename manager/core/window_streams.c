/* The streams: which exist, which are listed, and the positions of their cursors. */
#include "manager/core/window_internal.h"

#include "manager/core/discovery.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct stream *stream_find(struct window *w, int route, int32_t priority)
{
	struct stream_key key = {route, priority};
	struct stream *s;
	HASH_FIND(hh, w->streams, &key, sizeof key, s);
	return s;
}

struct route_streams *window_route(struct window *w, int route)
{
	if (route >= w->route_count) {
		w->routes = mem_extend(w->routes, sizeof *w->routes, &w->route_count, route);
		w->over = mem_realloc(w->over, sizeof *w->over * (size_t)w->route_count);
	}
	return &w->routes[route];
}

bool stream_wanted(const struct stream *s)
{
	return window_route(s->window, s->key.route)->wanted;
}

static void stream_unlist(struct stream *s)
{
	if (!s->place.level)
		return;
	levels_remove(&s->window->active, &s->place);
	window_route(s->window, s->key.route)->active--;
}

void stream_update(struct stream *s)
{
	struct window *w = s->window;
	struct route_streams *r = window_route(w, s->key.route);
	bool suspended = s->suspended_until_ms && base_now(w->base) < s->suspended_until_ms;
	bool active = (s->count > 0 || s->unread) && r->wanted && !suspended;
	if (active && !s->place.level) {
		levels_add(&w->active, &s->place, s->key.priority);
		r->active++;
	} else if (!active && s->place.level) {
		stream_unlist(s);
		if (r->active < window_route_limit(w))
			discovery_more(w->discovery, s->key.route);
	}
}

struct stream *stream_add(struct window *w, int route, int32_t priority)
{
	struct route_streams *r = window_route(w, route);
	struct stream *s = mem_calloc(1, sizeof *s);
	s->key = (struct stream_key){route, priority};
	s->window = w;
	s->cursor_run_at = STORE_TIME_BEGIN;
	s->next_due_us = STORE_TIME_NEVER;
	s->unread = UNREAD_CHANGE;
	s->unread_from_us = STORE_TIME_BEGIN;
	s->unread_round = w->rounds + 1;
	HASH_ADD(hh, w->streams, key, sizeof s->key, s);
	DL_APPEND2(r->streams, s, route_prev, route_next);
	w->routes_used += !r->count++;
	stream_update(s);
	window_route_grown(w, route);
	return s;
}

void stream_free(struct stream *s)
{
	struct window *w = s->window;
	struct route_streams *r = window_route(w, s->key.route);
	stream_unlist(s);
	deadlines_remove(&w->timers, &s->timer);
	stream_forget_passed(s);
	DL_DELETE2(r->streams, s, route_prev, route_next);
	w->routes_used -= !--r->count;
	HASH_DEL(w->streams, s);
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
	stream_note_position(s, run_at_us, id);
	s->too_long = false;
	if (s->unread <= UNREAD_POLL || run_at_us < s->unread_from_us)
		s->unread_from_us = run_at_us;
	if (s->unread != UNREAD_BACKLOG)
		s->unread = UNREAD_CHANGE;
	s->unread_round = s->window->rounds + 1;
	stream_update(s);
}

void window_route_wanted(struct window *w, int route, bool wanted)
{
	struct route_streams *r = window_route(w, route);
	struct stream *s, *tmp;
	if (r->wanted == wanted)
		return;
	r->wanted = wanted;
	discovery_want(w->discovery, route, wanted);
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

void window_read_passed(struct window *w, bool (*accept)(void *arg, const struct stream *stream), void *arg)
{
	struct stream *s, *tmp;
	DL_FOREACH_SAFE2 (w->passed, s, tmp, passed_next) {
		if (s->count || s->failed || !accept(arg, s))
			continue;
		stream_read_unsharded(s, 0);
		stream_read_asked(s);
	}
}

/* --- discovery and iteration ------------------------------------------------------------------------------------ */

bool window_ready(struct window *w)
{
	window_trim(w);
	bool ready = discovery_ready(w->discovery);
	window_read_unread(w);
	return ready;
}

bool window_searches(const struct window *w, bool (*accepts)(const void *arg, int route), const void *arg)
{
	return discovery_searches(w->discovery, accepts, arg);
}

static struct stream *stream_at(struct place *place)
{
	return place ? (struct stream *)((char *)place - offsetof(struct stream, place)) : NULL;
}

struct stream *window_first(struct window *w)
{
	return stream_at(levels_first(&w->active));
}

struct stream *window_next(struct stream *s)
{
	return stream_at(levels_next(&s->place));
}

int stream_route(const struct stream *s)
{
	return s->key.route;
}

int32_t stream_priority(const struct stream *s)
{
	return s->key.priority;
}

int64_t stream_whole_ms(const struct stream *s)
{
	return s->whole_ms;
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
