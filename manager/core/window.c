/*
 * Streams hang in three places: in a hash by (route, priority), in their route's list, and, while their route is wanted and
 * they have or may have candidates, in the list of their priority. A candidate is in its stream's list, and in the hash
 * `known` by its id until its claim has ended, so that pages which overlap bring nothing twice.
 */
#include "manager/core/window.h"

#include "manager/core/dispatch.h"
#include "manager/core/late.h"
#include "manager/core/levels.h"
#include "manager/core/routes.h"
#include "manager/core/scopes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

enum {
	PAGE_SMALLEST = 100,
	PAGE_LARGEST = 5000,
	TRAIL_US = 5 * 1000 * 1000,  /* how far back a trailing look goes */
	TRAIL_EVERY_MS = 500,        /* what a manager that died has not told of is found within a second */
	LOOKS_AT_ONCE = 20,          /* trailing looks begun by one turn */
	ALL_EVERY_MS = 60 * 1000,
	LOOK_SHARE = 100,            /* looks take at most this part of the time */
	FIRST_REST_MS = 1500,        /* after a look that took longer than usual */
	RETRY_MS = 200,              /* after a failed read */
	NEAR_US = 2 * 1000 * 1000,   /* the cursor goes back by itself so far beyond a stretch */
	AHEAD_US = 1000 * 1000,      /* a version is so much later than our reckoning only if the clock was set back */
	OTHERS_MS = 500,             /* so long another manager is given to take a task of its slice */
	WHOLE_MS = 10 * 1000,        /* a stream that others do not see to is read whole for so long */
};

struct known {
	struct candidate c;
	bool taken; /* being claimed */
	bool probe; /* of another manager's slice: tried to see whether that one takes it */
	bool newer; /* it waits again in a later version, in this stream from this time on: */
	int32_t newer_route, newer_priority;
	int64_t newer_run_at;
	bool gone;  /* claimed while a page was read that may still show it as waiting: known until that has come */
	struct known *prev, *next;
	UT_hash_handle hh;
};

struct stream_key {
	int32_t route, priority;
};

struct stream {
	struct stream_key key;
	struct window *window;
	struct known *candidates;
	struct known *gone;     /* list */
	int count, taken;       /* candidates that wait, and that are being claimed */
	int64_t cursor_run_at, cursor_id;
	bool unread;            /* rows that are due may be behind the cursor's next step */
	bool reading, reread;   /* reread: the cursor went back while a page was read */
	bool noted;             /* tasks were noted while a page was read that may have begun before their commit: */
	int64_t noted_run_at, noted_id; /* they come after this */
	struct place place;     /* among the active streams */
	bool failed;            /* the last page could not be read */
	bool looking;           /* the page being read is a look, not progress */
	int64_t next_due_us;    /* the first task that is not due yet, by the database's clock as it is */
	int64_t trail_ms;       /* the next trailing look */
	int64_t retry_ms;       /* a read failed: not before this */
	int64_t look_began_ms, look_began_us;
	int64_t look_took_ms;   /* the last one */
	int64_t looked_us;      /* when the last one that has ended began, by the reckoning of the database's time */
	bool whole;             /* pages are read of all slices */
	int64_t whole_until_ms; /* … until then at least */
	struct store_candidate passed; /* the first task of another slice that was passed over; id 0: none */
	int64_t passed_ms;      /* when; it is tried some time after */
	bool probing;           /* it is, or has been: until a later one is passed over */
	struct store_page page;
	struct stream *route_prev, *route_next;
	UT_hash_handle hh;
};

/* What the window knows of a route. */
struct route_streams {
	bool unwanted;          /* no Fetch accepts it */
	struct stream *streams; /* list */
};

struct window {
	struct core *core;
	struct stream *streams; /* hash */
	struct levels active;
	struct route_streams *routes; /* by their numbers */
	int route_count;
	struct known *known;    /* hash */
	struct scopes *scopes;  /* which streams there are */
	int size;               /* candidates not taken */
	int64_t all_ms;         /* the next reading of everything */
	int slices, slice;      /* see window_slice */
};

struct window *window_create(struct core *core)
{
	struct window *w = calloc(1, sizeof *w);
	w->core = core;
	w->slices = 1;
	w->scopes = scopes_create(core, w);
	w->all_ms = core_now(core) + ALL_EVERY_MS;
	return w;
}

/* --- streams --------------------------------------------------------------------------------------------------- */

static struct stream *stream_find(struct window *w, int route, int32_t priority)
{
	struct stream_key key = {route, priority};
	struct stream *s;
	HASH_FIND(hh, w->streams, &key, sizeof key, s);
	return s;
}

static struct route_streams *streams_of_route(struct window *w, int route)
{
	if (route >= w->route_count) {
		int count = route + 1 > 2 * w->route_count ? route + 1 : 2 * w->route_count;
		w->routes = realloc(w->routes, sizeof *w->routes * (size_t)count);
		memset(w->routes + w->route_count, 0, sizeof *w->routes * (size_t)(count - w->route_count));
		w->route_count = count;
	}
	return &w->routes[route];
}

static bool stream_wanted(const struct stream *s)
{
	return !streams_of_route(s->window, s->key.route)->unwanted;
}

/* Lists or unlists the stream by what it has. */
static void stream_settle(struct stream *s)
{
	bool active = (s->count > 0 || s->unread) && stream_wanted(s);
	if (active && !s->place.level)
		levels_add(&s->window->active, &s->place, s->key.priority);
	else if (!active && s->place.level)
		levels_remove(&s->window->active, &s->place);
}

static struct stream *stream_add(struct window *w, int route, int32_t priority)
{
	struct stream *s = calloc(1, sizeof *s);
	s->key = (struct stream_key){route, priority};
	s->window = w;
	s->cursor_run_at = STORE_TIME_BEGIN;
	s->next_due_us = STORE_TIME_NEVER;
	s->unread = true;
	HASH_ADD(hh, w->streams, key, sizeof s->key, s);
	DL_APPEND2(streams_of_route(w, route)->streams, s, route_prev, route_next);
	stream_settle(s);
	return s;
}

/* Frees a stream without candidates. */
static void stream_free(struct stream *s)
{
	struct window *w = s->window;
	if (s->place.level)
		levels_remove(&w->active, &s->place);
	DL_DELETE2(streams_of_route(w, s->key.route)->streams, s, route_prev, route_next);
	HASH_DEL(w->streams, s);
	free(s);
}

void window_destroy(struct window *w)
{
	struct stream *s, *s_tmp;
	struct known *k, *k_tmp;
	HASH_ITER (hh, w->known, k, k_tmp) {
		HASH_DEL(w->known, k);
		free(k);
	}
	HASH_ITER (hh, w->streams, s, s_tmp)
		stream_free(s);
	free(w->routes);
	scopes_destroy(w->scopes);
	free(w);
}

static bool behind_cursor(const struct stream *s, int64_t run_at_us, int64_t id)
{
	return run_at_us < s->cursor_run_at || (run_at_us == s->cursor_run_at && id <= s->cursor_id);
}

/* While a page is read its end is not known: what was noted meanwhile may lie before it, and not be in it. */
static void note_position(struct stream *s, int64_t run_at_us, int64_t id)
{
	if (!s->reading)
		return;
	if (!s->noted || run_at_us < s->noted_run_at || (run_at_us == s->noted_run_at && id < s->noted_id)) {
		s->noted_run_at = run_at_us;
		s->noted_id = id;
	}
	s->noted = true;
}

static void cursor_back(struct stream *s, int64_t run_at_us, int64_t id)
{
	if (behind_cursor(s, run_at_us, id + 1)) {
		s->cursor_run_at = run_at_us;
		s->cursor_id = id;
		s->reread = s->reading;
	}
	note_position(s, run_at_us, id);
	s->unread = true;
	stream_settle(s);
}

/* --- candidates ------------------------------------------------------------------------------------------------ */

_Static_assert(offsetof(struct known, c) == 0, "a candidate is cast to what holds it");

/* A candidate that is being claimed waits again: it is read when its claim has ended. */
static void mark_newer(struct known *k, const struct stream *s, int64_t run_at_us)
{
	k->newer = true;
	k->newer_route = s->key.route;
	k->newer_priority = s->key.priority;
	k->newer_run_at = run_at_us;
}

static void gone_drop(struct window *w, struct known *k)
{
	DL_DELETE(k->c.stream->gone, k);
	HASH_DEL(w->known, k);
	free(k);
}

/* Enters a candidate unless it is known. A newer version of a known one replaces it. */
static void candidate_add(struct stream *s, const struct store_candidate *c)
{
	struct window *w = s->window;
	struct known *k;
	HASH_FIND(hh, w->known, &c->id, sizeof c->id, k);
	if (k && k->gone && c->version > k->c.version) {
		gone_drop(w, k); /* it waits again already */
		k = NULL;
	}
	if (k) {
		if (k->taken && c->version > k->c.version)
			mark_newer(k, s, c->run_at_us);
		else if (!k->gone && c->version > k->c.version && k->c.stream == s)
			k->c.version = c->version;
		return;
	}
	k = calloc(1, sizeof *k);
	k->c = (struct candidate){c->id, c->version, c->run_at_us, c->bytes, s};
	HASH_ADD(hh, w->known, c.id, sizeof k->c.id, k);
	DL_APPEND(s->candidates, k);
	s->count++;
	w->size++;
}

/* --- slices ------------------------------------------------------------------------------------------------------ */

static bool is_others(const struct window *w, int64_t id)
{
	return w->slices > 1 && id % w->slices != w->slice;
}

/* A task of another slice was passed over. The first one is remembered: reading goes back there when need be. */
static void pass_over(struct stream *s, const struct store_candidate *c)
{
	const struct store_candidate *was = &s->passed;
	if (was->id && (was->run_at_us < c->run_at_us || (was->run_at_us == c->run_at_us && was->id <= c->id)))
		return;
	s->passed = *c;
	s->passed_ms = core_now(s->window->core);
	s->probing = false;
}

/* Reads the stream whole, from the first task that was passed over. */
static void read_whole(struct stream *s, int64_t for_ms)
{
	struct store_candidate from = s->passed;
	s->whole = true;
	s->whole_until_ms = core_now(s->window->core) + for_ms;
	s->passed.id = 0;
	cursor_back(s, from.run_at_us, from.id - 1);
}

/* The first task that was passed over is tried when the others have had their time. Returns when that will be. */
static int64_t probe_passed(struct stream *s, int64_t now_ms)
{
	struct window *w = s->window;
	struct known *k;
	if (!s->passed.id)
		return INT64_MAX;
	if (s->probing) {
		HASH_FIND(hh, w->known, &s->passed.id, sizeof s->passed.id, k);
		if (k)
			return INT64_MAX;
		s->probing = false; /* its claim failed, or it does not wait any more: once again, later */
		s->passed_ms = now_ms;
	}
	if (now_ms < s->passed_ms + OTHERS_MS)
		return s->passed_ms + OTHERS_MS;
	s->probing = true;
	HASH_FIND(hh, w->known, &s->passed.id, sizeof s->passed.id, k);
	if (k)
		return INT64_MAX;
	candidate_add(s, &s->passed);
	HASH_FIND(hh, w->known, &s->passed.id, sizeof s->passed.id, k);
	k->probe = true;
	return INT64_MAX;
}

void window_slice(struct window *w, int slices, int slice)
{
	struct stream *s, *tmp;
	w->slices = slices;
	w->slice = slice;
	HASH_ITER (hh, w->streams, s, tmp) {
		s->passed.id = 0;
		s->whole = false;
	}
	window_rewind_all(w);
}

static void candidate_drop(struct window *w, struct known *k)
{
	if (!k->taken) {
		DL_DELETE(k->c.stream->candidates, k);
		k->c.stream->count--;
		w->size--;
		stream_settle(k->c.stream);
	}
	k->c.stream->taken -= k->taken;
	HASH_DEL(w->known, k);
	free(k);
}

/* Candidates of a stream that nobody wants make room for others': they are read again when somebody does. */
static void candidates_let_go(struct stream *s)
{
	while (s->candidates) {
		cursor_back(s, s->candidates->c.run_at_us, s->candidates->c.id - 1);
		candidate_drop(s->window, s->candidates);
	}
}

/* True if a task of this version and time may be claimed now, as window_page.sql says it. The version counts too: it is the
 * database's own time, and a little ahead of how it is reckoned here. */
static bool is_due(const struct window *w, int64_t run_at_us, int64_t version)
{
	int64_t clock_us = core_clock_us(w->core);
	return run_at_us <= clock_us || run_at_us <= version || clock_us == 0 ||
	    (version > clock_us + AHEAD_US && run_at_us <= core_database_us(w->core));
}

static void due_later(struct stream *s, int64_t run_at_us)
{
	struct core *core = s->window->core;
	note_position(s, run_at_us, 0);
	if (run_at_us >= s->next_due_us)
		return;
	s->next_due_us = run_at_us;
	core_alarm(core, core_now(core) + (run_at_us - core_clock_us(core)) / 1000 + 1);
}

void window_note(struct window *w, int route, int32_t priority, int64_t id, int64_t version, int64_t run_at_us,
    int32_t bytes)
{
	struct stream *s = stream_find(w, route, priority);
	struct known *k;
	if (route == 0)
		return; /* it waits to be admitted */
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	if (k && k->gone) {
		gone_drop(w, k);
		k = NULL;
	} else if (k && !k->taken) {
		candidate_drop(w, k); /* an older version, perhaps of another priority */
		k = NULL;
	}
	if (!s) {
		stream_add(w, route, priority); /* unread from its beginning */
		return;
	}
	if (run_at_us == STORE_TIME_NEVER)
		return; /* it is held until its batch has begun: that will be told */
	if (!is_due(w, run_at_us, version)) {
		due_later(s, run_at_us);
		return;
	}
	if (k || s->unread || s->reading || !stream_wanted(s) || run_at_us >= s->next_due_us || bytes < 0 || w->size >= w->core->options.window_limit) {
		/* The cursor will come by, or has to go back. */
		if (k)
			mark_newer(k, s, run_at_us);
		note_position(s, run_at_us, id - 1);
		if (behind_cursor(s, run_at_us, id))
			cursor_back(s, run_at_us, id - 1);
		else if (!s->unread) {
			s->unread = true;
			stream_settle(s);
		}
		return;
	}
	struct store_candidate c = {id, version, run_at_us, bytes};
	if (is_others(w, id) && s->count) /* its manager is told, too; with nothing else to do it is taken here */
		pass_over(s, &c);
	else
		candidate_add(s, &c);
	if (!behind_cursor(s, run_at_us, id)) {
		s->cursor_run_at = run_at_us;
		s->cursor_id = id;
	}
	stream_settle(s);
}

void window_rewind(struct window *w, int route, int32_t priority, int64_t run_at_us)
{
	struct stream *s = stream_find(w, route, priority);
	if (!s) {
		stream_add(w, route, priority);
		return;
	}
	if (is_due(w, run_at_us, 0))
		cursor_back(s, run_at_us, 0);
	else
		due_later(s, run_at_us);
}

void window_rewind_to(struct window *w, int route, int32_t priority, int64_t from_us, int64_t until_us)
{
	struct stream *s = stream_find(w, route, priority);
	if (s && is_due(w, until_us, 0) && s->cursor_run_at > until_us + NEAR_US)
		late_add(w->core->late, route, priority, from_us, until_us);
	else
		window_rewind(w, route, priority, from_us);
}

bool window_late(struct window *w, int route, int32_t priority, const struct store_candidate *candidates, int count)
{
	struct stream *s = stream_find(w, route, priority);
	if (w->size + count > w->core->options.window_limit || (s && !stream_wanted(s)))
		return false;
	if (!s) {
		stream_add(w, route, priority);
		return true;
	}
	for (int i = 0; i < count; i++)
		candidate_add(s, &candidates[i]);
	stream_settle(s);
	return true;
}

void window_rewind_all(struct window *w)
{
	struct stream *s, *tmp;
	/* Idle streams go; those that have tasks are found again. */
	HASH_ITER (hh, w->streams, s, tmp) {
		if (s->count || s->taken || s->reading) {
			cursor_back(s, STORE_TIME_BEGIN, 0);
			continue;
		}
		stream_free(s);
	}
	scopes_look_again(w->scopes);
	w->all_ms = core_now(w->core) + ALL_EVERY_MS;
	dispatch_run(w->core->dispatch);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* A look has ended. The next one comes when this has cost no more than its part of the time. One that took much longer than
 * the one before may have waited for something else, a database that stood still for instance, which is not what looks cost:
 * it puts the next one off by a little only. */
static void look_ended(struct stream *s, int64_t now_ms)
{
	int64_t took = now_ms - s->look_began_ms, cost = took < s->look_took_ms ? took : s->look_took_ms;
	int64_t rest = took * LOOK_SHARE < FIRST_REST_MS ? took * LOOK_SHARE : FIRST_REST_MS;
	rest = cost * LOOK_SHARE > rest ? cost * LOOK_SHARE : rest;
	s->look_took_ms = took;
	s->looked_us = s->look_began_us;
	s->trail_ms = now_ms + (rest > TRAIL_EVERY_MS ? rest : TRAIL_EVERY_MS);
}

static void on_page(struct store_op *op, const struct reeve_error *error)
{
	struct stream *s = (struct stream *)((char *)op - offsetof(struct stream, page));
	struct window *w = s->window;
	int64_t now = core_now(w->core);
	struct known *k, *tmp;
	s->reading = false;
	if (error) {
		DL_FOREACH_SAFE (s->gone, k, tmp)
			gone_drop(w, k);
		s->failed = true;
		s->retry_ms = now + RETRY_MS;
		core_alarm(w->core, s->retry_ms);
		return;
	}
	s->failed = false;
	w->core->counters.pages++;
	bool ended = s->page.count < s->page.limit;
	for (int i = 0; i < s->page.count; i++)
		candidate_add(s, &s->page.candidates[i]);
	DL_FOREACH_SAFE (s->gone, k, tmp)
		gone_drop(w, k);
	if (s->page.other.id)
		pass_over(s, &s->page.other);
	if (!s->reread) {
		if (s->page.count) {
			s->cursor_run_at = s->page.candidates[s->page.count - 1].run_at_us;
			s->cursor_id = s->page.candidates[s->page.count - 1].id;
		}
		s->unread = !ended || s->noted;
		if (ended && (!s->noted || s->page.next_due_us < s->next_due_us))
			s->next_due_us = s->page.next_due_us;
		if (ended && s->looking)
			look_ended(s, now);
		if (ended)
			s->looking = false;
	}
	s->reread = false;
	if (s->noted)
		cursor_back(s, s->noted_run_at, s->noted_id);
	s->noted = false;
	if (s->whole && now >= s->whole_until_ms)
		s->whole = false;
	else if (!s->whole && !s->unread && !s->count && s->passed.id)
		read_whole(s, 0); /* nothing of its own is left */
	if (s->next_due_us != STORE_TIME_NEVER)
		core_alarm(w->core, now + (s->next_due_us - core_clock_us(w->core)) / 1000 + 1);
	if (!stream_wanted(s))
		candidates_let_go(s);
	stream_settle(s);
	dispatch_run(w->core->dispatch);
}

void window_read_ahead(struct window *w, struct stream *s, int wanted)
{
	int room = w->core->options.window_limit - w->size;
	if (s->reading || !s->unread || s->count >= wanted || core_now(w->core) < s->retry_ms)
		return;
	int limit = 2 * (wanted - s->count);
	limit = limit < PAGE_SMALLEST ? PAGE_SMALLEST : limit > PAGE_LARGEST ? PAGE_LARGEST : limit;
	if (limit > room)
		limit = room;
	if (limit <= 0) {
		if (s->count > 0)
			return;
		limit = PAGE_SMALLEST; /* a full window must not keep a higher priority out */
	}
	s->reading = true;
	s->reread = s->noted = false;
	s->page = (struct store_page){
	    .op.done = on_page,
	    .route = s->key.route,
	    .priority = s->key.priority,
	    .after_run_at_us = s->cursor_run_at,
	    .after_id = s->cursor_id,
	    .due_us = core_database_us(w->core),
	    .limit = limit,
	    .slices = s->whole ? 1 : w->slices,
	    .slice = w->slice,
	};
	store_page(w->core->store, &s->page);
}

/* --- which routes are wanted ------------------------------------------------------------------------------------- */

void window_route_wanted(struct window *w, int route, bool wanted)
{
	struct route_streams *r = streams_of_route(w, route);
	struct stream *s;
	if (r->unwanted == !wanted)
		return;
	r->unwanted = !wanted;
	DL_FOREACH2 (r->streams, s, route_next) {
		if (!wanted)
			candidates_let_go(s);
		stream_settle(s);
	}
}

/* --- which streams there are ------------------------------------------------------------------------------------ */

void window_found(struct window *w, int route, int32_t priority)
{
	if (!stream_find(w, route, priority))
		stream_add(w, route, priority);
}

bool window_ready(struct window *w)
{
	return scopes_ready(w->scopes);
}

void window_routes_changed(struct window *w)
{
	scopes_routes_changed(w->scopes);
	dispatch_run(w->core->dispatch);
}

/* --- what the dispatcher uses ------------------------------------------------------------------------------------ */

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

int stream_count(const struct stream *s)
{
	return s->count;
}

bool stream_unread(const struct stream *s)
{
	return s->unread;
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

struct candidate window_take(struct window *w, const struct candidate *c)
{
	struct known *k = (struct known *)c; /* the candidate is the struct's first member */
	assert(!k->taken && !k->gone);
	DL_DELETE(c->stream->candidates, k);
	k->taken = true;
	k->c.stream->taken++;
	k->c.stream->count--;
	w->size--;
	return k->c;
}

void window_forget(struct window *w, int64_t id)
{
	struct known *k;
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	if (!k || k->gone)
		return;
	struct stream *s = k->c.stream;
	struct known was = *k;
	if (!s->reading || !k->taken || k->newer) {
		candidate_drop(w, k);
		if (was.newer)
			window_rewind(w, was.newer_route, was.newer_priority, was.newer_run_at);
		return;
	}
	k->taken = false;
	k->gone = true;
	s->taken--;
	DL_APPEND(s->gone, k);
}

void window_claimed(struct window *w, int64_t id, bool won)
{
	struct known *k;
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	struct stream *s = k && k->probe ? k->c.stream : NULL;
	window_forget(w, id);
	if (!s || s->passed.id != id)
		return;
	if (won)
		read_whole(s, WHOLE_MS);
	else
		s->passed.id = 0; /* another one took it, and will take the next */
}

void window_drop(struct window *w, int64_t id)
{
	struct known *k;
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	if (k && !k->taken && !k->gone)
		candidate_drop(w, k);
}

void window_release(struct window *w, const struct candidate *c)
{
	struct stream *s = c->stream;
	int64_t run_at = c->run_at_us, id = c->id;
	window_forget(w, id);
	cursor_back(s, run_at, id - 1);
}

int64_t window_turn(struct window *w, int64_t now_ms)
{
	int looks = 0, streams = (int)HASH_COUNT(w->streams);
	int64_t trail_every = TRAIL_EVERY_MS * (1 + streams / LOOKS_AT_ONCE);
	int64_t next = now_ms + TRAIL_EVERY_MS, now_us = core_database_us(w->core), clock_us = core_clock_us(w->core);
	struct stream *s, *tmp;
	bool wanted = dispatch_waiting(w->core->dispatch);
	if (now_ms >= w->all_ms && now_us) {
		window_rewind_all(w);
		return next;
	}
	HASH_ITER (hh, w->streams, s, tmp) {
		if (s->next_due_us <= clock_us) {
			int64_t due = s->next_due_us;
			s->next_due_us = STORE_TIME_NEVER;
			cursor_back(s, due, 0); /* a note may have moved it on meanwhile */
		} else if (s->next_due_us != STORE_TIME_NEVER) {
			int64_t due = now_ms + (s->next_due_us - clock_us) / 1000 + 1;
			next = due < next ? due : next;
		}
		if (wanted && stream_wanted(s) && !s->unread && !s->reading && now_ms >= s->trail_ms && looks++ < LOOKS_AT_ONCE) {
			/* The last seconds again, for what was committed late behind the cursor. */
			s->trail_ms = now_ms + trail_every;
			s->looking = true;
			s->look_began_ms = now_ms;
			s->look_began_us = now_us;
			w->core->counters.looks++;
			/* From where the last one looked; what is older than a minute has been read from the top since. */
			int64_t from_us = s->looked_us && s->looked_us < now_us ? s->looked_us : now_us;
			if (from_us < now_us - ALL_EVERY_MS * INT64_C(1000))
				from_us = now_us - ALL_EVERY_MS * INT64_C(1000);
			from_us -= TRAIL_US;
			if (s->cursor_run_at > from_us)
				cursor_back(s, from_us, 0);
			s->unread = true;
		}
		int64_t probe_ms = probe_passed(s, now_ms);
		next = probe_ms < next ? probe_ms : next;
		stream_settle(s);
	}
	scopes_turn(w->scopes);
	dispatch_run(w->core->dispatch);
	return next;
}

int window_size(const struct window *w)
{
	return w->size;
}

int window_streams(const struct window *w)
{
	return (int)HASH_COUNT(w->streams);
}
