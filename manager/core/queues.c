/* Settings by the queue's name (a hash), and by the route's number (an array, which is rebuilt after each load). */
#include "manager/core/queues.h"

#include "common/hash.h"
#include "common/limits.h"
#include "manager/core/routes.h"

#include <stdlib.h>
#include <string.h>

struct entry {
	struct store_queue queue;
	UT_hash_handle hh;
};

struct queues {
	struct base *base;
	struct routes *of;
	queues_changed *changed;
	void *arg;
	struct entry *by_name;
	const struct store_queue **by_route;
	int routes; /* elements of by_route */
	bool loaded;
	bool stopped;                        /* a queue is stopped or stopping */
	char fingerprint[STORE_FINGERPRINT]; /* of the loaded settings */
	struct store_queues load;
};

static const struct store_queue defaults = {
    .name = "",
    .state = STORE_QUEUE_RUNNING,
    .autostart = true,
    .max_attempts = DEFAULT_ATTEMPTS,
    .retry_base_ms = DEFAULT_RETRY_BASE_MS,
    .retry_max_ms = DEFAULT_RETRY_MAX_MS,
};

static void forget(struct queues *queues)
{
	struct entry *e, *tmp;
	HASH_ITER (hh, queues->by_name, e, tmp) {
		HASH_DEL(queues->by_name, e);
		free((char *)e->queue.name);
		free((char *)e->queue.retry_policy);
		free(e);
	}
	queues->routes = 0;
}

void queues_destroy(struct queues *queues)
{
	forget(queues);
	free(queues->by_route);
	free(queues);
}

const struct store_queue *queues_get(const struct queues *queues, const char *queue)
{
	struct entry *e;
	HASH_FIND_STR(queues->by_name, queue, e);
	return e ? &e->queue : &defaults;
}

const struct store_queue *queues_of_route(struct queues *queues, int route)
{
	if (route > routes_last(queues->of))
		return &defaults;
	queues->by_route = mem_extend(queues->by_route, sizeof *queues->by_route, &queues->routes, route);
	if (!queues->by_route[route]) {
		const struct route *r = routes_get(queues->of, route);
		if (!r)
			return &defaults;
		queues->by_route[route] = queues_get(queues, r->queue);
	}
	return queues->by_route[route];
}

bool queues_stopped(const struct queues *queues)
{
	return queues->stopped;
}

static void take(struct queues *queues, const struct store_queues *read)
{
	forget(queues);
	queues->stopped = false;
	for (int i = 0; i < read->count; i++) {
		struct entry *e = mem_calloc(1, sizeof *e);
		e->queue = read->queues[i];
		e->queue.name = mem_strdup(read->queues[i].name);
		e->queue.retry_policy = read->queues[i].retry_policy ? mem_strdup(read->queues[i].retry_policy) : NULL;
		queues->stopped |= e->queue.state == STORE_QUEUE_STOPPING || e->queue.state == STORE_QUEUE_STOPPED;
		HASH_ADD_KEYPTR(hh, queues->by_name, e->queue.name, strlen(e->queue.name), e);
	}
	memcpy(queues->fingerprint, read->fingerprint, sizeof queues->fingerprint);
	queues->loaded = true;
}

static void on_loaded(struct store_op *op, const struct reeve_error *error)
{
	struct queues *queues = (struct queues *)((char *)op - offsetof(struct queues, load));
	jobs_done(queues->base->jobs, JOB_QUEUES, error, false);
	if (error)
		return; /* the next heartbeat retries */
	bool changed = queues->loaded && strcmp(queues->fingerprint, queues->load.fingerprint) != 0;
	take(queues, &queues->load);
	if (queues->stopped)
		jobs_ask(queues->base->jobs, JOB_QUEUE_STOPS);
	/* Tasks that were skipped before may be claimable now. */
	if (changed)
		queues->changed(queues->arg);
	base_dispatch(queues->base);
}

static bool load(void *arg)
{
	struct queues *queues = arg;
	queues->load = (struct store_queues){.op.done = on_loaded};
	store_queues(queues->base->store, &queues->load);
	return true;
}

struct queues *queues_create(struct base *base, struct routes *routes, queues_changed *changed, void *arg)
{
	struct queues *queues = mem_calloc(1, sizeof *queues);
	queues->base = base;
	queues->of = routes;
	queues->changed = changed;
	queues->arg = arg;
	jobs_bind(base->jobs, JOB_QUEUES, load, queues);
	return queues;
}

void queues_fingerprint(struct queues *queues, const char *fingerprint)
{
	if ((!queues->loaded || strcmp(fingerprint, queues->fingerprint) != 0) &&
	    !jobs_running(queues->base->jobs, JOB_QUEUES))
		jobs_at(queues->base->jobs, JOB_QUEUES, 0);
}

/* A caller that needs the settings before the first load has ended: it loads them on its own. */
struct ready {
	struct store_queues op;
	struct queues *queues;
	queues_done *done;
	void *arg;
};

static void on_ready(struct store_op *op, const struct reeve_error *error)
{
	struct ready *r = (struct ready *)op;
	if (!error)
		take(r->queues, &r->op);
	r->done(r->arg, error);
	free(r);
}

void queues_ready(struct queues *queues, int64_t deadline_ms, queues_done *done, void *arg)
{
	if (queues->loaded) {
		done(arg, NULL);
		return;
	}
	struct ready *r = mem_calloc(1, sizeof *r);
	r->queues = queues;
	r->done = done;
	r->arg = arg;
	r->op.op.done = on_ready;
	r->op.op.deadline_ms = deadline_ms;
	store_queues(queues->base->store, &r->op);
}
