/*
 * Matches the candidates of the ready cache with the waiting Fetches. Streams of one priority form a group, whose tasks
 * are assigned in the order in which they are due: first a fair share to each Fetch, then the remainder to Fetches that
 * have room. If the priority has more streams than a group, they take turns.
 *
 * Profiles know the total room of their Fetches, so a stream is wanted or not without a walk over Fetches. While a
 * group is matched, each profile remembers its first Fetch that may have room; those before it are full. A stream
 * remembers that the waiting Fetches exclude all its candidates.
 */
#include "manager/core/dispatch_internal.h"
#include "manager/core/fetch_order.h"
#include "manager/core/numbers.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
	GROUP_MAX = 128,    /* maximum number of streams in a group */
	READ_MAX = 1000000, /* maximum number of candidates to request */
	COUNT_MAX = 1000,   /* maximum number of Fetches to count whose waiting period has ended */
	FIT_PROFILES = 100, /* maximum number of profiles to search for room for a new task */
};

struct matching {
	struct dispatch *dispatch;
	int tried;
	int64_t bytes;             /* of the candidates tried */
	bool full;                 /* the claim has no room for more candidates; there may be more */
	unsigned round;            /* number of the group, counted since the start */
	struct profile **profiles; /* those that accept a stream of the group, and have room */
	int profile_count, profile_capacity;
	int64_t steps; /* see match_steps */
	/* The group: streams of one priority that Fetches have room for. */
	struct stream *streams[GROUP_MAX];
	struct fetch_order orders[GROUP_MAX];
	const struct candidate *next[GROUP_MAX]; /* those before it are assigned, or no Fetch accepts them */
	int stream_count;
	bool more_streams; /* this priority has more */
	int64_t capacity, available, fetches;
	int64_t until_us; /* later candidates wait for rows of the group that are being read */
};

struct matching *match_create(struct dispatch *dispatch)
{
	struct matching *matching = mem_calloc(1, sizeof *matching);
	matching->dispatch = dispatch;
	return matching;
}

void match_destroy(struct matching *matching)
{
	free(matching->profiles);
	free(matching);
}

/* --- room of a Fetch ---------------------------------------------------------------------------------------------- */

/* Returns true if tasks of the queue can be assigned: it is running, and its limit allows one more, as far as known. */
static bool queue_assigns(const struct dispatch *d, const struct store_queue *queue)
{
	return queue->state == STORE_QUEUE_RUNNING && queues_have_room(d->queues, queue);
}

/* Returns true if the waiting period of the queue for this Fetch and its worker is over. Otherwise schedules a dispatch
 * for its end. */
static bool waiting_period_over(const struct store_queue *queue, struct fetch *f)
{
	int64_t from_ms = queue->from_ms;
	if (queue->waiting_ms && f->request.idle_ms && f->arrived_ms + queue->waiting_ms - f->request.idle_ms > from_ms)
		from_ms = f->arrived_ms + queue->waiting_ms - f->request.idle_ms;
	if (!from_ms)
		return true;
	if (base_now(f->dispatch->base) >= from_ms)
		return true;
	jobs_at(f->dispatch->base->jobs, JOB_DISPATCH, from_ms);
	if (!f->waiting_until_ms || from_ms < f->waiting_until_ms)
		f->waiting_until_ms = from_ms;
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

/* Returns the stream's first candidate that the Fetch does not exclude, or NULL. */
static const struct candidate *stream_first_for(
    struct matching *matching, const struct stream *s, const struct fetch *f)
{
	const struct candidate *c = stream_peek(s);
	for (; c && fetch_excludes(f, c->id); c = stream_peek_next(c))
		matching->steps++;
	matching->steps++;
	return c;
}

/* Returns true if the waiting Fetches are known to exclude all of the stream's candidates. Compares only those that
 * have begun to wait since that was noted. */
static bool stream_all_excluded(struct matching *matching, struct stream *s)
{
	const struct dispatch *d = matching->dispatch;
	int64_t stuck = stream_stuck(s);
	if (!stuck)
		return false;
	for (const struct fetch *f = d->latest; f && f->wait > stuck; f = f->latest_next)
		if (demand_accepts(f->profile, stream_route(s)) && stream_first_for(matching, s, f)) {
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
static bool claim_has_capacity(struct matching *matching, int64_t bytes)
{
	const struct core_options *options = &matching->dispatch->base->options;
	matching->full = matching->tried == options->claim_limit ||
	    (matching->tried && matching->bytes + bytes > ANSWERS_MAX * options->max_answer_bytes);
	return !matching->full;
}

static void grant(struct matching *matching, struct fetch *f, const struct candidate *c, int64_t bytes)
{
	struct dispatch *d = matching->dispatch;
	int route = stream_route(c->stream);
	fetch_count(f, routes_get(d->routes, route), 1);
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
	matching->bytes += bytes;
	d->grants[matching->tried++] = (struct grant){.candidate = ready_take(d->cache, c),
	    .fetch = f,
	    .bytes = bytes,
	    .limited = queues_use_room(d->queues, route, 1)};
}

/* Returns the first Fetch that accepts the candidate of so many bytes, or NULL. */
static struct fetch *fetch_for(
    struct matching *matching, struct fetch_order *order, int share, const struct candidate *c, int64_t bytes)
{
	const struct dispatch *d = matching->dispatch;
	const struct store_queue *queue = queues_of_route(d->queues, stream_route(c->stream));
	const struct route *route = routes_get(d->routes, stream_route(c->stream));
	struct fetch *f;
	fetch_order_restart(order);
	while ((f = fetch_order_next(order, share))) {
		matching->steps++;
		if (fetch_excludes(f, c->id))
			continue;
		if (waiting_period_over(queue, f) && fetch_takes(f, route) && fetch_has_capacity(f, bytes, share) &&
		    !fetch_pass(f))
			return f;
		fetch_order_remove(order);
	}
	return NULL;
}

/* Assigns the candidates of the group's i-th stream that are due by `until_us`: each to the first Fetch that accepts
 * it. No Fetch gets more than `share` in this claim. */
static void stream_match(struct matching *matching, int i, int share, int64_t until_us)
{
	struct dispatch *d = matching->dispatch;
	struct stream *s = matching->streams[i];
	struct fetch_order *order = &matching->orders[i];
	const struct route *route = routes_get(d->routes, stream_route(s));
	const struct store_queue *queue = queues_of_route(d->queues, stream_route(s));
	int64_t fixed = ASSIGNMENT_BYTES + (int64_t)strlen(route->queue) + (int64_t)strlen(route->type);
	fetch_order_begin(order, d->demand, stream_route(s), matching->round, share, &matching->steps);
	for (const struct candidate *c; (c = matching->next[i]) && c->run_at_us <= until_us;) {
		if (!queues_have_room(d->queues, queue)) {
			matching->next[i] = NULL;
			return;
		}
		struct fetch *f = fetch_for(matching, order, share, c, c->bytes + fixed);
		if (f && !claim_has_capacity(matching, c->bytes + fixed))
			return;
		matching->next[i] = fetch_order_none(order) ? NULL : stream_peek_next(c);
		if (f)
			grant(matching, f, c, c->bytes + fixed);
	}
	if (!matching->next[i] && !order->removed)
		stream_set_stuck(s, d->waits);
}

/* --- a group of streams ------------------------------------------------------------------------------------------- */

/* Room for the stream's tasks, and how many of them Fetches may exclude. */
struct need {
	int64_t capacity, excluded;
};

/* Returns about how many tasks of the queue the profile's Fetches can get now. If none, because of waiting periods,
 * schedules a dispatch for the end of the first one. */
static int64_t capacity_now(const struct dispatch *d, const struct store_queue *queue, const struct profile *p)
{
	if (queue->from_ms > base_now(d->base)) {
		jobs_at(d->base->jobs, JOB_DISPATCH, queue->from_ms);
		for (struct fetch *f = p->unparked ? d->unparked : NULL; f; f = f->unparked_next)
			if (f->profile == p)
				waiting_period_over(queue, f); /* for the time in its answer */
		return 0;
	}
	if (!p->idle_capacity || !queue->waiting_ms)
		return p->capacity;
	size_t let = deadlines_count(&p->idle, base_now(d->base) - queue->waiting_ms, COUNT_MAX);
	if (let)
		return p->capacity - p->idle_capacity + p->idle_capacity * (int64_t)let / (int64_t)p->idle.count;
	waiting_period_over(queue, (struct fetch *)((char *)deadlines_first(&p->idle) - offsetof(struct fetch, idle)));
	for (struct fetch *f = p->idle_unparked ? d->unparked : NULL; f; f = f->unparked_next)
		if (f->profile == p)
			waiting_period_over(queue, f);
	return p->capacity - p->idle_capacity;
}

/* Adds the profile to the group, once. */
static void group_add_profile(struct matching *matching, struct profile *p)
{
	if (p->round == matching->round)
		return;
	p->round = matching->round;
	if (matching->profile_count == matching->profile_capacity) {
		matching->profile_capacity = matching->profile_capacity ? 2 * matching->profile_capacity : 16;
		matching->profiles =
		    mem_realloc(matching->profiles, sizeof *matching->profiles * (size_t)matching->profile_capacity);
	}
	matching->profiles[matching->profile_count++] = p;
	matching->capacity += p->capacity;
	matching->fetches += p->count;
}

/* Returns the room of the Fetch that comes next, for the worker whose last Fetch has just been answered. */
static int64_t capacity_to_come(const struct dispatch *d, const struct profile *p)
{
	return !p->fetches && base_now(d->base) < p->left_until_ms ? p->left : 0;
}

bool match_wants(struct matching *matching, int route)
{
	const struct store_queue *queue = queues_of_route(matching->dispatch->queues, route);
	struct demand_walk walk;
	if (!queue_assigns(matching->dispatch, queue))
		return false;
	for (struct profile *p = demand_first(&walk, matching->dispatch->demand, route); p; p = demand_next(&walk))
		if (capacity_now(matching->dispatch, queue, p))
			return true;
	return false;
}

bool match_fits(struct matching *matching, int route, int candidates, int all)
{
	const struct dispatch *d = matching->dispatch;
	const struct store_queue *queue = queues_of_route(d->queues, route);
	int64_t capacity = 0, to_come = 0;
	int profiles = 0;
	struct demand_walk walk;
	if (!queue_assigns(d, queue))
		return false;
	for (struct profile *p = demand_first(&walk, d->demand, route); p && profiles++ < FIT_PROFILES;
	     p = demand_next(&walk)) {
		int64_t next = capacity_to_come(d, p);
		to_come += next;
		capacity += capacity_now(d, queue, p) + p->coming + next;
		if (candidates <= capacity && all <= d->capacity + d->coming + to_come)
			return true;
	}
	return false;
}

static struct need stream_need(struct matching *matching, const struct stream *s)
{
	struct dispatch *d = matching->dispatch;
	const struct store_queue *queue = queues_of_route(d->queues, stream_route(s));
	struct need need = {0};
	struct demand_walk walk;
	if (!queue_assigns(d, queue))
		return need;
	for (struct profile *p = demand_first(&walk, matching->dispatch->demand, stream_route(s)); p;
	     p = demand_next(&walk)) {
		int64_t capacity = capacity_now(d, queue, p);
		if (!capacity)
			continue;
		need.capacity += capacity;
		need.excluded += p->excluded;
		group_add_profile(matching, p);
	}
	if (queue->limited && need.capacity > queue->room)
		need.capacity = queue->room;
	return need;
}

static int at_most(int64_t number, int max)
{
	return number < max ? (int)number : max;
}

/* Holds back later candidates of the group if the stream's rows are being read, because those may be due earlier. Rows
 * of a queue whose limit is reached are not read. */
static void group_hold(struct matching *matching, struct stream *s, bool *unsure)
{
	struct dispatch *d = matching->dispatch;
	if (!queues_have_room(d->queues, queues_of_route(d->queues, stream_route(s))))
		return;
	*unsure |= stream_unsure(s);
	int64_t from_us = stream_holds_from(s);
	if (from_us < matching->until_us)
		matching->until_us = from_us;
}

/* Collects the streams of the next priority, from *at on, that Fetches have room for, and starts reading them ahead.
 * Moves *at on. */
static void group_collect(struct matching *matching, struct stream **at, bool *unsure)
{
	struct ready_cache *cache = matching->dispatch->cache;
	struct stream *first = *at, *s = first;
	matching->round++;
	matching->profile_count = matching->stream_count = 0;
	matching->capacity = matching->available = matching->fetches = 0;
	matching->until_us = INT64_MAX;
	for (; s && matching->stream_count < GROUP_MAX && stream_priority(s) == stream_priority(first); s = ready_next(s)) {
		if (stream_all_excluded(matching, s)) {
			ready_read_ahead(cache, s, stream_count(s) + 1);
			continue;
		}
		struct need need = stream_need(matching, s);
		if (!need.capacity)
			continue;
		matching->streams[matching->stream_count++] = s;
		matching->available += stream_count(s);
		if (stream_unread(s))
			ready_read_ahead(cache, s, at_most(2 * need.capacity + need.excluded, READ_MAX));
		group_hold(matching, s, unsure);
	}
	*at = s;
	matching->more_streams = s && stream_priority(s) == stream_priority(first);
}

/* Assigns a group's candidates in the order in which they are due, across its streams: always from the stream whose
 * next candidate is the oldest, up to the time of the next stream's next candidate. */
static void group_match_in_order(struct matching *matching, int share)
{
	while (matching->dispatch->capacity > 0 && !matching->full) {
		int oldest = -1;
		int64_t first_us = INT64_MAX, until_us = matching->until_us;
		for (int i = 0; i < matching->stream_count; i++) {
			int64_t next_us = matching->next[i] ? matching->next[i]->run_at_us : INT64_MAX;
			if (next_us > matching->until_us)
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
		stream_match(matching, oldest, share, until_us);
	}
}

static void group_match(struct matching *matching, int share)
{
	for (int i = 0; i < matching->stream_count; i++)
		matching->next[i] = stream_stuck(matching->streams[i]) ? NULL : stream_peek(matching->streams[i]);
	for (int i = 0; i < matching->profile_count; i++)
		matching->profiles[i]->at = matching->profiles[i]->waiting;
	group_match_in_order(matching, share);
	for (int i = 0; i < matching->stream_count; i++)
		fetch_order_free(&matching->orders[i]);
}

int64_t match_steps(const struct matching *matching)
{
	return matching->steps;
}

int match_candidates(struct matching *matching, bool *unsure)
{
	struct dispatch *d = matching->dispatch;
	ready_match(d->cache);
	struct stream *at = ready_first(d->cache);
	matching->tried = 0;
	matching->bytes = 0;
	matching->full = matching->more_streams = false;
	for (struct fetch *f = d->unparked; f; f = f->unparked_next)
		f->waiting_until_ms = 0;
	while (at && d->capacity > 0 && !matching->full) {
		group_collect(matching, &at, unsure);
		if (!matching->fetches)
			continue;
		int64_t much = matching->available < matching->capacity ? matching->available : matching->capacity;
		int64_t share = (much + matching->fetches - 1) / matching->fetches;
		group_match(matching, at_most(share < 1 ? 1 : share, INT_MAX));
		group_match(matching, INT_MAX); /* the remainder, to Fetches that have room */
		for (int i = 0; i < matching->stream_count; i++)
			group_hold(matching, matching->streams[i], unsure);
		if (matching->until_us != INT64_MAX) { /* unread tasks go before all tasks of lower priorities */
			*unsure = true;
			break;
		}
	}
	if (matching->more_streams && (d->capacity <= 0 || matching->full))
		ready_begin_at(at); /* it got nothing yet: it is the first one next time */
	*unsure |= matching->full;
	if (d->unparked && !matching->full)
		matching->tried = grants_collect(d, matching->tried, unsure);
	return matching->tried;
}
