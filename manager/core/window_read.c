/* Reading: pages ahead of the dispatcher, looks at the last seconds, and what becomes due. */
#include "manager/core/window_internal.h"

#include "manager/core/dispatch.h"
#include "manager/core/scopes.h"

#include <utlist.h>

enum {
	PAGE_SMALLEST = 100,
	PAGE_LARGEST = 5000,
	TRAIL_US = 5 * 1000 * 1000,  /* how far back a trailing look goes */
	TRAIL_EVERY_MS = 500,        /* what a manager that died has not told of is found within a second */
	LOOKS_AT_ONCE = 20,          /* trailing looks begun by one turn */
	LOOK_SHARE = 100,            /* looks take at most this part of the time */
	FIRST_REST_MS = 1500,        /* after a look that took longer than usual */
	RETRY_MS = 200,              /* after a failed read */
};

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
			stream_drop_gone(w, k);
		s->failed = true;
		s->retry_ms = now + RETRY_MS;
		core_alarm(w->core, s->retry_ms);
		return;
	}
	s->failed = false;
	w->core->counters.pages++;
	bool ended = s->page.count < s->page.limit;
	for (int i = 0; i < s->page.count; i++)
		stream_add_candidate(s, &s->page.candidates[i]);
	DL_FOREACH_SAFE (s->gone, k, tmp)
		stream_drop_gone(w, k);
	if (s->page.other.id)
		stream_pass_over(s, &s->page.other);
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
		stream_rewind(s, s->noted_run_at, s->noted_id);
	s->noted = false;
	if (s->whole && now >= s->whole_until_ms)
		s->whole = false;
	else if (!s->whole && !s->unread && !s->count && s->passed.id)
		stream_read_whole(s, 0); /* nothing of its own is left */
	if (s->next_due_us != STORE_TIME_NEVER)
		core_alarm(w->core, now + (s->next_due_us - core_clock_us(w->core)) / 1000 + 1);
	if (!stream_wanted(s))
		stream_let_go(s);
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
			stream_rewind(s, due, 0); /* a note may have moved it on meanwhile */
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
			if (from_us < now_us - WINDOW_ALL_EVERY_MS * INT64_C(1000))
				from_us = now_us - WINDOW_ALL_EVERY_MS * INT64_C(1000);
			from_us -= TRAIL_US;
			if (s->cursor_run_at > from_us)
				stream_rewind(s, from_us, 0);
			s->unread = true;
		}
		int64_t probe_ms = stream_probe_passed(s, now_ms);
		next = probe_ms < next ? probe_ms : next;
		stream_settle(s);
	}
	scopes_turn(w->scopes);
	dispatch_run(w->core->dispatch);
	return next;
}
