/*
 * Each id that a call waits for has a target with the list of its waiters. A wait adds its ids first and queries the
 * database afterwards, so that it cannot miss a task that ends in between.
 */
#include "manager/core/waits.h"
#include "manager/core/numbers.h"
#include "manager/core/polls.h"

#include "common/deadlines.h"
#include "common/hash.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	END_IDS = 10000,    /* about so many ids' waits end at once */
	POLL_IDS = 10000,   /* the maximum in a query */
	POLL_FIRST_MS = 10, /* when an id is first looked for, if there are other managers */
	POLL_MAX_MS = 500,  /* the longest time between two queries for an id */
	POLL_PAUSE_MS = 10, /* between two queries if there are other managers, */
	/* … or this multiple of the time that the last one took, if that is longer, up to POLL_MAX_MS */
	POLL_PAUSE_TIMES = 4,
};

struct waiter;

/* One id of one waiter. */
struct link {
	struct waiter *waiter;
	bool ended;
	struct target *target;
	struct link *prev, *next;
};

struct target {
	int64_t id, since_ms;
	struct link *links;
	struct poll poll; /* the next query for it */
	UT_hash_handle hh;
};

struct waiter {
	struct waits *waits;
	struct link *links;
	int count, open;
	bool checked, cancelled;
	int64_t until_ms;
	struct deadline deadline; /* set after the first query */
	wait_done *done;
	void *arg;
	struct store_ended query;
	int64_t *ids;
	struct waiter *prev, *next;
};

struct waits {
	struct base *base;
	struct target *targets;
	struct waiter *waiters;
	struct deadlines deadlines;
	struct polls polls;
	bool others;
	int64_t polled_ms;    /* when the last query was sent */
	int64_t poll_from_ms; /* no query is sent earlier */
	struct store_ended query;
	int64_t *poll_ids;
};

static void unlink_target(struct waits *waits, struct link *link)
{
	struct target *t = link->target;
	if (!t)
		return;
	DL_DELETE(t->links, link);
	link->target = NULL;
	if (!t->links) {
		HASH_DEL(waits->targets, t);
		polls_remove(&waits->polls, &t->poll);
		free(t);
	}
}

static void waiter_end(struct waiter *w, const struct reeve_error *error)
{
	struct waits *waits = w->waits;
	int64_t *ended = mem_calloc((size_t)w->count + 1, sizeof *ended);
	int n = 0;
	for (int i = 0; i < w->count; i++) {
		unlink_target(waits, &w->links[i]);
		if (w->links[i].ended)
			ended[n++] = w->ids[i];
	}
	DL_DELETE(waits->waiters, w);
	deadlines_remove(&waits->deadlines, &w->deadline);
	w->done(w->arg, w->count, ended, n, error);
	free(ended);
	free(w->links);
	free(w->ids);
	free(w);
}

void waits_ended(struct waits *waits, int64_t id)
{
	struct target *t;
	if (!waits->targets)
		return;
	HASH_FIND(hh, waits->targets, &id, sizeof id, t);
	if (!t)
		return;
	struct link *link, *tmp;
	DL_FOREACH_SAFE (t->links, link, tmp) {
		struct waiter *w = link->waiter;
		bool last = link->next == NULL; /* unlink_target then frees the target */
		link->ended = true;
		unlink_target(waits, link);
		if (--w->open == 0 && w->checked)
			waiter_end(w, NULL);
		if (last)
			break;
	}
}

static void mark_known(const struct waiter *w, bool *known, const int64_t *ids, int count)
{
	for (int i = 0; i < count; i++) {
		int64_t *at = bsearch(&ids[i], w->ids, (size_t)w->count, sizeof *w->ids, by_number);
		if (at)
			known[at - w->ids] = true;
	}
}

/* Ends a wait some of whose ids name no task. The error names the first of these. */
static void waiter_end_unknown(struct waiter *w)
{
	struct reeve_error error;
	bool *known = mem_calloc((size_t)w->count, sizeof *known);
	int i = 0;
	mark_known(w, known, w->query.ended, w->query.ended_count);
	mark_known(w, known, w->query.live, w->query.live_count);
	while (i < w->count - 1 && known[i])
		i++;
	error_set(&error, STATUS(NOT_FOUND), "there is no task %lld", (long long)w->ids[i]);
	free(known);
	waiter_end(w, &error);
}

static void waiter_end_cancelled(struct waiter *w)
{
	struct reeve_error error;
	error_set(&error, STATUS(CANCELLED), "the caller has gone");
	waiter_end(w, &error);
}

void waits_cancel(struct waiter *w)
{
	w->cancelled = true;
	if (w->checked)
		waiter_end_cancelled(w);
	else
		store_read_drop(&w->query.op);
}

static void on_first_poll(struct store_op *op, const struct reeve_error *error)
{
	struct waiter *w = (struct waiter *)((char *)op - offsetof(struct waiter, query));
	w->checked = true;
	if (w->cancelled) {
		waiter_end_cancelled(w);
		return;
	}
	if (error) {
		waiter_end(w, error);
		return;
	}
	if (w->query.ended_count + w->query.live_count < w->count) {
		waiter_end_unknown(w);
		return;
	}
	for (int i = 0; i < w->query.ended_count; i++) {
		int64_t *at = bsearch(&w->query.ended[i], w->ids, (size_t)w->count, sizeof *w->ids, by_number);
		struct link *link = at ? &w->links[at - w->ids] : NULL;
		if (!link || link->ended)
			continue;
		link->ended = true;
		unlink_target(w->waits, link);
		w->open--;
	}
	if (w->open == 0 || w->until_ms <= base_now(w->waits->base)) {
		waiter_end(w, NULL);
		return;
	}
	deadlines_set(&w->waits->deadlines, &w->deadline, w->until_ms);
	jobs_at(w->waits->base->jobs, JOB_WAITS, w->until_ms);
}

static int64_t within(int64_t min, int64_t value, int64_t max)
{
	return value < min ? min : value > max ? max : value;
}

/* Queries for an id are at 10 ms, 20 ms, 40 ms and so on after its wait began, so that the end of a short task is found
 * soon, and long waits cost little. */
static int64_t poll_ms(const struct waits *waits, const struct target *t)
{
	int64_t now_ms = base_now(waits->base);
	int64_t min_ms = waits->others ? POLL_FIRST_MS : POLL_MAX_MS;
	return now_ms + within(min_ms, now_ms - t->since_ms, POLL_MAX_MS);
}

static void ask_poll(struct waits *waits)
{
	int64_t next_ms = polls_next_ms(&waits->polls);
	if (next_ms < INT64_MAX && !waits->poll_ids) /* on_poll asks after a query */
		jobs_at(waits->base->jobs, JOB_WAITS_OTHERS, next_ms > waits->poll_from_ms ? next_ms : waits->poll_from_ms);
}

static struct target *target_get(struct waits *waits, int64_t id, uint64_t origin)
{
	struct target *t;
	HASH_FIND(hh, waits->targets, &id, sizeof id, t);
	if (t) {
		polls_share(&waits->polls, &t->poll, origin);
		return t;
	}
	t = mem_calloc(1, sizeof *t);
	t->id = id;
	t->since_ms = base_now(waits->base);
	HASH_ADD(hh, waits->targets, id, sizeof t->id, t);
	polls_add(&waits->polls, &t->poll, origin, poll_ms(waits, t));
	return t;
}

void waits_add(struct waits *waits, const int64_t *ids, int count, int64_t wait_ms, uint64_t origin, wait_done *done,
    void *arg, struct waiter **waiter)
{
	struct waiter *w = mem_calloc(1, sizeof *w);
	if (waiter)
		*waiter = w;
	w->waits = waits;
	w->done = done;
	w->arg = arg;
	w->until_ms = base_now(waits->base) + wait_ms;
	w->ids = mem_malloc(sizeof *w->ids * ((size_t)count + 1));
	memcpy(w->ids, ids, sizeof *ids * (size_t)count);
	qsort(w->ids, (size_t)count, sizeof *w->ids, by_number);
	for (int i = 0; i < count; i++)
		if (i == 0 || w->ids[i] != w->ids[i - 1])
			w->ids[w->count++] = w->ids[i];
	w->open = w->count;
	w->links = mem_calloc((size_t)w->count + 1, sizeof *w->links);
	for (int i = 0; i < w->count; i++) {
		struct target *t = target_get(waits, w->ids[i], origin);
		w->links[i].waiter = w;
		w->links[i].target = t;
		DL_APPEND(t->links, &w->links[i]);
	}
	DL_APPEND(waits->waiters, w);
	w->query = (struct store_ended){
	    .op.done = on_first_poll,
	    .op.deadline_ms = w->until_ms + 5000,
	    .op.origin = origin,
	    .count = w->count,
	    .ids = w->ids,
	};
	store_ended(waits->base->store, &w->query);
	ask_poll(waits);
}

static void on_poll(struct store_op *op, const struct reeve_error *error)
{
	struct waits *waits = (struct waits *)((char *)op - offsetof(struct waits, query));
	for (int i = 0; !error && i < waits->query.ended_count; i++)
		waits_ended(waits, waits->query.ended[i]);
	free(waits->poll_ids);
	waits->poll_ids = NULL;
	int64_t now_ms = base_now(waits->base);
	int64_t min_ms = waits->others ? POLL_PAUSE_MS : POLL_MAX_MS;
	waits->poll_from_ms = now_ms + within(min_ms, POLL_PAUSE_TIMES * (now_ms - waits->polled_ms), POLL_MAX_MS);
	jobs_done(waits->base->jobs, JOB_WAITS_OTHERS, error, false);
	ask_poll(waits);
}

/* Finds tasks that other managers have ended. Callers take turns, so that one with few ids gets them all into each
 * query. */
static bool poll_others(void *arg)
{
	struct waits *waits = arg;
	int n = 0;
	struct poll *poll;
	waits->polled_ms = base_now(waits->base);
	while (n < POLL_IDS && (poll = polls_take(&waits->polls, waits->polled_ms))) {
		struct target *t = (struct target *)((char *)poll - offsetof(struct target, poll));
		if (!waits->poll_ids)
			waits->poll_ids = mem_malloc(sizeof *waits->poll_ids * POLL_IDS);
		waits->poll_ids[n++] = t->id;
		polls_later(&waits->polls, poll, poll_ms(waits, t));
	}
	if (!n) {
		ask_poll(waits);
		return false;
	}
	waits->query = (struct store_ended){.op.done = on_poll, .count = n, .ids = waits->poll_ids};
	store_ended(waits->base->store, &waits->query);
	return true;
}

void waits_others(struct waits *waits, bool others)
{
	waits->others = others;
}

/* Ends waits whose time has passed. If many end at once, other events run in between. */
static bool end_over(void *arg)
{
	struct waits *waits = arg;
	struct deadline *first;
	int64_t now_ms = base_now(waits->base);
	for (int ids = 0; ids < END_IDS && (first = deadlines_first(&waits->deadlines)) && first->at_ms <= now_ms;) {
		struct waiter *w = (struct waiter *)((char *)first - offsetof(struct waiter, deadline));
		ids += w->count;
		waiter_end(w, NULL);
	}
	if ((first = deadlines_first(&waits->deadlines)))
		jobs_at(waits->base->jobs, JOB_WAITS, first->at_ms);
	return false;
}

struct waits *waits_create(struct base *base)
{
	struct waits *w = mem_calloc(1, sizeof *w);
	w->base = base;
	jobs_bind(base->jobs, JOB_WAITS, end_over, w);
	jobs_bind(base->jobs, JOB_WAITS_OTHERS, poll_others, w);
	return w;
}

void waits_destroy(struct waits *waits)
{
	struct waiter *w, *tmp;
	struct reeve_error error;
	error_set(&error, STATUS(UNAVAILABLE), "the manager stops");
	DL_FOREACH_SAFE (waits->waiters, w, tmp)
		waiter_end(w, &error);
	deadlines_free(&waits->deadlines);
	polls_free(&waits->polls);
	free(waits->poll_ids);
	free(waits);
}
