/*
 * Deals the candidates of the ready cache to the waiting Fetches. Streams of one priority form a group, which is dealt
 * in the order in which its tasks are due: first a fair share to each Fetch, then the remainder to Fetches that have
 * room.
 *
 * Whether a stream is wanted needs no walk over Fetches: their profiles know their total room. While a group is dealt,
 * each profile remembers its first Fetch that may have room; those before it are full. A stream remembers that the
 * waiting Fetches exclude all its candidates.
 */
#include "manager/core/dispatch_internal.h"
#include "manager/core/numbers.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"
#include "manager/core/takers.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
	GROUP_MAX = 128,     /* maximum number of streams in a group */
	READ_MAX = 1000000,  /* maximum number of candidates to request */
	LET_MAX = 1000,      /* maximum number of Fetches to count that a queue's waiting period lets have tasks */
	TAKE_PROFILES = 100, /* maximum number of profiles in which room is searched for a new task */
};

struct deal {
	struct dispatch *dispatch;
	int tried;
	int64_t bytes;             /* of the candidates tried */
	bool full;                 /* the claim takes no more candidates; there may be more */
	unsigned round;            /* number of the group, counted since the start */
	struct profile **profiles; /* those that accept a stream of the group, and have room */
	int profile_count, profile_capacity;
	int64_t steps; /* see deal_steps */
	/* The group: streams of one priority that Fetches have room for. */
	struct stream *streams[GROUP_MAX];
	struct takers takers[GROUP_MAX];
	const struct candidate *next[GROUP_MAX]; /* those before it are dealt, or no Fetch takes them */
	int stream_count;
	int64_t capacity, available, fetches;
	int64_t until_us; /* later candidates wait for rows of the group that are being read */
};

struct deal *deal_create(struct dispatch *dispatch)
{
	struct deal *deal = mem_calloc(1, sizeof *deal);
	deal->dispatch = dispatch;
	return deal;
}

void deal_destroy(struct deal *deal)
{
	free(deal->profiles);
	free(deal);
}

/* --- room of a Fetch ---------------------------------------------------------------------------------------------- */

/* Returns true if the queue gives out tasks: it runs, and its limit lets one more execute, as far as known. */
static bool queue_gives(const struct dispatch *d, const struct store_queue *queue)
{
	return queue->state == STORE_QUEUE_RUNNING && queues_have_room(d->queues, queue);
}

/* Returns true if the queue gives tasks to this Fetch now. If the queue or the Fetch's worker is still in its waiting
 * period, schedules a dispatch for the end of that. */
static bool queue_lets(const struct store_queue *queue, struct fetch *f)
{
	int64_t from_ms = queue->from_ms;
	if (queue->waiting_ms && f->request.idle_ms && f->arrived_ms + queue->waiting_ms - f->request.idle_ms > from_ms)
		from_ms = f->arrived_ms + queue->waiting_ms - f->request.idle_ms;
	if (!from_ms)
		return true;
	if (base_now(f->dispatch->base) >= from_ms)
		return true;
	jobs_at(f->dispatch->base->jobs, JOB_DISPATCH, from_ms);
	if (!f->let_from_ms || from_ms < f->let_from_ms)
		f->let_from_ms = from_ms;
	return false;
}

static bool fetch_excludes(const struct fetch *f, int64_t id)
{
	return f->request.exclude_count &&
	    bsearch(&id, f->request.exclude, (size_t)f->request.exclude_count, sizeof id, by_number);
}

/* Returns true if one more candidate fits: by slots, and, unless it is the first, by bytes. */
static bool fetch_has_capacity(const struct fetch *f, int64_t bytes, int share)
{
	return !fetch_full(f, share) && (f->granted == 0 || f->granted_bytes + bytes <= f->request.max_bytes);
}

/* Returns true if one more task of the queue fits. */
static bool fetch_takes_queue(const struct fetch *f, const char *queue)
{
	const struct fetch_queue *limit = f->request.limit_count ? fetch_limit(f, queue) : NULL;
	return !limit || limit->granted < limit->slots;
}

/* Returns the stream's first candidate that the Fetch does not exclude, or NULL. */
static const struct candidate *stream_first_for(struct deal *deal, const struct stream *s, const struct fetch *f)
{
	const struct candidate *c = stream_peek(s);
	for (; c && fetch_excludes(f, c->id); c = stream_peek_next(c))
		deal->steps++;
	deal->steps++;
	return c;
}

/* Returns true if the waiting Fetches are known to exclude all of the stream's candidates. Compares only those that have
 * begun to wait since that was noted. */
static bool stream_all_excluded(struct deal *deal, struct stream *s)
{
	const struct dispatch *d = deal->dispatch;
	int64_t stuck = stream_stuck(s);
	if (!stuck)
		return false;
	for (const struct fetch *f = d->latest; f && f->wait > stuck; f = f->latest_next)
		if (demand_accepts(f->profile, stream_route(s)) && stream_first_for(deal, s, f)) {
			stream_set_stuck(s, 0);
			return false;
		}
	stream_set_stuck(s, d->waits);
	return true;
}

/* --- one stream --------------------------------------------------------------------------------------------------- */

/* Returns true if the stream may have due tasks that are not in the ready cache. */
static bool stream_unsure(const struct stream *s)
{
	return stream_unread(s) && stream_count(s) == 0 && !stream_failing(s);
}

/* Notes whether one more candidate of so many bytes fits into the claim. The first one always does. */
static bool claim_has_capacity(struct deal *deal, int64_t bytes)
{
	const struct core_options *options = &deal->dispatch->base->options;
	deal->full = deal->tried == options->claim_limit ||
	    (deal->tried && deal->bytes + bytes > ANSWERS_MAX * options->max_answer_bytes);
	return !deal->full;
}

static void grant(struct deal *deal, struct fetch *f, const struct candidate *c, int64_t bytes)
{
	struct dispatch *d = deal->dispatch;
	int route = stream_route(c->stream);
	struct fetch_queue *limit = f->request.limit_count ? fetch_limit(f, routes_get(d->routes, route)->queue) : NULL;
	if (limit)
		limit->granted++;
	f->granted++;
	f->granted_bytes += bytes;
	f->worth += task_worth(c->stream);
	f->lowest = stream_priority(c->stream);
	f->profile->capacity--;
	d->capacity--;
	if (f->request.idle_ms) {
		f->profile->idle_capacity--;
		if (f->granted == f->request.slots)
			deadlines_remove(&f->profile->idle, &f->idle);
	}
	deal->bytes += bytes;
	d->grants[deal->tried++] = (struct grant){.candidate = window_take(d->window, c),
	    .fetch = f,
	    .bytes = bytes,
	    .limit = limit,
	    .limited = queues_use_room(d->queues, route, 1)};
}

/* Returns the first Fetch that takes the candidate of so many bytes, or NULL. */
static struct fetch *taker_of(
    struct deal *deal, struct takers *takers, int share, const struct candidate *c, int64_t bytes)
{
	const struct dispatch *d = deal->dispatch;
	const struct store_queue *queue = queues_of_route(d->queues, stream_route(c->stream));
	const char *name = routes_get(d->routes, stream_route(c->stream))->queue;
	struct fetch *f;
	takers_walk(takers);
	while ((f = takers_next(takers, share))) {
		deal->steps++;
		if (fetch_excludes(f, c->id))
			continue;
		if (queue_lets(queue, f) && fetch_takes_queue(f, name) && fetch_has_capacity(f, bytes, share))
			return f;
		takers_remove(takers);
	}
	return NULL;
}

/* Deals the candidates of the group's i-th stream that are due by `until_us`: each to the first Fetch that takes it.
 * No Fetch gets more than `share` in this claim. */
static void stream_deal(struct deal *deal, int i, int share, int64_t until_us)
{
	struct dispatch *d = deal->dispatch;
	struct stream *s = deal->streams[i];
	struct takers *takers = &deal->takers[i];
	const struct route *route = routes_get(d->routes, stream_route(s));
	const struct store_queue *queue = queues_of_route(d->queues, stream_route(s));
	int64_t fixed = ASSIGNMENT_BYTES + (int64_t)strlen(route->queue) + (int64_t)strlen(route->type);
	takers_begin(takers, d->demand, stream_route(s), deal->round, share, &deal->steps);
	for (const struct candidate *c; (c = deal->next[i]) && c->run_at_us <= until_us;) {
		if (!queues_have_room(d->queues, queue)) {
			deal->next[i] = NULL;
			return;
		}
		struct fetch *f = taker_of(deal, takers, share, c, c->bytes + fixed);
		if (f && !claim_has_capacity(deal, c->bytes + fixed))
			return;
		deal->next[i] = takers_none(takers) ? NULL : stream_peek_next(c);
		if (f)
			grant(deal, f, c, c->bytes + fixed);
	}
	if (!deal->next[i] && !takers->removed)
		stream_set_stuck(s, d->waits);
}

/* --- a group of streams ------------------------------------------------------------------------------------------- */

/* Room for the stream's tasks, and how many of them Fetches may exclude. */
struct need {
	int64_t capacity, excluded;
};

/* Returns about how many tasks the queue lets a profile's Fetches have now. If none, schedules a dispatch for the first
 * of them. */
static int64_t capacity_let(const struct dispatch *d, const struct store_queue *queue, const struct profile *p)
{
	if (queue->from_ms > base_now(d->base)) {
		jobs_at(d->base->jobs, JOB_DISPATCH, queue->from_ms);
		for (struct fetch *f = p->unparked ? d->unparked : NULL; f; f = f->unparked_next)
			if (f->profile == p)
				queue_lets(queue, f); /* its answer says when to come again */
		return 0;
	}
	if (!p->idle_capacity || !queue->waiting_ms)
		return p->capacity;
	size_t let = deadlines_count(&p->idle, base_now(d->base) - queue->waiting_ms, LET_MAX);
	if (let)
		return p->capacity - p->idle_capacity + p->idle_capacity * (int64_t)let / (int64_t)p->idle.count;
	queue_lets(queue, (struct fetch *)((char *)deadlines_first(&p->idle) - offsetof(struct fetch, idle)));
	for (struct fetch *f = p->idle_unparked ? d->unparked : NULL; f; f = f->unparked_next)
		if (f->profile == p)
			queue_lets(queue, f);
	return p->capacity - p->idle_capacity;
}

/* Adds the profile to the group, once. */
static void group_meet(struct deal *deal, struct profile *p)
{
	if (p->round == deal->round)
		return;
	p->round = deal->round;
	if (deal->profile_count == deal->profile_capacity) {
		deal->profile_capacity = deal->profile_capacity ? 2 * deal->profile_capacity : 16;
		deal->profiles = mem_realloc(deal->profiles, sizeof *deal->profiles * (size_t)deal->profile_capacity);
	}
	deal->profiles[deal->profile_count++] = p;
	deal->capacity += p->capacity;
	deal->fetches += p->count;
}

/* Returns the room of the Fetch that comes next, for the worker whose last Fetch has just been answered. */
static int64_t capacity_to_come(const struct dispatch *d, const struct profile *p)
{
	return !p->fetches && base_now(d->base) < p->left_until_ms ? p->left : 0;
}

bool deal_wants(struct deal *deal, int route)
{
	const struct store_queue *queue = queues_of_route(deal->dispatch->queues, route);
	struct demand_walk walk;
	if (!queue_gives(deal->dispatch, queue))
		return false;
	for (struct profile *p = demand_first(&walk, deal->dispatch->demand, route); p; p = demand_next(&walk))
		if (capacity_let(deal->dispatch, queue, p))
			return true;
	return false;
}

bool deal_takes(struct deal *deal, int route, int candidates, int all)
{
	const struct dispatch *d = deal->dispatch;
	const struct store_queue *queue = queues_of_route(d->queues, route);
	int64_t capacity = 0, to_come = 0;
	int profiles = 0;
	struct demand_walk walk;
	if (!queue_gives(d, queue))
		return false;
	for (struct profile *p = demand_first(&walk, d->demand, route); p && profiles++ < TAKE_PROFILES;
	     p = demand_next(&walk)) {
		int64_t next = capacity_to_come(d, p);
		to_come += next;
		capacity += capacity_let(d, queue, p) + p->coming + next;
		if (candidates <= capacity && all <= d->capacity + d->coming + to_come)
			return true;
	}
	return false;
}

static struct need stream_need(struct deal *deal, const struct stream *s)
{
	struct dispatch *d = deal->dispatch;
	const struct store_queue *queue = queues_of_route(d->queues, stream_route(s));
	struct need need = {0};
	struct demand_walk walk;
	if (!queue_gives(d, queue))
		return need;
	for (struct profile *p = demand_first(&walk, deal->dispatch->demand, stream_route(s)); p; p = demand_next(&walk)) {
		int64_t capacity = capacity_let(d, queue, p);
		if (!capacity)
			continue;
		need.capacity += capacity;
		need.excluded += p->excluded;
		group_meet(deal, p);
	}
	if (queue->limited && need.capacity > queue->room)
		need.capacity = queue->room;
	return need;
}

static int at_most(int64_t number, int most)
{
	return number < most ? (int)number : most;
}

/* Holds back later candidates of the group if the stream's rows are being read, because those may be due earlier. Rows
 * of a queue whose limit is reached are not read. */
static void group_hold(struct deal *deal, const struct stream *s, bool *unsure)
{
	struct dispatch *d = deal->dispatch;
	if (!queues_have_room(d->queues, queues_of_route(d->queues, stream_route(s))))
		return;
	*unsure |= stream_unsure(s);
	int64_t from_us = stream_holds_from(s);
	if (from_us < deal->until_us)
		deal->until_us = from_us;
}

/* Collects the streams of the next priority, from *at on, that Fetches have room for, and starts reading them ahead.
 * Moves *at on. */
static void group_collect(struct deal *deal, struct stream **at, bool *unsure)
{
	struct window *window = deal->dispatch->window;
	struct stream *first = *at, *s = first;
	deal->round++;
	deal->profile_count = deal->stream_count = 0;
	deal->capacity = deal->available = deal->fetches = 0;
	deal->until_us = INT64_MAX;
	for (; s && deal->stream_count < GROUP_MAX && stream_priority(s) == stream_priority(first); s = window_next(s)) {
		if (stream_all_excluded(deal, s)) {
			window_read_ahead(window, s, stream_count(s) + 1);
			continue;
		}
		struct need need = stream_need(deal, s);
		if (!need.capacity)
			continue;
		deal->streams[deal->stream_count++] = s;
		deal->available += stream_count(s);
		if (stream_unread(s))
			window_read_ahead(window, s, at_most(2 * need.capacity + need.excluded, READ_MAX));
		group_hold(deal, s, unsure);
	}
	*at = s;
}

/* Deals a group's candidates in the order in which they are due, across its streams: always from the stream whose next
 * candidate is the oldest, up to the time of the next stream's next candidate. */
static void group_deal_in_order(struct deal *deal, int share)
{
	while (deal->dispatch->capacity > 0 && !deal->full) {
		int oldest = -1;
		int64_t first_us = INT64_MAX, until_us = deal->until_us;
		for (int i = 0; i < deal->stream_count; i++) {
			int64_t next_us = deal->next[i] ? deal->next[i]->run_at_us : INT64_MAX;
			if (next_us > deal->until_us)
				continue;
			if (next_us < first_us) {
				until_us = first_us < until_us ? first_us : until_us;
				first_us = next_us;
				oldest = i;
			} else if (next_us < until_us) {
				until_us = next_us;
			}
		}
		if (oldest < 0)
			return;
		stream_deal(deal, oldest, share, until_us);
	}
}

static void group_deal(struct deal *deal, int share)
{
	for (int i = 0; i < deal->stream_count; i++)
		deal->next[i] = stream_stuck(deal->streams[i]) ? NULL : stream_peek(deal->streams[i]);
	for (int i = 0; i < deal->profile_count; i++)
		deal->profiles[i]->at = deal->profiles[i]->waiting;
	group_deal_in_order(deal, share);
	for (int i = 0; i < deal->stream_count; i++)
		takers_free(&deal->takers[i]);
}

int64_t deal_steps(const struct deal *deal)
{
	return deal->steps;
}

int deal_candidates(struct deal *deal, bool *unsure)
{
	struct dispatch *d = deal->dispatch;
	struct stream *at = window_first(d->window);
	deal->tried = 0;
	deal->bytes = 0;
	deal->full = false;
	for (struct fetch *f = d->unparked; f; f = f->unparked_next)
		f->let_from_ms = 0;
	while (at && d->capacity > 0 && !deal->full) {
		group_collect(deal, &at, unsure);
		if (!deal->fetches)
			continue;
		int64_t much = deal->available < deal->capacity ? deal->available : deal->capacity;
		int64_t share = (much + deal->fetches - 1) / deal->fetches;
		group_deal(deal, at_most(share < 1 ? 1 : share, INT_MAX));
		group_deal(deal, INT_MAX); /* the remainder, to Fetches that have room */
		for (int i = 0; i < deal->stream_count; i++)
			group_hold(deal, deal->streams[i], unsure);
		if (deal->until_us != INT64_MAX) { /* unread tasks go before all tasks of lower priorities */
			*unsure = true;
			break;
		}
	}
	*unsure |= deal->full;
	if (d->unparked && !deal->full)
		deal->tried = grants_collect(d, deal->tried, unsure);
	return deal->tried;
}
