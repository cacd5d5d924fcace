/*
 * Reading pages. Each stream has a timer: for tasks that become due, for the next rescan of the last seconds, for a try
 * of another shard's task, and for the retry of a failed read.
 *
 * A stream with unread rows and no candidates is read at once while a Fetch waits that could take them. The store reads
 * all pages that are requested during one statement by the next statement. One such statement is a round.
 */
#include "manager/core/ready_internal.h"

#include "common/clock.h"

#include <utlist.h>

enum {
	PAGE_SMALLEST = 10, /* minimum, with very many streams */
	PAGE_USUAL = 100,   /* minimum, with few streams */
	PAGE_LARGEST = 5000,
	TRAIL_US = 5 * 1000 * 1000,  /* how far back a rescan goes */
	TRAIL_EVERY_MS = 500,        /* a task that a dead manager did not announce is found within a second */
	POLL_SHARE = 100,            /* rescans take up to 1/POLL_SHARE of the time */
	FIRST_PAUSE_MS = 1500,       /* maximum delay by one rescan that took unusually long */
	RETRY_MS = 200,              /* after a failed read; */
	RETRY_MAX_MS = 30000,        /* twice as long after each further one, up to this */
	TOP_TRIES = 3,               /* of a stream's beginning, before the stream is read without it */
	CHECK_MS = 1000,             /* the database's clock may jump: due tasks are checked at this interval */
	FIRED_MAX = 1000,            /* timers per run of the job: the loop has other work, too */
	ORDER_SLACK_US = 100 * 1000, /* tasks of one priority that are due within this time start in any order */
	HELD_ROUNDS = 2,             /* the round in flight, and the next one with the reads requested during it */
};

/* --- timers ------------------------------------------------------------------------------------------------------ */

static struct stream *stream_of_timer(struct deadline *timer)
{
	return (struct stream *)((char *)timer - offsetof(struct stream, timer));
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void stream_schedule(struct stream *s)
{
	struct ready_cache *cache = s->cache;
	int64_t now_ms = base_now(cache->base), at_ms = INT64_MAX;
	if (!stream_wanted(s)) {
		deadlines_remove(&cache->timers, &s->timer);
		return;
	}
	if (s->next_due_us != STORE_TIME_NEVER) {
		int64_t left_ms = (s->next_due_us - db_clock_shown_us(cache->clock)) / 1000 + 1;
		at_ms = now_ms + (left_ms < 0 ? 0 : earlier(left_ms, CHECK_MS));
	}
	if (!s->unread && !s->reading)
		at_ms = earlier(at_ms, s->trail_ms);
	if (s->passed.id)
		at_ms = earlier(at_ms, s->probe_ms);
	if (s->suspended_until_ms > now_ms)
		at_ms = earlier(at_ms, s->suspended_until_ms);
	if (s->failed && s->retry_ms > now_ms)
		at_ms = earlier(at_ms, s->retry_ms);
	if (at_ms == INT64_MAX) {
		deadlines_remove(&cache->timers, &s->timer);
		return;
	}
	deadlines_set(&cache->timers, &s->timer, at_ms);
	if (deadlines_first(&cache->timers) == &s->timer)
		jobs_at(cache->base->jobs, JOB_STREAMS, at_ms);
}

void ready_clock_changed(struct ready_cache *cache)
{
	struct stream *s, *tmp;
	HASH_ITER (hh, cache->streams, s, tmp)
		stream_schedule(s);
}

/* --- pages ------------------------------------------------------------------------------------------------------- */

/* Returns the minimum size of a page: smaller with many streams, so that all find room. */
static int page_min(const struct ready_cache *cache)
{
	int share = cache->base->options.ready_limit / (2 * (1 + (int)HASH_COUNT(cache->streams)));
	return share < PAGE_SMALLEST ? PAGE_SMALLEST : share > PAGE_USUAL ? PAGE_USUAL : share;
}

static int ready_capacity(const struct ready_cache *cache)
{
	return cache->base->options.ready_limit - cache->size - cache->expected;
}

/* Sets the time of the next rescan, so that rescans take up to 1/POLL_SHARE of the time. One that took much longer than
 * the previous one may have waited for something else, such as a stalled database. That is not the cost of rescans, so
 * it delays the next one only a little. */
static void poll_ended(struct stream *s, int64_t now_ms)
{
	int64_t took = s->poll_spent_ms, cost = took < s->poll_took_ms ? took : s->poll_took_ms;
	int64_t pause = took * POLL_SHARE < FIRST_PAUSE_MS ? took * POLL_SHARE : FIRST_PAUSE_MS;
	pause = cost * POLL_SHARE > pause ? cost * POLL_SHARE : pause;
	s->poll_took_ms = took;
	s->polled_us = s->poll_began_us;
	s->trail_ms = now_ms + (pause > TRAIL_EVERY_MS ? pause : TRAIL_EVERY_MS);
	s->polling = false;
}

static void drop_all_gone(struct stream *s)
{
	struct known *k, *tmp;
	DL_FOREACH_SAFE (s->gone, k, tmp)
		stream_drop_gone(s->cache, k);
}

/* Adds a page's rows, before the tasks that were noted while it was read: those are newer. */
static void page_enter(struct stream *s)
{
	struct known *noted = s->candidates;
	bool before = noted && s->page.count && s->page.candidates[0].run_at_us < noted->c.run_at_us;
	if (before)
		s->candidates = NULL;
	for (int i = 0; i < s->page.count; i++)
		stream_add_candidate(s, &s->page.candidates[i]);
	drop_all_gone(s);
	if (before)
		DL_CONCAT(s->candidates, noted);
	if (s->page.other.id && !s->all_shards)
		stream_pass_over(s, &s->page.other);
}

/* Moves the cursor to the page's end. Not called if it was rewound while the page was read. */
static void page_advance(struct stream *s, bool ended, int64_t now_ms)
{
	s->kept_run_at = STORE_TIME_BEGIN;
	if (s->page.after_run_at_us == STORE_TIME_BEGIN)
		ready_route(s->cache, s->key.route)->slow = false;
	if (s->page.count) {
		s->cursor_run_at = s->page.candidates[s->page.count - 1].run_at_us;
		s->cursor_id = s->page.candidates[s->page.count - 1].id;
	}
	s->unread = ended ? UNREAD_NOTHING : UNREAD_BACKLOG; /* noted tasks make it unread again */
	/* Keep the known time if its task may have become due behind the cursor just before the page was read: after the
	 * clock was set back the cursor is ahead of it. */
	bool replaces = !s->noted && !stream_behind_cursor(s, s->next_due_us, 0);
	if (ended && (replaces || s->page.next_due_us < s->next_due_us))
		s->next_due_us = s->page.next_due_us;
	if (ended && s->polling)
		poll_ended(s, now_ms);
	else if (!s->trail_ms)
		s->trail_ms = now_ms + TRAIL_EVERY_MS;
}

/* Reads other shards when this manager's own shard has nothing left. */
static void read_passed(struct stream *s)
{
	if (!s->all_shards && !s->unread && !s->count && s->passed.id)
		stream_read_unsharded(s, 0);
}

static void page_taken(struct stream *s, int64_t now_ms)
{
	bool ended = s->page.count < s->page.limit;
	s->failed = 0;
	s->cache->base->counters.pages++;
	page_enter(s);
	if (!s->reread)
		page_advance(s, ended, now_ms);
	else
		s->unread = ended ? UNREAD_CHANGE : UNREAD_BACKLOG;
	s->reread = false;
	if (s->noted)
		stream_rewind(s, s->noted_run_at, s->noted_id);
	s->noted = false;
	if (s->all_shards &&
	    s->page.shards > 1) { /* all shards were requested while it was being read: the next page has them */
		if (s->page.other.id)
			stream_rewind(s, s->page.other.run_at_us, s->page.other.id - 1);
	} else if (s->all_shards) {
		s->all_read_ms = ended ? s->read_ms : s->all_read_ms;
		s->all_shards = now_ms < s->unsharded_until_ms;
	} else {
		read_passed(s);
	}
	if (!stream_wanted(s))
		stream_let_go(s);
}

/* Records the first skipped task again, unless that has changed while it was searched. */
static void passed_found(struct stream *s)
{
	drop_all_gone(s);
	if (s->noted)
		stream_rewind(s, s->noted_run_at, s->noted_id);
	s->noted = s->reread = false;
	if (!s->passed.id || s->passed_state != PASSED_UNSURE || s->passed.id != s->page.after_id + 1)
		return;
	stream_forget_passed(s);
	if (!s->page.other.id)
		return;
	stream_pass_over(s, &s->page.other);
	read_passed(s);
}

/* An old transaction may keep so many dead rows at the stream's beginning that no read gets past them in time. Then
 * reading goes on where it was before the full rescan, or, if that is not known, with the tasks of the last minute; the
 * next full rescan tries again. */
static void skip_beginning(struct stream *s)
{
	struct route_streams *r = ready_route(s->cache, s->key.route);
	int64_t now_us = db_clock_us(s->cache->clock);
	if (s->cursor_run_at != STORE_TIME_BEGIN || (!r->slow && s->failed < TOP_TRIES) || !now_us)
		return;
	r->slow = true;
	bool known = s->kept_run_at != STORE_TIME_BEGIN;
	s->cursor_run_at = known ? s->kept_run_at : now_us - READY_ALL_EVERY_MS * INT64_C(1000);
	s->cursor_id = known ? s->kept_id : 0;
}

/* What fails again and again is read less often, so that it does not delay others. */
static void page_failed(struct stream *s, int64_t now_ms)
{
	s->retry_ms = now_ms + clock_retry_ms(RETRY_MS, RETRY_MAX_MS, ++s->failed);
	skip_beginning(s);
	drop_all_gone(s);
}

static void on_page(struct store_op *op, const struct reeve_error *error)
{
	struct stream *s = (struct stream *)((char *)op - offsetof(struct stream, page));
	struct ready_cache *cache = s->cache;
	int64_t now_ms = base_now(cache->base);
	bool last = !s->page.more_follow, finding = s->reading == READING_PASSED;
	s->reading = READING_NOTHING;
	cache->expected -= s->page.limit;
	s->poll_spent_ms += now_ms - s->read_ms;
	if (error) {
		page_failed(s, now_ms);
	} else if (finding) {
		passed_found(s);
	} else {
		page_taken(s, now_ms);
	}
	stream_update(s);
	stream_schedule(s);
	if (!last)
		return; /* all pages of one statement are applied before anything is claimed */
	cache->rounds++;
	ready_read_unread(cache);
	base_dispatch(cache->base);
}

static void page_read_after(struct stream *s, enum reading what, int64_t run_at_us, int64_t id, int limit)
{
	struct ready_cache *cache = s->cache;
	s->reading = what;
	s->read_ms = base_now(cache->base);
	s->reread = s->noted = false;
	cache->expected += limit;
	s->page = (struct store_page){
	    .op.done = on_page,
	    .route = s->key.route,
	    .priority = s->key.priority,
	    .after_run_at_us = run_at_us,
	    .after_id = id,
	    .due_us = db_clock_us(cache->clock),
	    .limit = limit,
	    .shards =
	        s->all_shards && what == READING_ON ? 1 : cache->shards, /* the search needs to distinguish the shards */
	    .shard = cache->shard,
	    .other_bytes = cache->base->options.max_sent_bytes ? cache->base->options.max_sent_bytes : INT64_MAX,
	    .alone = s->failed || (ready_route(cache, s->key.route)->slow && run_at_us == STORE_TIME_BEGIN),
	};
	store_page(cache->base->store, &s->page);
}

static void page_read(struct stream *s, int limit)
{
	page_read_after(s, READING_ON, s->cursor_run_at, s->cursor_id, limit);
}

void stream_find_passed(struct stream *s)
{
	if (s->reading || base_now(s->cache->base) < s->retry_ms)
		return;
	page_read_after(s, READING_PASSED, s->passed.run_at_us, s->passed.id - 1, 0);
}

static bool can_read(const struct stream *s)
{
	return s->unread && !s->reading && base_now(s->cache->base) >= s->retry_ms;
}

void ready_read_ahead(struct ready_cache *cache, struct stream *s, int wanted)
{
	int capacity = ready_capacity(cache), min = page_min(cache);
	if (!can_read(s) || s->count >= wanted)
		return;
	int limit = 2 * (wanted - s->count);
	limit = limit < min ? min : limit > PAGE_LARGEST ? PAGE_LARGEST : limit;
	if (limit > capacity)
		limit = capacity;
	if (limit <= 0) {
		if (s->count > 0)
			return;
		limit = min; /* a full cache must not exclude a higher priority */
	}
	page_read(s, limit);
}

void stream_read(struct stream *s)
{
	struct ready_cache *cache = s->cache;
	if (!can_read(s) || s->count || !stream_wanted(s))
		return;
	if (!cache->fetches.waiting(cache->fetches.arg) || ready_capacity(cache) < page_min(cache))
		cache->left_unread = true;
	else if (cache->fetches.want(cache->fetches.arg, s->key.route))
		page_read(s, page_min(cache));
}

void stream_read_asked(struct stream *s)
{
	struct ready_cache *cache = s->cache;
	if (!can_read(s) || s->count)
		return;
	if (ready_capacity(cache) < page_min(cache))
		cache->left_unread = true;
	else
		page_read(s, page_min(cache));
}

void ready_read_unread(struct ready_cache *cache)
{
	if (!cache->left_unread || !cache->fetches.waiting(cache->fetches.arg) || ready_capacity(cache) < page_min(cache))
		return;
	cache->left_unread = false;
	for (struct stream *s = ready_first(cache); s && !cache->left_unread; s = ready_next(s))
		stream_read(s);
}

/* --- ordering barriers -------------------------------------------------------------------------------------------- */

int64_t stream_holds_from(struct stream *s)
{
	struct ready_cache *cache = s->cache;
	if (!s->unread || s->count || s->failed)
		return INT64_MAX;
	if (s->unread == UNREAD_POLL)
		return INT64_MAX;
	if (s->unread == UNREAD_BACKLOG && s->unread_from_us < STORE_TIME_NEVER)
		return s->cursor_run_at > s->unread_from_us ? s->cursor_run_at : s->unread_from_us;
	if (!s->asked && !cache->lets && cache->rounds >= cache->held_until_round) {
		cache->held_until_round = cache->rounds + HELD_ROUNDS;
		cache->holding = true;
	}
	s->asked = true;
	if (cache->rounds >= cache->held_until_round || s->unread_from_us > STORE_TIME_NEVER - ORDER_SLACK_US)
		return INT64_MAX;
	return s->unread_from_us + ORDER_SLACK_US;
}

/* --- timer events ------------------------------------------------------------------------------------------------ */

/* Starts a rescan of the last seconds, for tasks that were committed late, behind the cursor. */
static void trailing_scan(struct stream *s, int64_t now_ms)
{
	struct ready_cache *cache = s->cache;
	int64_t now_us = db_clock_us(cache->clock);
	if (!cache->fetches.waiting(cache->fetches.arg)) {
		s->trail_ms = now_ms + TRAIL_EVERY_MS;
		return;
	}
	s->polling = true;
	s->poll_began_us = now_us;
	s->poll_spent_ms = 0;
	cache->base->counters.trailing_scans++;
	/* From the start of the previous rescan; but a full rescan has read what is older than a minute. */
	int64_t from_us = s->polled_us && s->polled_us < now_us ? s->polled_us : now_us;
	if (from_us < now_us - READY_ALL_EVERY_MS * INT64_C(1000))
		from_us = now_us - READY_ALL_EVERY_MS * INT64_C(1000);
	from_us -= TRAIL_US;
	if (s->cursor_run_at > from_us)
		stream_rewind(s, from_us, 0);
	s->unread = UNREAD_POLL;
	stream_read(s);
}

static void stream_fire(struct stream *s, int64_t now_ms)
{
	if (s->next_due_us <= db_clock_shown_us(s->cache->clock)) {
		int64_t due = s->next_due_us;
		s->next_due_us = STORE_TIME_NEVER;
		stream_rewind(s, due, 0); /* a note may have moved the cursor past it */
	}
	if (!s->unread && !s->reading && now_ms >= s->trail_ms)
		trailing_scan(s, now_ms);
	stream_probe_passed(s, now_ms);
	stream_update(s);
	stream_read(s);
	stream_schedule(s);
}

bool ready_fire(void *arg)
{
	struct ready_cache *cache = arg;
	int64_t now_ms = base_now(cache->base),
	        other_ms = earlier(ready_resume_suspended(cache, now_ms), ready_check_dropped(cache, now_ms));
	struct deadline *timer;
	ready_trim(cache);
	for (int n = 0; n < FIRED_MAX && (timer = deadlines_first(&cache->timers)) && timer->at_ms <= now_ms; n++)
		stream_fire(stream_of_timer(timer), now_ms);
	timer = deadlines_first(&cache->timers);
	jobs_at(cache->base->jobs, JOB_STREAMS, timer ? earlier(timer->at_ms, other_ms) : other_ms);
	return false;
}
