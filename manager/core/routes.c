/*
 * Routes by name (a hash) and by number (an array). A route that the last load did not include is retired and therefore
 * forgotten. Its number can still be looked up for a while.
 */
#include "manager/core/routes.h"

#include "common/hash.h"
#include "common/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	LOAD_LIMIT_MS = 5000,
	FORGOTTEN_MS = 10 * 60 * 1000, /* how long a forgotten number can still be looked up: longer than any call */
	FORGOTTEN_LOADS = 5,           /* the minimum number of loads until then, in case this process was frozen */
};

struct entry {
	struct route route;
	char *name;           /* queue, NUL, type, NUL: the hash's key */
	int64_t known;        /* the last load at which it was known; if forgotten, the load that did not include it */
	bool forgotten;       /* it is in the list `forgotten`, not in the hash */
	int64_t forgotten_ms; /* when it was forgotten */
	struct entry *prev, *next;
	UT_hash_handle hh;
};

struct names {
	char *name;
	int uses; /* the number of routes with this name */
	UT_hash_handle hh;
};

struct routes {
	struct base *base;
	struct routes_listener listener;
	struct entry *by_name;
	struct entry **by_id;
	struct entry *forgotten; /* list, the oldest first */
	int capacity, last;
	int64_t fingerprint; /* of the known routes */
	int64_t adding;      /* routes that are being created */
	struct names *queues, *types;
	int64_t loads; /* the number of loads begun */
	struct store_routes load;
	int64_t refused_logged_ms; /* when the last warning about too many routes was logged */
};

static void names_free(struct names **set)
{
	struct names *n, *tmp;
	HASH_ITER (hh, *set, n, tmp) {
		HASH_DEL(*set, n);
		free(n->name);
		free(n);
	}
}

static void entry_free(struct entry *e)
{
	free(e->route.queue);
	free(e->route.type);
	free(e->name);
	free(e);
}

void routes_destroy(struct routes *routes)
{
	struct entry *e, *tmp;
	HASH_ITER (hh, routes->by_name, e, tmp) {
		HASH_DEL(routes->by_name, e);
		entry_free(e);
	}
	DL_FOREACH_SAFE (routes->forgotten, e, tmp)
		entry_free(e);
	names_free(&routes->queues);
	names_free(&routes->types);
	free(routes->by_id);
	free(routes);
}

/* Joins the two names with a NUL, which neither can hold. Returns the length. */
static size_t name_join(char *out, const char *queue, const char *type)
{
	size_t a = strlen(queue) + 1, b = strlen(type) + 1;
	memcpy(out, queue, a);
	memcpy(out + a, type, b);
	return a + b;
}

int routes_find(const struct routes *routes, const char *queue, const char *type)
{
	char name[1024];
	struct entry *e;
	if (strlen(queue) + strlen(type) + 2 > sizeof name)
		return 0;
	size_t length = name_join(name, queue, type);
	HASH_FIND(hh, routes->by_name, name, length, e);
	return e ? e->route.id : 0;
}

const struct route *routes_get(const struct routes *routes, int id)
{
	return id > 0 && id <= routes->last && routes->by_id[id] ? &routes->by_id[id]->route : NULL;
}

bool routes_known(const struct routes *routes, int id)
{
	return routes_get(routes, id) && !routes->by_id[id]->forgotten;
}

int routes_last(const struct routes *routes)
{
	return routes->last;
}

bool routes_have_queue(const struct routes *routes, const char *queue)
{
	struct names *n;
	HASH_FIND_STR(routes->queues, queue, n);
	return n != NULL;
}

bool routes_have_type(const struct routes *routes, const char *type)
{
	struct names *n;
	HASH_FIND_STR(routes->types, type, n);
	return n != NULL;
}

static void names_add(struct names **set, const char *name)
{
	struct names *n;
	HASH_FIND_STR(*set, name, n);
	if (!n) {
		n = mem_calloc(1, sizeof *n);
		n->name = mem_strdup(name);
		HASH_ADD_KEYPTR(hh, *set, n->name, strlen(n->name), n);
	}
	n->uses++;
}

static void names_remove(struct names **set, const char *name)
{
	struct names *n;
	HASH_FIND_STR(*set, name, n);
	assert(n);
	if (--n->uses)
		return;
	HASH_DEL(*set, n);
	free(n->name);
	free(n);
}

/* Returns a route's part of the fingerprint, as manager_heartbeat.sql computes it. The ids are mixed because different
 * sets of plain ids, or of their multiples, often have the same sum. */
static int64_t fingerprint_of(int id)
{
	uint32_t x = (uint32_t)id * UINT32_C(2654435761);
	return x ^ (x >> 16);
}

static struct entry *entry_create(struct routes *routes, const struct store_route *from)
{
	struct entry *e = mem_calloc(1, sizeof *e);
	e->route = (struct route){from->id, mem_strdup(from->queue), mem_strdup(from->type)};
	e->name = mem_malloc(strlen(from->queue) + strlen(from->type) + 2);
	name_join(e->name, from->queue, from->type);
	routes->by_id = mem_extend(routes->by_id, sizeof *routes->by_id, &routes->capacity, from->id);
	routes->by_id[from->id] = e;
	if (from->id > routes->last)
		routes->last = from->id;
	return e;
}

static void learn(struct routes *routes, const struct store_route *from)
{
	struct entry *e = from->id < routes->capacity ? routes->by_id[from->id] : NULL;
	if (e && !e->forgotten) {
		e->known = routes->loads;
		return;
	}
	if (e)
		DL_DELETE(routes->forgotten, e);
	else
		e = entry_create(routes, from);
	e->known = routes->loads;
	e->forgotten = false;
	HASH_ADD_KEYPTR(hh, routes->by_name, e->name, strlen(e->route.queue) + strlen(e->route.type) + 2, e);
	routes->fingerprint += fingerprint_of(e->route.id);
	names_add(&routes->queues, e->route.queue);
	names_add(&routes->types, e->route.type);
	log_debug("routes", "known: queue \"%s\", type \"%s\"", e->route.queue, e->route.type);
	routes->listener.known(routes->listener.arg, e->route.id);
}

/* Moves a route that has retired in the database to the list of forgotten ones. */
static void forget(struct routes *routes, struct entry *e)
{
	HASH_DEL(routes->by_name, e);
	routes->fingerprint -= fingerprint_of(e->route.id);
	names_remove(&routes->queues, e->route.queue);
	names_remove(&routes->types, e->route.type);
	log_debug("routes", "forgotten: queue \"%s\", type \"%s\"", e->route.queue, e->route.type);
	routes->listener.forgotten(routes->listener.arg, e->route.id);
	e->forgotten = true;
	e->forgotten_ms = base_now(routes->base);
	e->known = routes->loads;
	DL_APPEND(routes->forgotten, e);
}

static void forget_others(struct routes *routes)
{
	struct entry *e, *tmp;
	HASH_ITER (hh, routes->by_name, e, tmp)
		if (e->known < routes->loads)
			forget(routes, e);
	while ((e = routes->forgotten) && base_now(routes->base) - e->forgotten_ms >= FORGOTTEN_MS &&
	    routes->loads - e->known >= FORGOTTEN_LOADS) {
		DL_DELETE(routes->forgotten, e);
		routes->by_id[e->route.id] = NULL;
		entry_free(e);
	}
}

/* --- creating routes ------------------------------------------------------------------------------------------- */

struct ensure {
	struct store_routes op;
	struct routes *routes;
	routes_done *done;
	void *arg;
};

static void ensure_free(struct ensure *e)
{
	for (int i = 0; i < e->op.count; i++) {
		free((char *)e->op.queues[i]);
		free((char *)e->op.types[i]);
	}
	free(e->op.queues);
	free(e->op.types);
	free(e);
}

static void on_ensured(struct store_op *op, const struct reeve_error *error)
{
	struct ensure *e = (struct ensure *)op;
	e->routes->adding -= e->op.count;
	if (!error) {
		for (int i = 0; i < e->op.found; i++)
			learn(e->routes, &e->op.routes[i]);
		e->routes->listener.changed(e->routes->listener.arg);
	}
	e->done(e->arg, error);
	ensure_free(e);
}

struct names_pair {
	const char *queue, *type;
};

static int by_names(const void *a, const void *b)
{
	const struct names_pair *x = a, *y = b;
	int order = strcmp(x->queue, y->queue);
	return order ? order : strcmp(x->type, y->type);
}

/* Copies the unknown pairs, each once. */
static void ensure_fill(struct ensure *e, int count, const char *const *queues, const char *const *types)
{
	struct names_pair *pairs = mem_calloc((size_t)count + 1, sizeof *pairs);
	int unknown = 0;
	for (int i = 0; i < count; i++)
		if (!routes_find(e->routes, queues[i], types[i]))
			pairs[unknown++] = (struct names_pair){queues[i], types[i]};
	qsort(pairs, (size_t)unknown, sizeof *pairs, by_names);
	for (int i = 0; i < unknown; i++) {
		if (i && !by_names(&pairs[i], &pairs[i - 1]))
			continue;
		e->op.queues[e->op.count] = mem_strdup(pairs[i].queue);
		e->op.types[e->op.count] = mem_strdup(pairs[i].type);
		e->op.count++;
	}
	free(pairs);
}

static bool refuse_more(struct routes *routes, int more, struct reeve_error *error)
{
	int64_t max = routes->base->options.max_routes, known = HASH_COUNT(routes->by_name);
	if (!max || known + routes->adding + more <= max)
		return false;
	/* Not RESOURCE_EXHAUSTED or UNAVAILABLE: no delay makes room, so the caller must not retry. */
	error_set(error, STATUS(FAILED_PRECONDITION),
	    "with %d new pairs of queue and type there would be more than %lld (--max-routes); there are %lld", more,
	    (long long)max, (long long)known);
	routes->base->counters.refused++;
	if (log_again(&routes->refused_logged_ms, base_now(routes->base)))
		log_warn(NULL, "refusing a call (logged at most every 10 s): %s", error->message);
	return true;
}

void routes_ensure(struct routes *routes, int count, const char *const *queues, const char *const *types,
    int64_t deadline_ms, uint64_t origin, routes_done *done, void *arg)
{
	struct ensure *e = mem_calloc(1, sizeof *e);
	e->routes = routes;
	e->done = done;
	e->arg = arg;
	e->op.op.done = on_ensured;
	e->op.op.deadline_ms = deadline_ms;
	e->op.op.origin = origin;
	e->op.queues = mem_calloc((size_t)count + 1, sizeof *e->op.queues);
	e->op.types = mem_calloc((size_t)count + 1, sizeof *e->op.types);
	ensure_fill(e, count, queues, types);
	struct reeve_error error;
	bool refused = refuse_more(routes, e->op.count, &error);
	if (e->op.count == 0 || refused) {
		done(arg, refused ? &error : NULL);
		ensure_free(e);
		return;
	}
	routes->adding += e->op.count;
	store_routes(routes->base->store, &e->op);
}

static void on_loaded(struct store_op *op, const struct reeve_error *error)
{
	struct routes *routes = (struct routes *)((char *)op - offsetof(struct routes, load));
	int64_t before = routes->fingerprint;
	if (!error) { /* else the next heartbeat retries */
		for (int i = 0; i < routes->load.found; i++)
			learn(routes, &routes->load.routes[i]);
		forget_others(routes);
	}
	if (routes->fingerprint != before)
		routes->listener.changed(routes->listener.arg);
	jobs_done(routes->base->jobs, JOB_ROUTES, error, false);
}

static bool load(void *arg)
{
	struct routes *routes = arg;
	routes->loads++;
	routes->load =
	    (struct store_routes){.op.done = on_loaded, .op.deadline_ms = base_now(routes->base) + LOAD_LIMIT_MS};
	store_routes(routes->base->store, &routes->load);
	return true;
}

struct routes *routes_create(struct base *base, const struct routes_listener *listener)
{
	struct routes *routes = mem_calloc(1, sizeof *routes);
	routes->base = base;
	routes->listener = *listener;
	jobs_bind(base->jobs, JOB_ROUTES, load, routes);
	return routes;
}

void routes_fingerprint(struct routes *routes, int64_t fingerprint)
{
	if (fingerprint != routes->fingerprint && !jobs_running(routes->base->jobs, JOB_ROUTES))
		jobs_at(routes->base->jobs, JOB_ROUTES, 0);
}
