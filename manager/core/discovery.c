/*
 * Discovery, with one struct search for each route, by its number. A statement queries many routes, each from its own
 * priority down. A route with more priorities than an answer holds takes its turn again after the others. A long search
 * is repeated only after a pause.
 */
#include "manager/core/discovery.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
	ROUTES_AT_ONCE = 1000,      /* per statement */
	STREAMS_FOUND_AT_ONCE = 64, /* priorities of a route */
	SEARCHES_MAX = 16,          /* maximum number of routes that discovery_searches compares */
	RETRY_MS = 200,             /* after a failed query; */
	FAILED_PARTS = 32,          /* … its routes are queried again in so many parts */
	HOLD_MAX_MS = 30000,        /* a route whose own query fails again and again waits for up to so long */
	LONG_ANSWERS = 32,          /* a search with more answers than this is long */
	PAUSE_TIMES = 4,            /* after a long one the next one waits this multiple of its duration */
	FIRST_MS = 100,             /* routes that are wanted so long after the first one count as first, too */
};

#define ABOVE_ALL INT32_MAX /* no task has this priority */

/* A route's place in the queries. */
enum query {
	QUERY_NONE,
	QUERY_LISTED, /* it is in the list of routes to query */
	QUERY_SENT,   /* it is in the query in flight */
	QUERY_STALE,  /* it is in the query in flight, which may not see what exists now */
};

/* What is known of the priorities of a route. */
struct search {
	bool wanted;
	bool first;    /* it was among the first wanted routes, and its highest priorities have not been found yet */
	bool complete; /* all its priorities have been found */
	bool again;    /* it is searched from the top once more when the search in progress and the pause have ended */
	enum query query;
	int32_t below;  /* all priorities from this one up have been found, unless it is complete */
	int found;      /* while an answer is read: the number of its streams in it */
	int32_t lowest; /* the lowest priority of `found` */
	int answers;    /* of the search in progress, … */
	int64_t began_ms;
	int64_t pause_ms; /* when the pause after it ends */
	int failures;     /* queries of this route alone that failed, in a row */
	int64_t held_ms;  /* after these it is not queried before this time */
};

struct discovery {
	struct base *base;
	struct discovery_user user;
	struct search *all; /* by route */
	int count;
	int64_t began_ms; /* when the first route was wanted; 0: none has been */
	int missing;      /* number of routes that are `first` */
	int *listed;      /* routes, in the order in which they will be queried */
	int listed_count;
	bool finding;
	int at_once; /* the maximum of routes in a query: fewer after a failed one, until the list is empty */
	struct store_streams find;
	int find_routes[ROUTES_AT_ONCE];
	int32_t find_below[ROUTES_AT_ONCE];
	int64_t find_retry_ms;
	int64_t again_ms; /* when a pause ends first; 0: no route pauses */
};

void discovery_destroy(struct discovery *s)
{
	free(s->all);
	free(s->listed);
	free(s);
}

static struct search *search_of(struct discovery *s, int route)
{
	if (route >= s->count) {
		s->all = mem_extend(s->all, sizeof *s->all, &s->count, route);
		s->listed = mem_realloc(s->listed, sizeof *s->listed * (size_t)s->count);
	}
	return &s->all[route];
}

static bool in_flight(const struct search *search)
{
	return search->query == QUERY_SENT || search->query == QUERY_STALE;
}

static void on_found(struct store_op *op, const struct reeve_error *error);

/* Queries the first routes of the list. */
static void find_start(struct discovery *s)
{
	int taken = 0, count = 0;
	if (s->finding || !s->listed_count)
		return;
	if (base_now(s->base) < s->find_retry_ms) {
		jobs_at(s->base->jobs, JOB_STREAMS_LIST, s->find_retry_ms);
		return;
	}
	for (; taken < s->listed_count && count < s->at_once; taken++) {
		struct search *search = &s->all[s->listed[taken]];
		search->query = search->wanted ? QUERY_SENT : QUERY_NONE;
		if (!search->wanted)
			continue;
		search->found = 0;
		if (!search->answers)
			search->began_ms = base_now(s->base);
		s->find_routes[count] = s->listed[taken];
		s->find_below[count++] = search->below;
	}
	s->listed_count -= taken;
	memmove(s->listed, s->listed + taken, sizeof *s->listed * (size_t)s->listed_count);
	if (!count)
		return;
	s->finding = true;
	s->find = (struct store_streams){
	    .op.done = on_found,
	    .count = count,
	    .routes = s->find_routes,
	    .below = s->find_below,
	    .max = STREAMS_FOUND_AT_ONCE,
	};
	store_streams(s->base->store, &s->find);
}

/* Searches the route from the top at a later time. */
static void search_at(struct discovery *s, int route, int64_t at_ms)
{
	s->all[route].again = true;
	if (!s->again_ms || at_ms < s->again_ms)
		s->again_ms = at_ms;
	jobs_at(s->base->jobs, JOB_STREAMS_LIST, s->again_ms);
}

/* Lists a wanted route for a query, unless it is in the query in flight. */
static void list(struct discovery *s, int route)
{
	struct search *search = search_of(s, route);
	if (!search->wanted || search->query != QUERY_NONE)
		return;
	if (base_now(s->base) < search->held_ms) {
		search_at(s, route, search->held_ms);
		return;
	}
	search->query = QUERY_LISTED;
	s->listed[s->listed_count++] = route;
}

static void search_from_top(struct discovery *s, int route)
{
	struct search *search = search_of(s, route);
	search->below = ABOVE_ALL;
	search->complete = search->again = false;
	if (search->query == QUERY_SENT)
		search->query = QUERY_STALE;
	search->answers = 0;
	list(s, route);
}

/* Searches the route from the top when this search's pause has ended. */
static void search_after_pause(struct discovery *s, int route)
{
	struct search *search = &s->all[route];
	if (search->pause_ms <= base_now(s->base)) {
		search_from_top(s, route);
		return;
	}
	search_at(s, route, search->pause_ms);
}

/* Searches the routes again whose pause has ended. */
static void end_pauses(struct discovery *s)
{
	if (!s->again_ms)
		return;
	if (base_now(s->base) < s->again_ms) {
		jobs_at(s->base->jobs, JOB_STREAMS_LIST, s->again_ms); /* something else has run the job */
		return;
	}
	s->again_ms = 0;
	for (int route = 0; route < s->count; route++) {
		const struct search *search = &s->all[route];
		if (search->again && search->wanted && search->query == QUERY_NONE)
			search_after_pause(s, route);
	}
}

/* Searches the route from the top, after a search in progress: if that were begun again each time, it might never end.
 */
static void search_again(struct discovery *s, int route)
{
	struct search *search = search_of(s, route);
	if (search->query != QUERY_NONE && !search->complete && search->below != ABOVE_ALL)
		search->again = true;
	else
		search_after_pause(s, route);
}

static void no_more_first(struct discovery *s, struct search *search)
{
	s->missing -= search->first;
	search->first = false;
}

/* Notes how far the answer goes in each route. */
static void read_answer(struct discovery *s)
{
	for (int i = 0; i < s->find.found; i++) {
		const struct store_stream *f = &s->find.streams[i];
		struct search *search = search_of(s, f->route);
		if (!search->found++ || f->priority < search->lowest)
			search->lowest = f->priority;
	}
	for (int i = 0; i < s->find.count; i++) {
		struct search *search = &s->all[s->find_routes[i]];
		bool stale = search->query == QUERY_STALE;
		search->query = QUERY_NONE;
		search->answers++;
		search->failures = 0;
		no_more_first(s, search);
		if (stale)
			list(s, s->find_routes[i]);
		else if (search->found >= STREAMS_FOUND_AT_ONCE)
			search->below = search->lowest;
		else
			search->complete = true;
	}
}

/* Lists a route for the next query unless its search has ended: it is complete, or its user has enough of it. */
static void search_on(struct discovery *s, int route)
{
	struct search *search = &s->all[route];
	int64_t now_ms = base_now(s->base);
	if (!search->complete && !s->user.enough(s->user.arg, route, search->below)) {
		list(s, route);
		return;
	}
	if (search->answers > LONG_ANSWERS)
		search->pause_ms = now_ms + PAUSE_TIMES * (now_ms - search->began_ms);
	search->answers = 0;
	if (search->again)
		search_after_pause(s, route);
}

/* Repeats a failed query in parts, down to the single routes that make it fail. Those delay no others: each failure may
 * take the whole time limit. */
static void find_failed(struct discovery *s)
{
	int64_t now_ms = base_now(s->base);
	struct search *search = &s->all[s->find_routes[0]];
	if (s->find.count == 1)
		search->held_ms = now_ms + clock_retry_ms(RETRY_MS, HOLD_MAX_MS, ++search->failures);
	s->at_once = (s->find.count + FAILED_PARTS - 1) / FAILED_PARTS;
	for (int i = 0; i < s->find.count; i++) {
		no_more_first(s, &s->all[s->find_routes[i]]);
		s->all[s->find_routes[i]].query = QUERY_NONE;
		list(s, s->find_routes[i]);
	}
	s->find_retry_ms = now_ms + RETRY_MS;
	jobs_at(s->base->jobs, JOB_STREAMS_LIST, s->find_retry_ms);
}

static void on_found(struct store_op *op, const struct reeve_error *error)
{
	struct discovery *s = (struct discovery *)((char *)op - offsetof(struct discovery, find));
	s->finding = false;
	if (error) {
		find_failed(s);
		base_dispatch(s->base);
		return;
	}
	read_answer(s);
	for (int i = 0; i < s->find.found; i++) {
		const struct store_stream *f = &s->find.streams[i];
		s->user.found(s->user.arg, f->route, f->priority, f->first_us);
	}
	for (int i = 0; i < s->find.count; i++)
		search_on(s, s->find_routes[i]);
	if (!s->listed_count)
		s->at_once = ROUTES_AT_ONCE;
	find_start(s);
	base_dispatch(s->base);
}

void discovery_want(struct discovery *s, int route, bool wanted)
{
	struct search *search = search_of(s, route);
	if (search->wanted == wanted)
		return;
	search->wanted = wanted;
	no_more_first(s, search);
	if (!wanted)
		return;
	if (!s->began_ms)
		s->began_ms = base_now(s->base);
	search->first = base_now(s->base) - s->began_ms < FIRST_MS;
	s->missing += search->first;
	search_from_top(s, route);
	jobs_ask(s->base->jobs, JOB_STREAMS_LIST); /* later: other routes may follow */
}

void discovery_again(struct discovery *s, int route)
{
	search_again(s, route);
	find_start(s);
}

void discovery_rescan(struct discovery *s, bool at_once)
{
	for (int route = 0; route < s->count; route++) {
		if (at_once)
			s->all[route].pause_ms = 0;
		if (s->all[route].wanted)
			search_again(s, route);
	}
	find_start(s);
}

void discovery_more(struct discovery *s, int route)
{
	if (search_of(s, route)->complete)
		return;
	list(s, route);
	find_start(s);
}

void discovery_forget(struct discovery *s, int route, int32_t below)
{
	struct search *search = search_of(s, route);
	if (search->query == QUERY_SENT)
		search->query = QUERY_STALE;
	if (search->complete || search->below < below)
		search->below = below;
	search->complete = false;
}

bool discovery_will_find(const struct discovery *s, int route, int32_t priority)
{
	const struct search *search = route < s->count ? &s->all[route] : NULL;
	return search && search->wanted && !search->complete && !in_flight(search) && priority < search->below;
}

bool discovery_ready(struct discovery *s)
{
	find_start(s);
	return !s->missing;
}

bool discovery_searches(const struct discovery *s, bool (*accepts)(const void *arg, int route), const void *arg)
{
	int asked = s->finding ? s->find.count : 0;
	if (asked + s->listed_count > SEARCHES_MAX)
		return true;
	for (int i = 0; i < asked; i++)
		if (accepts(arg, s->find_routes[i]))
			return true;
	for (int i = 0; i < s->listed_count; i++)
		if (accepts(arg, s->listed[i]))
			return true;
	return false;
}

/* Continues with queries that could not start before. */
static bool find_wanted(void *arg)
{
	end_pauses(arg);
	find_start(arg);
	return false;
}

struct discovery *discovery_create(struct base *base, const struct discovery_user *user)
{
	struct discovery *s = mem_calloc(1, sizeof *s);
	s->base = base;
	s->user = *user;
	s->at_once = ROUTES_AT_ONCE;
	jobs_bind(base->jobs, JOB_STREAMS_LIST, find_wanted, s);
	return s;
}
