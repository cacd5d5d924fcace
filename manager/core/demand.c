/*
 * Names are interned. A known profile is linked to each of its queues or to each of its types, whichever have fewer
 * routes; the profile that accepts everything is kept separately. The profiles of a route are those linked to its queue
 * and to its type, and that one.
 */
#include "manager/core/demand.h"

#include "manager/core/routes.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	KEEP_MS = 5000, /* how long a known profile is kept after its last Fetch */
	KEPT_MAX = 256, /* maximum number of those */
};

/* A link from a name to a known profile. */
struct link {
	struct profile *profile;
	struct link *prev, *next;
};

struct name {
	char *text;
	int uses;           /* number of profiles and routes that have it */
	struct link *links; /* list */
	int *routes;
	int route_count;
	UT_hash_handle hh;
};

struct route_names {
	struct name *queue, *type; /* NULL: the route is not known */
	int wanted;                /* number of known profiles that accept it */
};

struct demand {
	struct base *base;
	struct routes *known;
	demand_wanted *wanted;
	void *arg;
	struct name *queues, *types;
	struct profile *profiles; /* hash */
	struct profile *kept;     /* list: known ones without a Fetch, the oldest first */
	int kept_count;
	struct profile *all; /* the known profile that accepts everything, or NULL */
	struct route_names *routes;
	int route_count;
	int64_t compared;
	bool closing;
};

struct demand *demand_create(struct base *base, struct routes *routes, demand_wanted *wanted, void *arg)
{
	struct demand *d = mem_calloc(1, sizeof *d);
	d->base = base;
	d->known = routes;
	d->wanted = wanted;
	d->arg = arg;
	return d;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

static struct name *name_take(struct name **set, const char *text)
{
	struct name *n;
	HASH_FIND_STR(*set, text, n);
	if (!n) {
		n = mem_calloc(1, sizeof *n);
		n->text = mem_strdup(text);
		HASH_ADD_KEYPTR(hh, *set, n->text, strlen(n->text), n);
	}
	n->uses++;
	return n;
}

static void name_give_back(struct name **set, struct name *n)
{
	if (--n->uses)
		return;
	HASH_DEL(*set, n);
	free(n->routes);
	free(n->text);
	free(n);
}

static void name_add_route(struct name *n, int route)
{
	if ((n->route_count & (n->route_count - 1)) == 0) /* full: the capacity is a power of two */
		n->routes = mem_realloc(n->routes, sizeof *n->routes * (n->route_count ? 2 * (size_t)n->route_count : 1));
	n->routes[n->route_count++] = route;
}

static void name_remove_route(struct name *n, int route)
{
	for (int i = 0; i < n->route_count; i++)
		if (n->routes[i] == route) {
			n->routes[i] = n->routes[--n->route_count];
			return;
		}
}

static int by_address(const void *a, const void *b)
{
	const struct name *x = *(struct name *const *)a, *y = *(struct name *const *)b;
	return (x > y) - (x < y);
}

/* Returns true if the names contain this one; an empty list contains all. */
static bool lists(struct name *const *names, int count, const struct name *name)
{
	return count == 0 || bsearch(&name, names, (size_t)count, sizeof *names, by_address);
}

/* --- wanted routes ------------------------------------------------------------------------------------------------ */

static void route_want(struct demand *d, int route, int change)
{
	struct route_names *r = &d->routes[route];
	bool was = r->wanted > 0;
	r->wanted += change;
	if (was != (r->wanted > 0))
		d->wanted(d->arg, route, !was);
}

static int link_count(const struct profile *p)
{
	return p->by_queue ? p->queue_count : p->type_count;
}

static struct name *link_name(const struct profile *p, int i)
{
	return p->by_queue ? p->queues[i] : p->types[i];
}

bool demand_accepts(const struct profile *p, int route)
{
	const struct demand *d = p->demand;
	if (route <= 0 || route >= d->route_count || !d->routes[route].queue)
		return false;
	return lists(p->queues, p->queue_count, d->routes[route].queue) &&
	    lists(p->types, p->type_count, d->routes[route].type);
}

void demand_routes(const struct profile *p, void (*each)(void *arg, int route), void *arg)
{
	const struct demand *d = p->demand;
	if (!p->queue_count && !p->type_count) {
		for (int route = 1; route < d->route_count; route++)
			if (d->routes[route].queue)
				each(arg, route);
		return;
	}
	for (int i = 0; i < link_count(p); i++) {
		const struct name *name = link_name(p, i);
		for (int k = 0; k < name->route_count; k++) {
			const struct route_names *r = &d->routes[name->routes[k]];
			if (p->by_queue ? lists(p->types, p->type_count, r->type) : lists(p->queues, p->queue_count, r->queue))
				each(arg, name->routes[k]);
		}
	}
}

static void want(void *arg, int route)
{
	route_want(arg, route, 1);
}

static void want_no_more(void *arg, int route)
{
	route_want(arg, route, -1);
}

void demand_route(struct demand *d, int route)
{
	const struct route *r = routes_get(d->known, route);
	struct demand_walk walk;
	d->routes = mem_extend(d->routes, sizeof *d->routes, &d->route_count, route);
	struct route_names *names = &d->routes[route];
	names->queue = name_take(&d->queues, r->queue);
	names->type = name_take(&d->types, r->type);
	name_add_route(names->queue, route);
	name_add_route(names->type, route);
	for (struct profile *p = demand_first(&walk, d, route); p; p = demand_next(&walk))
		names->wanted++;
	d->wanted(d->arg, route, names->wanted > 0);
}

void demand_forget_route(struct demand *d, int route)
{
	struct route_names *names = &d->routes[route];
	name_remove_route(names->queue, route);
	name_remove_route(names->type, route);
	name_give_back(&d->queues, names->queue);
	name_give_back(&d->types, names->type);
	*names = (struct route_names){0};
	d->wanted(d->arg, route, false);
}

/* --- profiles ----------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns a sorted copy of the array without duplicates, and sets *count. The caller frees the array; the strings are
 * shared. */
static char **texts_sorted(const char *const *texts, int *count)
{
	char **sorted = mem_calloc((size_t)*count + 1, sizeof *sorted);
	int n = 0;
	if (*count)
		memcpy(sorted, texts, sizeof *sorted * (size_t)*count);
	qsort(sorted, (size_t)*count, sizeof *sorted, by_text);
	for (int i = 0; i < *count; i++)
		if (i == 0 || strcmp(sorted[i], sorted[n - 1]) != 0)
			sorted[n++] = sorted[i];
	*count = n;
	return sorted;
}

static size_t texts_length(char *const *texts, int count)
{
	size_t length = 1;
	for (int i = 0; i < count; i++)
		length += strlen(texts[i]) + 1;
	return length;
}

/* Writes the strings with their NULs, and one more NUL as the end: no string is empty. Returns the end of the
 * output. */
static char *texts_write(char *out, char *const *texts, int count)
{
	for (int i = 0; i < count; i++) {
		size_t length = strlen(texts[i]) + 1;
		memcpy(out, texts[i], length);
		out += length;
	}
	*out++ = 0;
	return out;
}

static struct name **names_take(struct name **set, char *const *texts, int count)
{
	struct name **names = mem_calloc((size_t)count + 1, sizeof *names);
	for (int i = 0; i < count; i++)
		names[i] = name_take(set, texts[i]);
	qsort(names, (size_t)count, sizeof *names, by_address);
	return names;
}

struct profile *demand_take(
    struct demand *d, const char *const *queues, int queue_count, const char *const *types, int type_count)
{
	char **q = texts_sorted(queues, &queue_count), **t = texts_sorted(types, &type_count);
	size_t length = texts_length(q, queue_count) + texts_length(t, type_count);
	char *key = mem_malloc(length);
	struct profile *p;
	texts_write(texts_write(key, q, queue_count), t, type_count);
	HASH_FIND(hh, d->profiles, key, length, p);
	if (!p) {
		p = mem_calloc(1, sizeof *p);
		p->demand = d;
		p->key = key;
		p->queues = names_take(&d->queues, q, queue_count);
		p->types = names_take(&d->types, t, type_count);
		p->queue_count = queue_count;
		p->type_count = type_count;
		HASH_ADD_KEYPTR(hh, d->profiles, p->key, length, p);
	} else {
		free(key);
		if (p->fetches == 0) {
			DL_DELETE(d->kept, p);
			d->kept_count--;
		}
	}
	p->fetches++;
	free(q);
	free(t);
	return p;
}

static int64_t routes_of(struct name *const *names, int count)
{
	int64_t routes = 0;
	for (int i = 0; i < count; i++)
		routes += names[i]->route_count;
	return routes;
}

void demand_wait(struct profile *p)
{
	struct demand *d = p->demand;
	if (p->known)
		return;
	p->known = true;
	p->by_queue =
	    p->queue_count && (!p->type_count || routes_of(p->queues, p->queue_count) < routes_of(p->types, p->type_count));
	p->links = mem_calloc((unsigned)link_count(p) + 1, sizeof *p->links);
	for (int i = 0; i < link_count(p); i++) {
		p->links[i].profile = p;
		DL_APPEND(link_name(p, i)->links, &p->links[i]);
	}
	if (!p->queue_count && !p->type_count)
		d->all = p;
	demand_routes(p, want, d);
}

static void profile_free(struct profile *p)
{
	struct demand *d = p->demand;
	if (p->known && !d->closing)
		demand_routes(p, want_no_more, d);
	for (int i = 0; p->known && i < link_count(p); i++)
		DL_DELETE(link_name(p, i)->links, &p->links[i]);
	if (d->all == p)
		d->all = NULL;
	HASH_DEL(d->profiles, p);
	for (int i = 0; i < p->queue_count; i++)
		name_give_back(&d->queues, p->queues[i]);
	for (int i = 0; i < p->type_count; i++)
		name_give_back(&d->types, p->types[i]);
	free(p->queues);
	free(p->types);
	deadlines_free(&p->idle);
	free(p->links);
	free(p->key);
	free(p);
}

static void forget_oldest(struct demand *d)
{
	struct profile *p = d->kept;
	DL_DELETE(d->kept, p);
	d->kept_count--;
	profile_free(p);
}

void demand_give_back(struct profile *p)
{
	struct demand *d = p->demand;
	if (--p->fetches)
		return;
	if (!p->known) {
		profile_free(p);
		return;
	}
	p->forget_ms = base_now(d->base) + KEEP_MS;
	DL_APPEND(d->kept, p);
	if (++d->kept_count > KEPT_MAX)
		forget_oldest(d);
	else if (d->kept == p)
		jobs_at(d->base->jobs, JOB_FETCHES, p->forget_ms);
}

int64_t demand_forget(struct demand *d, int64_t now_ms)
{
	while (d->kept && d->kept->forget_ms <= now_ms)
		forget_oldest(d);
	return d->kept ? d->kept->forget_ms : INT64_MAX;
}

/* --- walks -------------------------------------------------------------------------------------------------------- */

struct profile *demand_next(struct demand_walk *w)
{
	for (;;) {
		while (w->at) {
			struct profile *p = w->at->profile;
			w->at = w->at->next;
			w->demand->compared++;
			if (p->by_queue ? lists(p->types, p->type_count, w->type) : lists(p->queues, p->queue_count, w->queue))
				return p;
		}
		switch (w->step++) {
		case 0: w->at = w->queue ? w->queue->links : NULL; break;
		case 1: w->at = w->type ? w->type->links : NULL; break;
		case 2: return w->queue ? w->demand->all : NULL;
		default: return NULL;
		}
	}
}

struct profile *demand_first(struct demand_walk *w, struct demand *d, int route)
{
	*w = (struct demand_walk){.demand = d};
	if (route > 0 && route < d->route_count) {
		w->queue = d->routes[route].queue;
		w->type = d->routes[route].type;
	}
	return demand_next(w);
}

int64_t demand_compared(const struct demand *d)
{
	return d->compared;
}

void demand_destroy(struct demand *d)
{
	struct profile *p, *p_tmp;
	d->closing = true;
	HASH_ITER (hh, d->profiles, p, p_tmp)
		profile_free(p);
	for (int route = 1; route < d->route_count; route++)
		if (d->routes[route].queue) {
			name_give_back(&d->queues, d->routes[route].queue);
			name_give_back(&d->types, d->routes[route].type);
		}
	free(d->routes);
	free(d);
}
