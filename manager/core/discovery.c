/*
 * Discovery, with one struct scope for each route, by its number. A statement queries many routes. A route with more
 * priorities than an answer holds continues in a query of its own, towards lower priorities.
 */
#include "manager/core/discovery.h"

#include "manager/core/routes.h"

#include <stdlib.h>

enum {
	ROUTES_AT_ONCE = 1000,      /* per statement */
	STREAMS_FOUND_AT_ONCE = 64, /* priorities of a route */
	RETRY_MS = 200,             /* after a failed query */
};

/* What is known of the priorities of a route. */
struct scope {
	bool complete; /* the ready cache knows every priority that has tasks */
	bool once;     /* it was complete before: callers need not wait for it again */
	int asked;     /* its index in find_routes, if it is there */
};

struct discovery {
	struct base *base;
	struct routes *routes;
	discovery_found *found;
	void *arg;
	struct scope *all; /* by route */
	int count;
	bool stale;                /* the query in flight began before the last request to rescan */
	bool finding, find_wanted; /* find_wanted: the streams of some routes are not all known */
	struct store_streams find;
	int *find_routes;
	int find_count;
	int64_t find_retry_ms;
	int ready_to; /* every route up to this one has been complete once */
	int32_t find_below;
};

void discovery_destroy(struct discovery *s)
{
	free(s->all);
	free(s->find_routes);
	free(s);
}

static struct scope *scope_of(struct discovery *s, int route)
{
	if (route >= s->count) {
		int count = routes_last(s->routes) + 1;
		count = count > route ? count : route + 1;
		s->all = mem_realloc(s->all, sizeof *s->all * (size_t)count);
		for (int i = s->count; i < count; i++)
			s->all[i] = (struct scope){0};
		s->count = count;
	}
	return &s->all[route];
}

static void find_start(struct discovery *s);
static void find_all(struct discovery *s);

static void on_found(struct store_op *op, const struct reeve_error *error)
{
	struct discovery *s = (struct discovery *)((char *)op - offsetof(struct discovery, find));
	s->finding = false;
	if (error) {
		s->find_wanted = true;
		s->find_retry_ms = base_now(s->base) + RETRY_MS;
		jobs_at(s->base->jobs, JOB_STREAMS_LIST, s->find_retry_ms);
		return;
	}
	bool stale = s->stale;
	s->stale = false;
	s->find_wanted |= stale;
	/* A route with the maximum number of streams may have more at lower priorities. These are queried at once. */
	int *found = mem_calloc((size_t)s->find_count + 1, sizeof *found);
	int32_t *lowest = mem_calloc((size_t)s->find_count + 1, sizeof *lowest);
	for (int i = 0; i < s->find.found; i++) {
		const struct store_stream *f = &s->find.streams[i];
		s->found(s->arg, f->route, f->priority, f->first_us);
		int k = scope_of(s, f->route)->asked;
		if (!found[k]++ || f->priority < lowest[k])
			lowest[k] = f->priority;
	}
	for (int k = 0; k < s->find_count; k++) {
		struct scope *scope = scope_of(s, s->find_routes[k]);
		scope->once = true;
		scope->complete = !stale;
		if (found[k] >= STREAMS_FOUND_AT_ONCE && !s->finding) {
			/* One route at a time continues; the other routes after it in this query are queried again. */
			s->find_wanted = true;
			s->find_routes[0] = s->find_routes[k];
			s->find_count = 1;
			s->find_below = lowest[k];
			scope->complete = scope->once = false;
			find_start(s);
			break;
		}
	}
	free(found);
	free(lowest);
	if (!s->finding && s->find_wanted)
		find_all(s);
	base_dispatch(s->base);
}

static void find_start(struct discovery *s)
{
	s->finding = true;
	for (int k = 0; k < s->find_count; k++)
		scope_of(s, s->find_routes[k])->asked = k;
	s->find = (struct store_streams){
	    .op.done = on_found,
	    .count = s->find_count,
	    .routes = s->find_routes,
	    .below = s->find_below,
	    .most = STREAMS_FOUND_AT_ONCE,
	};
	store_streams(s->base->store, &s->find);
}

/* Queries the streams of all routes whose scope is not complete. */
static void find_all(struct discovery *s)
{
	int last = routes_last(s->routes);
	if (s->finding || base_now(s->base) < s->find_retry_ms) {
		s->find_wanted = true;
		return;
	}
	s->find_routes = mem_realloc(s->find_routes, sizeof *s->find_routes * (size_t)(last + 1));
	s->find_count = 0;
	s->find_wanted = false;
	for (int route = 1; route <= last; route++) {
		if (!routes_known(s->routes, route) || scope_of(s, route)->complete)
			continue;
		if (s->find_count == ROUTES_AT_ONCE) { /* the others follow when these are known */
			s->find_wanted = true;
			break;
		}
		s->find_routes[s->find_count++] = route;
	}
	s->find_below = INT32_MAX;
	if (s->find_count)
		find_start(s);
}

bool discovery_ready(struct discovery *s)
{
	int last = routes_last(s->routes);
	for (; s->ready_to < last; s->ready_to++)
		if (routes_known(s->routes, s->ready_to + 1) && !scope_of(s, s->ready_to + 1)->once) {
			find_all(s);
			return false;
		}
	return true;
}

bool discovery_complete(const struct discovery *s)
{
	return !s->finding && !s->find_wanted;
}

void discovery_routes_changed(struct discovery *s)
{
	s->ready_to = 0;
	find_all(s);
}

void discovery_forget_route(struct discovery *s, int route)
{
	if (route >= s->count)
		return;
	s->stale |= s->finding; /* the query in flight may concern it */
	s->all[route].complete = s->all[route].once = false;
}

void discovery_rescan(struct discovery *s)
{
	s->stale = s->finding;
	for (int i = 0; i < s->count; i++)
		s->all[i].complete = false;
	find_all(s);
}

/* Continues with queries that could not start before. */
static bool find_wanted(void *arg)
{
	struct discovery *s = arg;
	if (s->find_wanted)
		find_all(s);
	return false;
}

struct discovery *discovery_create(struct base *base, struct routes *routes, discovery_found *found, void *arg)
{
	struct discovery *s = mem_calloc(1, sizeof *s);
	s->base = base;
	s->routes = routes;
	s->found = found;
	s->arg = arg;
	jobs_bind(base->jobs, JOB_STREAMS_LIST, find_wanted, s);
	return s;
}
