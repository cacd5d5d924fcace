/*
 * A stream is in three places: in a hash by (route, priority), in the list of its route, and, while its route is wanted
 * and it has or may have candidates, in the list of its priority. A candidate is in the list of its stream, and in the
 * hash `known` by its id until its claim has ended, so that overlapping pages do not add it twice.
 */
#include "manager/core/window_internal.h"

#include "common/log.h"
#include "manager/core/discovery.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

enum {
	UNKNOWN_MS = 1000,         /* retry delay of the full rescan while the database's time is not known */
	HINTED_MAX = 10000,        /* limit of streams added by notifications within a minute; discovery finds more */
	NEAR_US = 2 * 1000 * 1000, /* a cursor up to this far beyond a late stretch is rewound (rescan.h) */
	AHEAD_US = 1000 * 1000,    /* a version so far ahead of the clock shows that the clock was set back */
	WHOLE_MS = 10 * 1000,      /* how long all shards of a stream are read if the others do not take its tasks */
};

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
	deadlines_free(&w->timers);
	free(w->routes);
	free(w->over);
	discovery_destroy(w->discovery);
	free(w);
}

_Static_assert(offsetof(struct known, c) == 0, "a candidate is cast to what holds it");

/* Records that a candidate whose claim is in flight waits again: it is read when the claim has ended. */
static void mark_newer(struct known *k, const struct stream *s, int64_t run_at_us)
{
	k->newer = true;
	k->newer_route = s->key.route;
	k->newer_priority = s->key.priority;
	k->newer_run_at = run_at_us;
}

void stream_drop_gone(struct window *w, struct known *k)
{
	DL_DELETE(k->c.stream->gone, k);
	HASH_DEL(w->known, k);
	free(k);
}

static void drop_candidate(struct window *w, struct known *k)
{
	if (!known_taken(k)) {
		DL_DELETE(k->c.stream->candidates, k);
		k->c.stream->count--;
		w->size--;
		stream_update(k->c.stream);
	}
	k->c.stream->taken -= known_taken(k);
	HASH_DEL(w->known, k);
	free(k);
}

bool window_too_long(const struct window *w, const struct store_candidate *c)
{
	struct base *base = w->base;
	if (!base->options.max_sent_bytes || c->bytes <= base->options.max_sent_bytes)
		return false;
	if (remarks_new(&base->remarks, REMARK_TOO_LONG, c->id, c->version, base_now(base)))
		log_warn(NULL,
		    "task %lld waits: its details have %d bytes, and this manager's messages hold %lld (--max-message)",
		    (long long)c->id, c->bytes, (long long)base->options.max_sent_bytes);
	return true;
}

void stream_add_candidate(struct stream *s, const struct store_candidate *c)
{
	struct window *w = s->window;
	struct known *k;
	if (window_too_long(w, c)) {
		s->too_long = true;
		return;
	}
	HASH_FIND(hh, w->known, &c->id, sizeof c->id, k);
	bool newer = k && c->version > k->c.version;
	if (newer && k->state == KNOWN_GONE) {
		stream_drop_gone(w, k); /* it already waits again */
		k = NULL;
	} else if (newer && !known_taken(k) && k->c.stream != s) {
		drop_candidate(w, k); /* its priority was changed */
		k = NULL;
	}
	if (k) {
		if (newer && known_taken(k))
			mark_newer(k, s, c->run_at_us);
		else if (newer)
			k->c.version = c->version;
		return;
	}
	k = mem_calloc(1, sizeof *k);
	k->c = (struct candidate){
	    .id = c->id, .version = c->version, .run_at_us = c->run_at_us, .bytes = c->bytes, .stream = s};
	HASH_ADD(hh, w->known, c.id, sizeof k->c.id, k);
	DL_APPEND(s->candidates, k);
	s->stuck = 0;
	s->count++;
	w->size++;
}

void stream_let_go(struct stream *s)
{
	while (s->candidates) {
		/* The analyzer misses that drop_candidate unlinks it. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		stream_rewind(s, s->candidates->c.run_at_us, s->candidates->c.id - 1);
		drop_candidate(s->window, s->candidates);
	}
}

/* Returns whether a task of this version and time may be claimed now, with the condition of window_page.sql. The
 * version also counts: it is the database's own time, and a little ahead of the estimate here. */
static bool is_due(const struct window *w, int64_t run_at_us, int64_t version)
{
	int64_t clock_us = db_clock_shown_us(w->clock);
	return run_at_us <= clock_us || run_at_us <= version || clock_us == 0 ||
	    (version > clock_us + AHEAD_US && run_at_us <= db_clock_us(w->clock));
}

static void due_later(struct stream *s, int64_t run_at_us)
{
	stream_note_position(s, run_at_us, 0);
	if (run_at_us >= s->next_due_us)
		return;
	s->next_due_us = run_at_us;
	stream_schedule(s);
}

/* Handles a waiting task. `k`: an earlier version of it, whose claim is in flight. */
static void note(struct stream *s, struct known *k, const struct store_candidate *c)
{
	struct window *w = s->window;
	if (c->run_at_us == STORE_TIME_NEVER)
		return; /* blocked until its batch has begun, which sends a notification */
	if (!is_due(w, c->run_at_us, c->version)) {
		due_later(s, c->run_at_us);
		return;
	}
	bool at_hand = !k && c->bytes >= 0 && w->size < w->base->options.window_limit && stream_wanted(s);
	/* The cursor will reach it, or has to be rewound. */
	if (!at_hand || s->unread == UNREAD_BACKLOG || c->run_at_us >= s->next_due_us) {
		if (k)
			mark_newer(k, s, c->run_at_us);
		stream_rewind(s, c->run_at_us, c->id - 1);
		return;
	}
	/* The manager of its shard is notified, too. It is taken here without other candidates, or if a Fetch waits for it. */
	if (window_is_others(w, c->id) && s->count &&
	    !w->fetches.take(w->fetches.arg, s->key.route, s->count + 1, w->size + 1)) {
		stream_pass_over(s, c);
		stream_schedule(s);
	} else {
		stream_add_candidate(s, c);
	}
	if (!s->unread && !s->reading && !stream_behind_cursor(s, c->run_at_us, c->id)) {
		s->cursor_run_at = c->run_at_us;
		s->cursor_id = c->id;
	}
}

/* Returns whether a stream is to be added of which a task is reported. Otherwise discovery finds the task, when the
 * route is wanted or when the streams of higher priorities run empty. */
static bool stream_missing(struct window *w, int route, int32_t priority)
{
	const struct route_streams *r = window_route(w, route);
	return r->wanted && (r->count < window_route_limit(w) || !discovery_will_find(w->discovery, route, priority));
}

void window_note(
    struct window *w, int route, int32_t priority, int64_t id, int64_t version, int64_t run_at_us, int32_t bytes)
{
	struct stream *s = stream_find(w, route, priority);
	struct known *k;
	if (route == 0)
		return; /* it is in the inbox */
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	if (k && k->state == KNOWN_GONE) {
		stream_drop_gone(w, k);
		k = NULL;
	} else if (k && !known_taken(k)) {
		drop_candidate(w, k); /* an older version, perhaps of another priority */
		k = NULL;
	}
	if (!s && !stream_missing(w, route, priority))
		return;
	if (!s) {
		s = stream_add(w, route, priority);
		if (s->unread == UNREAD_CHANGE)
			s->unread = UNREAD_POLL; /* no barrier: the noted task is all that is known of it */
	}
	note(s, k, &(struct store_candidate){id, version, run_at_us, bytes});
	stream_update(s);
	stream_read(s);
}

void window_rewind(struct window *w, int route, int32_t priority, int64_t run_at_us)
{
	struct stream *s = stream_find(w, route, priority);
	if (!s && !stream_missing(w, route, priority))
		return;
	if (!s && w->hinted == HINTED_MAX) {
		window_poll_again(w, run_at_us);
		return;
	}
	if (!s) {
		s = stream_add(w, route, priority);
		s->unread_from_us = run_at_us; /* only later tasks wait until it has been read */
		w->hinted++;
	}
	if (is_due(w, run_at_us, 0))
		stream_rewind(s, run_at_us, 0);
	else
		due_later(s, run_at_us);
	stream_read(s);
}

bool window_passed_by(struct window *w, int route, int32_t priority, int64_t run_at_us)
{
	const struct stream *s = stream_find(w, route, priority);
	return s && is_due(w, run_at_us, 0) && s->cursor_run_at > run_at_us + NEAR_US;
}

bool window_late(struct window *w, int route, int32_t priority, const struct store_candidate *candidates, int count)
{
	struct stream *s = stream_find(w, route, priority);
	if (w->size + count > w->base->options.window_limit || !window_route(w, route)->wanted)
		return false;
	if (!s) {
		if (stream_missing(w, route, priority))
			stream_read(stream_add(w, route, priority));
		return true;
	}
	for (int i = 0; i < count; i++)
		stream_add_candidate(s, &candidates[i]);
	stream_update(s);
	return true;
}

static bool read_all(void *arg)
{
	struct window *w = arg;
	if (!db_clock_us(w->clock))
		jobs_at(w->base->jobs, JOB_STREAMS_ALL, base_now(w->base) + UNKNOWN_MS);
	else if (base_now(w->base) < w->all_ms) /* all have been read since */
		jobs_at(w->base->jobs, JOB_STREAMS_ALL, w->all_ms);
	else
		window_rewind_all(w);
	return false;
}

void window_rewind_all(struct window *w)
{
	struct stream *s, *tmp;
	/* Idle streams are freed; discovery adds those that have tasks. */
	HASH_ITER (hh, w->streams, s, tmp) {
		if (s->count || s->taken || s->reading) {
			stream_rewind(s, STORE_TIME_BEGIN, 0);
			stream_read(s);
			continue;
		}
		stream_free(s);
	}
	w->hinted = 0;
	discovery_rescan(w->discovery, true);
	w->all_ms = base_now(w->base) + WINDOW_ALL_EVERY_MS;
	base_dispatch(w->base);
}

void window_poll_again(struct window *w, int64_t run_at_us)
{
	if (run_at_us < w->again_from_us)
		w->again_from_us = run_at_us;
	jobs_ask(w->base->jobs, JOB_STREAMS_LATE);
}

static bool rescan_late(void *arg)
{
	struct window *w = arg;
	struct stream *s, *tmp;
	HASH_ITER (hh, w->streams, s, tmp) {
		stream_rewind(s, w->again_from_us, 0);
		s->trail_ms = base_now(w->base);
		stream_schedule(s);
		stream_read(s);
	}
	w->again_from_us = STORE_TIME_NEVER;
	discovery_rescan(w->discovery, false);
	jobs_done(w->base->jobs, JOB_STREAMS_LATE, NULL, false);
	return true;
}

struct candidate window_take(struct window *w, const struct candidate *c)
{
	struct known *k = (struct known *)c; /* the candidate is the struct's first member */
	assert(k->state == KNOWN_WAITS);
	DL_DELETE(c->stream->candidates, k);
	k->state = KNOWN_CLAIMED;
	k->c.stream->taken++;
	k->c.stream->count--;
	w->size--;
	stream_update(k->c.stream);
	return k->c;
}

void window_forget(struct window *w, int64_t id)
{
	struct known *k;
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	if (!k || k->state == KNOWN_GONE)
		return;
	struct stream *s = k->c.stream;
	struct known was = *k;
	if (!s->reading || !known_taken(k) || k->newer) {
		drop_candidate(w, k);
		if (was.newer)
			window_rewind(w, was.newer_route, was.newer_priority, was.newer_run_at);
		return;
	}
	k->state = KNOWN_GONE;
	s->taken--;
	DL_APPEND(s->gone, k);
}

void window_claimed(struct window *w, int64_t id, bool won)
{
	struct known *k;
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	struct stream *s = k && k->probe ? k->c.stream : NULL;
	if (k && won && k->c.stream->suspended_ms) { /* not all of its tasks are locked */
		k->c.stream->suspended_ms = k->c.stream->suspended_until_ms = 0;
		stream_update(k->c.stream);
	}
	window_forget(w, id);
	if (!s || s->passed.id != id)
		return;
	if (won)
		stream_read_unsharded(s, WHOLE_MS);
	else
		stream_passed_lost(s); /* another manager took it, and should take the next ones */
}

void window_drop(struct window *w, int64_t id)
{
	struct known *k;
	HASH_FIND(hh, w->known, &id, sizeof id, k);
	if (k && k->state == KNOWN_WAITS)
		drop_candidate(w, k);
}

void window_release(struct window *w, const struct candidate *c)
{
	struct stream *s = c->stream;
	int64_t run_at = c->run_at_us, id = c->id;
	window_forget(w, id);
	if (s->passed.id == id) {
		stream_passed_lost(s); /* a search finds it if it still waits, and holds up no other stream */
		return;
	}
	stream_rewind(s, run_at, id - 1);
	stream_read(s);
}

enum window_has window_has(struct window *w, int route, int32_t priority, int64_t run_at_us)
{
	const struct stream *s = stream_find(w, route, priority);
	if (s && (s->passed.id || s->too_long))
		return WINDOW_OTHERS;
	if (!s || s->count || s->unread || s->reading || s->next_due_us <= run_at_us)
		return WINDOW_WAITING;
	return s->taken ? WINDOW_CLAIMING : WINDOW_NOTHING;
}

int window_size(const struct window *w)
{
	return w->size;
}

bool window_reads(const struct window *w, bool (*accepts)(const void *arg, int route), const void *arg)
{
	for (const struct stream *s = w->streams; s; s = s->hh.next)
		if (s->reading && s->unread > UNREAD_POLL && accepts(arg, s->key.route))
			return true;
	return false;
}

bool window_reads_passed(
    const struct window *w, bool (*accepts)(const void *arg, int route), const void *arg, int32_t above)
{
	for (const struct stream *s = w->streams; s; s = s->hh.next)
		if (s->whole && s->reading && s->unread > UNREAD_POLL && s->key.priority > above && accepts(arg, s->key.route))
			return true;
	return false;
}

int64_t window_rounds(const struct window *w)
{
	return w->rounds;
}

int window_streams(const struct window *w)
{
	return (int)HASH_COUNT(w->streams);
}

static void found(void *arg, int route, int32_t priority, int64_t first_us)
{
	struct window *w = arg;
	const struct route_streams *r = window_route(w, route);
	if (!r->wanted || stream_find(w, route, priority))
		return;
	/* By the estimate: a task from before the clock was set back is due, and its version is not known here. */
	if (r->count >= window_route_limit(w) && first_us > db_clock_us(w->clock) && !is_due(w, first_us, 0)) {
		window_check_at(w, route, first_us);
		return;
	}
	struct stream *s = stream_add(w, route, priority);
	s->unread = UNREAD_BACKLOG;
	s->unread_from_us = first_us;
	stream_read(s);
}

struct window *window_create(struct base *base, const struct db_clock *clock, const struct window_fetches *fetches)
{
	struct window *w = mem_calloc(1, sizeof *w);
	w->base = base;
	w->clock = clock;
	w->fetches = *fetches;
	w->slices = 1;
	w->discovery = discovery_create(base, &(struct discovery_user){found, window_enough, w});
	w->again_from_us = STORE_TIME_NEVER;
	jobs_bind(base->jobs, JOB_STREAMS, window_fire, w);
	jobs_bind(base->jobs, JOB_STREAMS_LATE, rescan_late, w);
	jobs_bind(base->jobs, JOB_STREAMS_ALL, read_all, w);
	return w;
}
