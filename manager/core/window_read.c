/*
 * Reading pages. Each stream has a timer: for tasks that become due, for the next rescan of the last seconds, for a try
 * of another shard's task, and for the retry of a failed read.
 *
 * A stream with unread rows and no candidates is read at once while a Fetch waits that could take them. The store reads
 * all pages that are requested during one statement by the next statement. One such statement is a round.
 */
#include "manager/core/window_internal.h"

#include <utlist.h>

enum {
	PAGE_SMALLEST = 10, /* minimum, with very many streams */
	PAGE_USUAL = 100,   /* minimum, with few streams */
	PAGE_LARGEST = 5000,
	TRAIL_US = 5 * 1000 * 1000,  /* how far back a rescan goes */
	TRAIL_EVERY_MS = 500,        /* a task that a dead manager did not announce is found within a second */
	POLL_SHARE = 100,            /* rescans take up to 1/POLL_SHARE of the time */
	FIRST_PAUSE_MS = 1500,       /* maximum delay by one rescan that took unusually long */
	RETRY_MS = 200,              /* after a failed read */
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
	struct window *w = s->window;
	int64_t now_ms = base_now(w->base), at_ms = INT64_MAX;
	if (!stream_wanted(s)) {
		deadlines_remove(&w->timers, &s->timer);
		return;
	}
	if (s->next_due_us != STORE_TIME_NEVER) {
		int64_t left_ms = (s->next_due_us - db_clock_shown_us(w->clock)) / 1000 + 1;
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
		deadlines_remove(&w->timers, &s->timer);
		return;
	}
	deadlines_set(&w->timers, &s->timer, at_ms);
	if (deadlines_first(&w->timers) == &s->timer)
		jobs_at(w->base->jobs, JOB_STREAMS, at_ms);
}

void window_clock_changed(struct window *w)
{
	struct stream *s, *tmp;
	HASH_ITER (hh, w->streams, s, tmp)
		stream_schedule(s);
}

/* --- pages ------------------------------------------------------------------------------------------------------- */

/* Returns the minimum size of a page: smaller with many streams, so that all find room. */
static int page_min(const struct window *w)
{
	int share = w->base->options.window_limit / (2 * (1 + (int)HASH_COUNT(w->streams)));
	return share < PAGE_SMALLEST ? PAGE_SMALLEST : share > PAGE_USUAL ? PAGE_USUAL : share;
}

static int window_capacity(const struct window *w)
{
	return w->base->options.window_limit - w->size - w->expected;
}

/* Sets the time of the next rescan, so that rescans take up to 1/POLL_SHARE of the time. One that took much longer than
 * the previous one may have waited for something else, such as a stalled database. That is not the cost of rescans, so
 * it delays the next one only a little. */
static void poll_ended(struct stream *s, int64_t now_ms)
{
	int64_t took = now_ms - s->poll_began_ms, cost = took < s->poll_took_ms ? took : s->poll_took_ms;
	int64_t pause = took * POLL_SHARE < FIRST_PAUSE_MS ? took * POLL_SHARE : FIRST_PAUSE_MS;
	pause = cost * POLL_SHARE > pause ? cost * POLL_SHARE : pause;
	s->poll_took_ms = took;
	s->polled_us = s->poll_began_us;
	s->trail_ms = now_ms + (pause > TRAIL_EVERY_MS ? pause : TRAIL_EVERY_MS);
	s->poll_began_ms = 0;
}

static void drop_all_gone(struct stream *s)
{
	struct known *k, *tmp;
	DL_FOREACH_SAFE (s->gone, k, tmp)
		stream_drop_gone(s->window, k);
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
	if (s->page.other.id && !s->whole)
		stream_pass_over(s, &s->page.other);
}

/* Moves the cursor to the page's end. Not called if it was rewound while the page was read. */
static void page_advance(struct stream *s, bool ended, int64_t now_ms)
{
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
	if (ended && s->poll_began_ms)
		poll_ended(s, now_ms);
	else if (!s->trail_ms)
		s->trail_ms = now_ms + TRAIL_EVERY_MS;
}

/* Reads other shards when this manager's own shard has nothing left. */
static void read_passed(struct stream *s)
{
	if (!s->whole && !s->unread && !s->count && s->passed.id)
		stream_read_unsharded(s, 0);
}

static void page_taken(struct stream *s, int64_t now_ms)
{
	bool ended = s->page.count < s->page.limit;
	s->failed = false;
	s->window->base->counters.pages++;
	page_enter(s);
	if (!s->reread)
		page_advance(s, ended, now_ms);
	else
		s->unread = ended ? UNREAD_CHANGE : UNREAD_BACKLOG;
	s->reread = false;
	if (s->noted)
		stream_rewind(s, s->noted_run_at, s->noted_id);
	s->noted = false;
	if (s->whole &&
	    s->page.slices > 1) { /* all shards were requested while it was being read: the next page has them */
		if (s->page.other.id)
			stream_rewind(s, s->page.other.run_at_us, s->page.other.id - 1);
	} else if (s->whole) {
		s->whole_ms = ended ? s->read_ms : s->whole_ms;
		s->whole = now_ms < s->unsharded_until_ms;
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

static void on_page(struct store_op *op, const struct reeve_error *error)
{
	struct stream *s = (struct stream *)((char *)op - offsetof(struct stream, page));
	struct window *w = s->window;
	int64_t now_ms = base_now(w->base);
	bool last = !s->page.more_follow, finding = s->reading == READING_PASSED;
	s->reading = READING_NOTHING;
	w->expected -= s->page.limit;
	if (error) {
		drop_all_gone(s);
		s->failed = true;
		s->retry_ms = now_ms + RETRY_MS;
	} else if (finding) {
		passed_found(s);
	} else {
		page_taken(s, now_ms);
	}
	stream_update(s);
	stream_schedule(s);
	if (!last)
		return; /* all pages of one statement are applied before anything is claimed */
	w->rounds++;
	window_read_unread(w);
	base_dispatch(w->base);
}

static void page_read_after(struct stream *s, enum reading what, int64_t run_at_us, int64_t id, int limit)
{
	struct window *w = s->window;
	s->reading = what;
	s->read_ms = base_now(w->base);
	s->reread = s->noted = false;
	w->expected += limit;
	s->page = (struct store_page){
	    .op.done = on_page,
	    .route = s->key.route,
	    .priority = s->key.priority,
	    .after_run_at_us = run_at_us,
	    .after_id = id,
	    .due_us = db_clock_us(w->clock),
	    .limit = limit,
	    .slices = s->whole && what == READING_ON ? 1 : w->slices, /* the search needs to tell the shards apart */
	    .shard = w->shard,
	    .other_bytes = w->base->options.max_sent_bytes ? w->base->options.max_sent_bytes : INT64_MAX,
	};
	store_page(w->base->store, &s->page);
}

static void page_read(struct stream *s, int limit)
{
	page_read_after(s, READING_ON, s->cursor_run_at, s->cursor_id, limit);
}

void stream_find_passed(struct stream *s)
{
	if (s->reading || base_now(s->window->base) < s->retry_ms)
		return;
	page_read_after(s, READING_PASSED, s->passed.run_at_us, s->passed.id - 1, 0);
}

static bool can_read(const struct stream *s)
{
	return s->unread && !s->reading && base_now(s->window->base) >= s->retry_ms;
}

void window_read_ahead(struct window *w, struct stream *s, int wanted)
{
	int capacity = window_capacity(w), least = page_min(w);
	if (!can_read(s) || s->count >= wanted)
		return;
	int limit = 2 * (wanted - s->count);
	limit = limit < least ? least : limit > PAGE_LARGEST ? PAGE_LARGEST : limit;
	if (limit > capacity)
		limit = capacity;
	if (limit <= 0) {
		if (s->count > 0)
			return;
		limit = least; /* a full cache must not exclude a higher priority */
	}
	page_read(s, limit);
}

void stream_read(struct stream *s)
{
	struct window *w = s->window;
	if (!can_read(s) || s->count || !stream_wanted(s))
		return;
	if (!w->fetches.waiting(w->fetches.arg) || window_capacity(w) < page_min(w))
		w->left_unread = true;
	else if (w->fetches.want(w->fetches.arg, s->key.route))
		page_read(s, page_min(w));
}

void stream_read_asked(struct stream *s)
{
	struct window *w = s->window;
	if (!can_read(s) || s->count)
		return;
	if (window_capacity(w) < page_min(w))
		w->left_unread = true;
	else
		page_read(s, page_min(w));
}

void window_read_unread(struct window *w)
{
	if (!w->left_unread || !w->fetches.waiting(w->fetches.arg) || window_capacity(w) < page_min(w))
		return;
	w->left_unread = false;
	for (struct stream *s = window_first(w); s && !w->left_unread; s = window_next(s))
		stream_read(s);
}

/* --- ordering barriers -------------------------------------------------------------------------------------------- */

int64_t stream_holds_from(const struct stream *s)
{
	struct window *w = s->window;
	if (!s->unread || s->count || s->failed)
		return INT64_MAX;
	if (s->unread == UNREAD_POLL)
		return INT64_MAX;
	if (s->unread == UNREAD_BACKLOG && s->unread_from_us < STORE_TIME_NEVER)
		return s->cursor_run_at > s->unread_from_us ? s->cursor_run_at : s->unread_from_us;
	if (s->unread_round > w->held_until_round)
		w->held_until_round = w->rounds + HELD_ROUNDS;
	if (w->rounds >= w->held_until_round || s->unread_from_us > STORE_TIME_NEVER - ORDER_SLACK_US)
		return INT64_MAX;
	return s->unread_from_us + ORDER_SLACK_US;
}

/* --- timer events ------------------------------------------------------------------------------------------------ */

/* Starts a rescan of the last seconds, for tasks that were committed late, behind the cursor. */
static void trailing_scan(struct stream *s, int64_t now_ms)
{
	struct window *w = s->window;
	int64_t now_us = db_clock_us(w->clock);
	if (!w->fetches.waiting(w->fetches.arg)) {
		s->trail_ms = now_ms + TRAIL_EVERY_MS;
		return;
	}
	s->poll_began_ms = now_ms;
	s->poll_began_us = now_us;
	w->base->counters.trailing_scans++;
	/* From the start of the previous rescan; but a full rescan has read what is older than a minute. */
	int64_t from_us = s->polled_us && s->polled_us < now_us ? s->polled_us : now_us;
	if (from_us < now_us - WINDOW_ALL_EVERY_MS * INT64_C(1000))
		from_us = now_us - WINDOW_ALL_EVERY_MS * INT64_C(1000);
	from_us -= TRAIL_US;
	if (s->cursor_run_at > from_us)
		stream_rewind(s, from_us, 0);
	s->unread = UNREAD_POLL;
	stream_read(s);
}

static void stream_fire(struct stream *s, int64_t now_ms)
{
	if (s->next_due_us <= db_clock_shown_us(s->window->clock)) {
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

bool window_fire(void *window)
{
	struct window *w = window;
	int64_t now_ms = base_now(w->base),
	        other_ms = earlier(window_resume_suspended(w, now_ms), window_check_dropped(w, now_ms));
	struct deadline *timer;
	window_trim(w);
	for (int n = 0; n < FIRED_MAX && (timer = deadlines_first(&w->timers)) && timer->at_ms <= now_ms; n++)
		stream_fire(stream_of_timer(timer), now_ms);
	timer = deadlines_first(&w->timers);
	jobs_at(w->base->jobs, JOB_STREAMS, timer ? earlier(timer->at_ms, other_ms) : other_ms);
	return false;
}
