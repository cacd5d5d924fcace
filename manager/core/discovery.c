/*
 * Discovery, with one struct scope for each route, by its number. A statement queries many routes, each from its own
 * priority down. A route with more priorities than an answer holds takes its turn again after the others. A long search is
 * repeated only after a pause.
 */
#include "manager/core/discovery.h"

#include <stdlib.h>
#include <string.h>

enum {
	ROUTES_AT_ONCE = 1000,      /* per statement */
	STREAMS_FOUND_AT_ONCE = 64, /* priorities of a route */
	SEARCHES_MAX = 16,          /* maximum number of routes that discovery_searches compares */
	RETRY_MS = 200,             /* after a failed query */
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
struct scope {
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
};

struct discovery {
	struct base *base;
	struct discovery_user user;
	struct scope *all; /* by route */
	int count;
	int64_t began_ms; /* when the first route was wanted; 0: none has been */
	int missing;      /* number of routes that are `first` */
	int *listed;      /* routes, in the order in which they will be queried */
	int listed_count;
	bool finding;
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

static struct scope *scope_of(struct discovery *s, int route)
{
	if (route >= s->count) {
		s->all = mem_extend(s->all, sizeof *s->all, &s->count, route);
		s->listed = mem_realloc(s->listed, sizeof *s->listed * (size_t)s->count);
	}
	return &s->all[route];
}

static bool in_flight(const struct scope *scope)
{
	return scope->query == QUERY_SENT || scope->query == QUERY_STALE;
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
	for (; taken < s->listed_count && count < ROUTES_AT_ONCE; taken++) {
		struct scope *scope = &s->all[s->listed[taken]];
		scope->query = scope->wanted ? QUERY_SENT : QUERY_NONE;
		if (!scope->wanted)
			continue;
		scope->found = 0;
		if (!scope->answers)
			scope->began_ms = base_now(s->base);
		s->find_routes[count] = s->listed[taken];
		s->find_below[count++] = scope->below;
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
	    .most = STREAMS_FOUND_AT_ONCE,
	};
	store_streams(s->base->store, &s->find);
}

/* Lists a wanted route for a query, unless it is in the query in flight. */
static void list(struct discovery *s, int route)
{
	struct scope *scope = scope_of(s, route);
	if (!scope->wanted || scope->query != QUERY_NONE)
		return;
	scope->query = QUERY_LISTED;
	s->listed[s->listed_count++] = route;
}

static void search_from_top(struct discovery *s, int route)
{
	struct scope *scope = scope_of(s, route);
	scope->below = ABOVE_ALL;
	scope->complete = scope->again = false;
	if (scope->query == QUERY_SENT)
		scope->query = QUERY_STALE;
	scope->answers = 0;
	list(s, route);
}

/* Searches the route from the top when this search's pause has ended. */
static void search_after_pause(struct discovery *s, int route)
{
	struct scope *scope = &s->all[route];
	if (scope->pause_ms <= base_now(s->base)) {
		search_from_top(s, route);
		return;
	}
	scope->again = true;
	if (!s->again_ms || scope->pause_ms < s->again_ms)
		s->again_ms = scope->pause_ms;
	jobs_at(s->base->jobs, JOB_STREAMS_LIST, s->again_ms);
}

/* Searches the routes again whose pause has ended. */
static void end_pauses(struct discovery *s)
{
	if (!s->again_ms || base_now(s->base) < s->again_ms)
		return;
	s->again_ms = 0;
	for (int route = 0; route < s->count; route++) {
		const struct scope *scope = &s->all[route];
		if (scope->again && scope->wanted && scope->query == QUERY_NONE)
			search_after_pause(s, route);
	}
}

/* Searches the route from the top, after a search in progress: if that were begun again each time, it might never end. */
static void search_again(struct discovery *s, int route)
{
	struct scope *scope = scope_of(s, route);
	if (scope->query != QUERY_NONE && !scope->complete && scope->below != ABOVE_ALL)
		scope->again = true;
	else
		search_after_pause(s, route);
}

/* Notes how far the answer goes in each route. */
static void read_answer(struct discovery *s)
{
	for (int i = 0; i < s->find.found; i++) {
		const struct store_stream *f = &s->find.streams[i];
		struct scope *scope = scope_of(s, f->route);
		if (!scope->found++ || f->priority < scope->lowest)
			scope->lowest = f->priority;
	}
	for (int i = 0; i < s->find.count; i++) {
		struct scope *scope = &s->all[s->find_routes[i]];
		bool stale = scope->query == QUERY_STALE;
		scope->query = QUERY_NONE;
		scope->answers++;
		s->missing -= scope->first;
		scope->first = false;
		if (stale)
			list(s, s->find_routes[i]);
		else if (scope->found >= STREAMS_FOUND_AT_ONCE)
			scope->below = scope->lowest;
		else
			scope->complete = true;
	}
}

/* Lists a route for the next query unless its search has ended: it is complete, or its user has enough of it. */
static void search_on(struct discovery *s, int route)
{
	struct scope *scope = &s->all[route];
	int64_t now_ms = base_now(s->base);
	if (!scope->complete && !s->user.enough(s->user.arg, route, scope->below)) {
		list(s, route);
		return;
	}
	if (scope->answers > LONG_ANSWERS)
		scope->pause_ms = now_ms + PAUSE_TIMES * (now_ms - scope->began_ms);
	scope->answers = 0;
	if (scope->again)
		search_after_pause(s, route);
}

static void on_found(struct store_op *op, const struct reeve_error *error)
{
	struct discovery *s = (struct discovery *)((char *)op - offsetof(struct discovery, find));
	s->finding = false;
	if (error) {
		for (int i = 0; i < s->find.count; i++) {
			s->all[s->find_routes[i]].query = QUERY_NONE;
			list(s, s->find_routes[i]);
		}
		s->find_retry_ms = base_now(s->base) + RETRY_MS;
		jobs_at(s->base->jobs, JOB_STREAMS_LIST, s->find_retry_ms);
		return;
	}
	read_answer(s);
	for (int i = 0; i < s->find.found; i++) {
		const struct store_stream *f = &s->find.streams[i];
		s->user.found(s->user.arg, f->route, f->priority, f->first_us);
	}
	for (int i = 0; i < s->find.count; i++)
		search_on(s, s->find_routes[i]);
	find_start(s);
	base_dispatch(s->base);
}

void discovery_want(struct discovery *s, int route, bool wanted)
{
	struct scope *scope = scope_of(s, route);
	if (scope->wanted == wanted)
		return;
	scope->wanted = wanted;
	s->missing -= scope->first;
	scope->first = false;
	if (!wanted)
		return;
	if (!s->began_ms)
		s->began_ms = base_now(s->base);
	scope->first = base_now(s->base) - s->began_ms < FIRST_MS;
	s->missing += scope->first;
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
	if (scope_of(s, route)->complete)
		return;
	list(s, route);
	find_start(s);
}

void discovery_forget(struct discovery *s, int route, int32_t below)
{
	struct scope *scope = scope_of(s, route);
	if (scope->query == QUERY_SENT)
		scope->query = QUERY_STALE;
	if (scope->complete || scope->below < below)
		scope->below = below;
	scope->complete = false;
}

bool discovery_will_find(const struct discovery *s, int route, int32_t priority)
{
	const struct scope *scope = route < s->count ? &s->all[route] : NULL;
	return scope && scope->wanted && !scope->complete && !in_flight(scope) && priority < scope->below;
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
	jobs_bind(base->jobs, JOB_STREAMS_LIST, find_wanted, s);
	return s;
}
