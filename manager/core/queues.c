/* Settings by the queue's name (a hash), and by the route's number (an array, which is rebuilt after each load). */
#include "manager/core/queues.h"

#include "common/clock.h"
#include "common/hash.h"
#include "common/limits.h"
#include "common/log.h"
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
	struct store_queue **by_route;
	int routes; /* elements of by_route */
	bool loaded;
	int64_t changes;
	bool stopped;                        /* a queue is stopped or stopping */
	bool verbose;                        /* a queue is verbose */
	char fingerprint[STORE_FINGERPRINT]; /* of the loaded settings */
	struct store_rooms rooms;
	int64_t rooms_ms; /* when the rooms were last read */
};

enum { ROOMS_EVERY_MS = 200 }; /* how often the rooms are read while a limit is reached */

/* Not const, because only a queue with a limit is changed, and this has none. */
static struct store_queue defaults = {
    .name = "",
    .state = STORE_QUEUE_RUNNING,
    .autostart = true,
    .max_attempts = DEFAULT_ATTEMPTS,
    .retry_base_ms = DEFAULT_RETRY_BASE_MS,
    .retry_max_ms = DEFAULT_RETRY_MAX_MS,
    .timeout_ms = DEFAULT_TIMEOUT_MS,
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

static struct store_queue *find(const struct queues *queues, const char *queue)
{
	struct entry *e;
	HASH_FIND_STR(queues->by_name, queue, e);
	return e ? &e->queue : &defaults;
}

const struct store_queue *queues_get(const struct queues *queues, const char *queue)
{
	return find(queues, queue);
}

static struct store_queue *of_route(struct queues *queues, int route)
{
	if (route > routes_last(queues->of))
		return &defaults;
	queues->by_route = mem_extend(queues->by_route, sizeof *queues->by_route, &queues->routes, route);
	if (!queues->by_route[route]) {
		const struct route *r = routes_get(queues->of, route);
		if (!r)
			return &defaults;
		queues->by_route[route] = find(queues, r->queue);
	}
	return queues->by_route[route];
}

const struct store_queue *queues_of_route(struct queues *queues, int route)
{
	return of_route(queues, route);
}

bool queues_have_room(struct queues *queues, const struct store_queue *queue)
{
	if (queue->limited && queue->room <= 0 && queue->max_running > 0)
		jobs_at(queues->base->jobs, JOB_LIMITS, queues->rooms_ms + ROOMS_EVERY_MS);
	return !queue->limited || queue->room > 0;
}

bool queues_use_room(struct queues *queues, int route, int64_t count)
{
	struct store_queue *q = of_route(queues, route);
	if (!q->limited)
		return false;
	q->room -= count;
	q->room = q->room < 0 ? 0 : q->room > q->max_running ? q->max_running : q->room;
	return true;
}

void queues_fill(struct queues *queues, int route)
{
	queues_use_room(queues, route, INT32_MAX);
}

static void on_rooms(struct store_op *op, const struct reeve_error *error)
{
	struct queues *queues = (struct queues *)((char *)op - offsetof(struct queues, rooms));
	jobs_done(queues->base->jobs, JOB_LIMITS, error, false);
	for (int i = 0; !error && i < queues->rooms.count; i++) {
		struct store_queue *q = find(queues, queues->rooms.rooms[i].queue);
		if (q->limited)
			q->room = queues->rooms.rooms[i].room;
	}
	base_dispatch(queues->base);
}

static bool read_rooms(void *arg)
{
	struct queues *queues = arg;
	queues->rooms_ms = base_now(queues->base);
	queues->rooms = (struct store_rooms){.op.done = on_rooms};
	store_rooms(queues->base->store, &queues->rooms);
	return true;
}

int64_t queues_changes(const struct queues *queues)
{
	return queues->changes;
}

bool queues_verbose(const struct queues *queues)
{
	return queues->verbose;
}

bool queues_stopped(const struct queues *queues)
{
	return queues->stopped;
}

/* Logs the begin of a verbose queue's waiting period. */
static void log_waiting(const struct queues *queues, const struct store_queue *q)
{
	char span[40];
	bool known = find(queues, q->name)->from_ms >= base_now(queues->base); /* the periods of two batches may overlap */
	if (q->waiting_left_ms && q->verbose && !known)
		log_info(NULL, "queue \"%s\": no task is assigned for %s: its waiting period", q->name,
		    duration_format(q->waiting_left_ms, span, sizeof span));
}

static void take(struct queues *queues, const struct store_queues *read)
{
	for (int i = 0; i < read->count; i++)
		log_waiting(queues, &read->queues[i]);
	forget(queues);
	queues->stopped = queues->verbose = false;
	for (int i = 0; i < read->count; i++) {
		struct entry *e = mem_calloc(1, sizeof *e);
		e->queue = read->queues[i];
		e->queue.name = mem_strdup(read->queues[i].name);
		e->queue.from_ms = e->queue.waiting_left_ms ? base_now(queues->base) + e->queue.waiting_left_ms + 1 : 0;
		e->queue.room = e->queue.max_running;
		e->queue.retry_policy = read->queues[i].retry_policy ? mem_strdup(read->queues[i].retry_policy) : NULL;
		queues->verbose |= e->queue.verbose;
		queues->stopped |= e->queue.state == STORE_QUEUE_STOPPING || e->queue.state == STORE_QUEUE_STOPPED;
		HASH_ADD_KEYPTR(hh, queues->by_name, e->queue.name, strlen(e->queue.name), e);
	}
	memcpy(queues->fingerprint, read->fingerprint, sizeof queues->fingerprint);
	queues->loaded = true;
}

/* Tasks that were skipped before may be claimable now, also before the first load: claims know the settings. */
static void apply(struct queues *queues, const struct store_queues *read)
{
	bool changed = !queues->loaded || strcmp(queues->fingerprint, read->fingerprint) != 0;
	queues->changes += changed;
	take(queues, read);
	if (queues->stopped)
		jobs_ask(queues->base->jobs, JOB_QUEUE_STOPS);
	if (changed)
		queues->changed(queues->arg);
	base_dispatch(queues->base);
}

/* After a failure the next heartbeat retries. */
static void on_loaded(void *arg, const struct reeve_error *error)
{
	const struct queues *queues = arg;
	jobs_done(queues->base->jobs, JOB_QUEUES, error, false);
}

static bool load(void *arg)
{
	queues_reload(arg, 0, on_loaded, arg);
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
	jobs_bind(base->jobs, JOB_LIMITS, read_rooms, queues);
	return queues;
}

void queues_fingerprint(struct queues *queues, const char *fingerprint)
{
	if ((!queues->loaded || strcmp(fingerprint, queues->fingerprint) != 0) &&
	    !jobs_running(queues->base->jobs, JOB_QUEUES))
		jobs_at(queues->base->jobs, JOB_QUEUES, 0);
}

struct reload {
	struct store_queues op;
	struct queues *queues;
	queues_done *done;
	void *arg;
};

static void on_reloaded(struct store_op *op, const struct reeve_error *error)
{
	struct reload *r = (struct reload *)op;
	if (!error)
		apply(r->queues, &r->op);
	r->done(r->arg, error);
	free(r);
}

void queues_reload(struct queues *queues, int64_t deadline_ms, queues_done *done, void *arg)
{
	struct reload *r = mem_calloc(1, sizeof *r);
	r->queues = queues;
	r->done = done;
	r->arg = arg;
	r->op.op.done = on_reloaded;
	r->op.op.deadline_ms = deadline_ms;
	store_queues(queues->base->store, &r->op);
}

void queues_ready(struct queues *queues, int64_t deadline_ms, queues_done *done, void *arg)
{
	if (queues->loaded)
		done(arg, NULL);
	else
		queues_reload(queues, deadline_ms, done, arg);
}
