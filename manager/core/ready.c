/*
 * A stream is in three places: in a hash by (route, priority), in the list of its route, and, while its route is wanted
 * and it has or may have candidates, in the list of its priority. A candidate is in the list of its stream, and in the
 * hash `known` by its id until its claim has ended, so that overlapping pages do not add it twice.
 */
#include "manager/core/ready_internal.h"

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

void ready_destroy(struct ready_cache *cache)
{
	struct stream *s, *s_tmp;
	struct known *k, *k_tmp;
	HASH_ITER (hh, cache->known, k, k_tmp) {
		HASH_DEL(cache->known, k);
		free(k);
	}
	HASH_ITER (hh, cache->streams, s, s_tmp)
		stream_free(s);
	deadlines_free(&cache->timers);
	free(cache->routes);
	free(cache->over);
	discovery_destroy(cache->discovery);
	free(cache);
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

void stream_drop_gone(struct ready_cache *cache, struct known *k)
{
	DL_DELETE(k->c.stream->gone, k);
	HASH_DEL(cache->known, k);
	free(k);
}

static void drop_candidate(struct ready_cache *cache, struct known *k)
{
	if (!known_taken(k)) {
		DL_DELETE(k->c.stream->candidates, k);
		k->c.stream->count--;
		cache->size--;
		stream_update(k->c.stream);
	}
	k->c.stream->taken -= known_taken(k);
	HASH_DEL(cache->known, k);
	free(k);
}

bool ready_too_long(const struct ready_cache *cache, const struct store_candidate *c)
{
	struct base *base = cache->base;
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
	struct ready_cache *cache = s->cache;
	struct known *k;
	if (ready_too_long(cache, c)) {
		s->too_long = true;
		return;
	}
	HASH_FIND(hh, cache->known, &c->id, sizeof c->id, k);
	bool newer = k && c->version > k->c.version;
	if (newer && k->state == KNOWN_GONE) {
		stream_drop_gone(cache, k); /* it already waits again */
		k = NULL;
	} else if (newer && !known_taken(k) && k->c.stream != s) {
		drop_candidate(cache, k); /* its priority was changed */
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
	HASH_ADD(hh, cache->known, c.id, sizeof k->c.id, k);
	DL_APPEND(s->candidates, k);
	s->stuck = 0;
	s->count++;
	cache->size++;
}

void stream_let_go(struct stream *s)
{
	while (s->candidates) {
		/* The analyzer misses that drop_candidate unlinks it. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		stream_rewind(s, s->candidates->c.run_at_us, s->candidates->c.id - 1);
		drop_candidate(s->cache, s->candidates);
	}
}

/* Returns whether a task of this version and time may be claimed now, with the condition of ready_page.sql. The
 * version also counts: it is the database's own time, and a little ahead of the estimate here. */
static bool is_due(const struct ready_cache *cache, int64_t run_at_us, int64_t version)
{
	int64_t clock_us = db_clock_shown_us(cache->clock);
	return run_at_us <= clock_us || run_at_us <= version || clock_us == 0 ||
	    (version > clock_us + AHEAD_US && run_at_us <= db_clock_us(cache->clock));
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
	struct ready_cache *cache = s->cache;
	if (c->run_at_us == STORE_TIME_NEVER)
		return; /* blocked until its batch has begun, which sends a notification */
	if (!is_due(cache, c->run_at_us, c->version)) {
		due_later(s, c->run_at_us);
		return;
	}
	bool at_hand = !k && c->bytes >= 0 && cache->size < cache->base->options.ready_limit && stream_wanted(s);
	/* The cursor will reach it, or has to be rewound. */
	if (!at_hand || s->unread == UNREAD_BACKLOG || c->run_at_us >= s->next_due_us) {
		if (k)
			mark_newer(k, s, c->run_at_us);
		stream_rewind(s, c->run_at_us, c->id - 1);
		return;
	}
	/* The manager of its shard is notified, too. It is taken here without other candidates, or if a Fetch waits for it.
	 */
	if (ready_is_others(cache, c->id) && s->count &&
	    !cache->fetches.take(cache->fetches.arg, s->key.route, s->count + 1, cache->size + 1)) {
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
static bool stream_missing(struct ready_cache *cache, int route, int32_t priority)
{
	const struct route_streams *r = ready_route(cache, route);
	return r->wanted &&
	    (r->count < ready_route_limit(cache) || !discovery_will_find(cache->discovery, route, priority));
}

void ready_note(struct ready_cache *cache, int route, int32_t priority, int64_t id, int64_t version, int64_t run_at_us,
    int32_t bytes)
{
	struct stream *s = stream_find(cache, route, priority);
	struct known *k;
	if (route == 0)
		return; /* it is in the inbox */
	HASH_FIND(hh, cache->known, &id, sizeof id, k);
	if (k && k->state == KNOWN_GONE) {
		stream_drop_gone(cache, k);
		k = NULL;
	} else if (k && !known_taken(k)) {
		drop_candidate(cache, k); /* an older version, perhaps of another priority */
		k = NULL;
	}
	if (!s && !stream_missing(cache, route, priority))
		return;
	if (!s) {
		s = stream_add(cache, route, priority);
		if (s->unread == UNREAD_CHANGE)
			s->unread = UNREAD_POLL; /* no barrier: the noted task is all that is known of it */
	}
	note(s, k, &(struct store_candidate){id, version, run_at_us, bytes});
	stream_update(s);
	stream_read(s);
}

void ready_rewind(struct ready_cache *cache, int route, int32_t priority, int64_t run_at_us)
{
	struct stream *s = stream_find(cache, route, priority);
	if (!s && !stream_missing(cache, route, priority))
		return;
	if (!s && cache->hinted == HINTED_MAX) {
		ready_poll_again(cache, run_at_us);
		return;
	}
	if (!s) {
		s = stream_add(cache, route, priority);
		s->unread_from_us = run_at_us; /* only later tasks wait until it has been read */
		cache->hinted++;
	}
	if (is_due(cache, run_at_us, 0))
		stream_rewind(s, run_at_us, 0);
	else
		due_later(s, run_at_us);
	stream_read(s);
}

bool ready_passed_by(struct ready_cache *cache, int route, int32_t priority, int64_t run_at_us)
{
	const struct stream *s = stream_find(cache, route, priority);
	return s && is_due(cache, run_at_us, 0) && s->cursor_run_at > run_at_us + NEAR_US;
}

bool ready_late(
    struct ready_cache *cache, int route, int32_t priority, const struct store_candidate *candidates, int count)
{
	struct stream *s = stream_find(cache, route, priority);
	if (cache->size + count > cache->base->options.ready_limit || !ready_route(cache, route)->wanted)
		return false;
	if (!s) {
		if (stream_missing(cache, route, priority))
			stream_read(stream_add(cache, route, priority));
		return true;
	}
	for (int i = 0; i < count; i++)
		stream_add_candidate(s, &candidates[i]);
	stream_update(s);
	return true;
}

static bool read_all(void *arg)
{
	struct ready_cache *cache = arg;
	if (!db_clock_us(cache->clock))
		jobs_at(cache->base->jobs, JOB_STREAMS_ALL, base_now(cache->base) + UNKNOWN_MS);
	else if (base_now(cache->base) < cache->all_ms) /* all have been read since */
		jobs_at(cache->base->jobs, JOB_STREAMS_ALL, cache->all_ms);
	else
		ready_rewind_all(cache);
	return false;
}

/* Rewinds the stream to its beginning, and keeps its place. If it has not been read since the last time, it has that.
 */
static void rewind_all(struct stream *s)
{
	bool moved = s->cursor_run_at != STORE_TIME_BEGIN;
	int64_t run_at_us = moved ? s->cursor_run_at : s->kept_run_at, id = moved ? s->cursor_id : s->kept_id;
	stream_rewind(s, STORE_TIME_BEGIN, 0);
	s->kept_run_at = run_at_us;
	s->kept_id = id;
}

void ready_rewind_all(struct ready_cache *cache)
{
	struct stream *s, *tmp;
	/* Idle streams are freed; discovery adds those that have tasks. But it may fail where an old transaction keeps dead
	 * rows: what is known to have more, now or later, is kept. */
	HASH_ITER (hh, cache->streams, s, tmp) {
		if (s->count || s->taken || s->reading || s->unread == UNREAD_BACKLOG || s->next_due_us != STORE_TIME_NEVER) {
			rewind_all(s);
			stream_read(s);
			continue;
		}
		stream_free(s);
	}
	cache->hinted = 0;
	discovery_rescan(cache->discovery, true);
	cache->all_ms = base_now(cache->base) + READY_ALL_EVERY_MS;
	base_dispatch(cache->base);
}

void ready_poll_again(struct ready_cache *cache, int64_t run_at_us)
{
	if (run_at_us < cache->again_from_us)
		cache->again_from_us = run_at_us;
	jobs_ask(cache->base->jobs, JOB_STREAMS_LATE);
}

static bool rescan_late(void *arg)
{
	struct ready_cache *cache = arg;
	struct stream *s, *tmp;
	HASH_ITER (hh, cache->streams, s, tmp) {
		stream_rewind(s, cache->again_from_us, 0);
		s->trail_ms = base_now(cache->base);
		stream_schedule(s);
		stream_read(s);
	}
	cache->again_from_us = STORE_TIME_NEVER;
	discovery_rescan(cache->discovery, false);
	jobs_done(cache->base->jobs, JOB_STREAMS_LATE, NULL, false);
	return true;
}

struct candidate ready_take(struct ready_cache *cache, const struct candidate *c)
{
	struct known *k = (struct known *)c; /* the candidate is the struct's first member */
	assert(k->state == KNOWN_WAITS);
	DL_DELETE(c->stream->candidates, k);
	k->state = KNOWN_CLAIMED;
	k->c.stream->taken++;
	k->c.stream->count--;
	cache->size--;
	stream_update(k->c.stream);
	return k->c;
}

void ready_forget(struct ready_cache *cache, int64_t id)
{
	struct known *k;
	HASH_FIND(hh, cache->known, &id, sizeof id, k);
	if (!k || k->state == KNOWN_GONE)
		return;
	struct stream *s = k->c.stream;
	struct known was = *k;
	if (!s->reading || !known_taken(k) || k->newer) {
		drop_candidate(cache, k);
		if (was.newer)
			ready_rewind(cache, was.newer_route, was.newer_priority, was.newer_run_at);
		return;
	}
	k->state = KNOWN_GONE;
	s->taken--;
	DL_APPEND(s->gone, k);
}

void ready_claimed(struct ready_cache *cache, int64_t id, bool won)
{
	struct known *k;
	HASH_FIND(hh, cache->known, &id, sizeof id, k);
	struct stream *s = k && k->probe ? k->c.stream : NULL;
	if (k && won && k->c.stream->suspended_ms) { /* not all of its tasks are locked */
		k->c.stream->suspended_ms = k->c.stream->suspended_until_ms = 0;
		stream_update(k->c.stream);
	}
	ready_forget(cache, id);
	if (!s || s->passed.id != id)
		return;
	if (won)
		stream_read_unsharded(s, WHOLE_MS);
	else
		stream_passed_lost(s); /* another manager took it, and should take the next ones */
}

void ready_drop(struct ready_cache *cache, int64_t id)
{
	struct known *k;
	HASH_FIND(hh, cache->known, &id, sizeof id, k);
	if (k && k->state == KNOWN_WAITS)
		drop_candidate(cache, k);
}

void ready_release(struct ready_cache *cache, const struct candidate *c)
{
	struct stream *s = c->stream;
	int64_t run_at = c->run_at_us, id = c->id;
	ready_forget(cache, id);
	if (s->passed.id == id) {
		stream_passed_lost(s); /* a search finds it if it still waits, and holds up no other stream */
		return;
	}
	stream_rewind(s, run_at, id - 1);
	stream_read(s);
}

enum ready_has ready_has(struct ready_cache *cache, int route, int32_t priority, int64_t run_at_us)
{
	const struct stream *s = stream_find(cache, route, priority);
	if (s && (s->passed.id || s->too_long))
		return READY_OTHERS;
	if (!s || s->count || s->unread || s->reading || s->next_due_us <= run_at_us)
		return READY_WAITING;
	return s->taken ? READY_CLAIMING : READY_NOTHING;
}

int ready_size(const struct ready_cache *cache)
{
	return cache->size;
}

bool ready_reads(const struct ready_cache *cache, bool (*accepts)(const void *arg, int route), const void *arg)
{
	for (const struct stream *s = cache->streams; s; s = s->hh.next)
		if (s->reading && s->unread > UNREAD_POLL && accepts(arg, s->key.route))
			return true;
	return false;
}

bool ready_reads_passed(
    const struct ready_cache *cache, bool (*accepts)(const void *arg, int route), const void *arg, int32_t above)
{
	for (const struct stream *s = cache->streams; s; s = s->hh.next)
		if (s->all_shards && s->reading && s->unread > UNREAD_POLL && s->key.priority > above &&
		    accepts(arg, s->key.route))
			return true;
	return false;
}

int64_t ready_rounds(const struct ready_cache *cache)
{
	return cache->rounds;
}

int ready_streams(const struct ready_cache *cache)
{
	return (int)HASH_COUNT(cache->streams);
}

static void found(void *arg, int route, int32_t priority, int64_t first_us)
{
	struct ready_cache *cache = arg;
	const struct route_streams *r = ready_route(cache, route);
	if (!r->wanted || stream_find(cache, route, priority))
		return;
	/* By the estimate: a task from before the clock was set back is due, and its version is not known here. */
	if (r->count >= ready_route_limit(cache) && first_us > db_clock_us(cache->clock) && !is_due(cache, first_us, 0)) {
		ready_check_at(cache, route, first_us);
		return;
	}
	struct stream *s = stream_add(cache, route, priority);
	s->unread = UNREAD_BACKLOG;
	s->unread_from_us = first_us;
	stream_read(s);
}

struct ready_cache *ready_create(struct base *base, const struct db_clock *clock, const struct ready_fetches *fetches)
{
	struct ready_cache *cache = mem_calloc(1, sizeof *cache);
	cache->base = base;
	cache->clock = clock;
	cache->fetches = *fetches;
	cache->shards = 1;
	cache->discovery = discovery_create(base, &(struct discovery_user){found, ready_enough, cache});
	cache->again_from_us = STORE_TIME_NEVER;
	jobs_bind(base->jobs, JOB_STREAMS, ready_fire, cache);
	jobs_bind(base->jobs, JOB_STREAMS_LATE, rescan_late, cache);
	jobs_bind(base->jobs, JOB_STREAMS_ALL, read_all, cache);
	return cache;
}
