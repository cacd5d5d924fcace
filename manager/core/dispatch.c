/*
 * Fetches wait in the lists of their profiles (demand.h). A claim takes candidates for them (match.c); while it is in
 * flight its Fetches are in state CLAIMING.
 *
 * Only Fetches of incarnations that are alive, as far as known, take part in claims. An incarnation that is new here is
 * looked up first. One whose Fetch won nothing is checked again, because it may be lost.
 */
#include "manager/core/dispatch_internal.h"
#include "manager/core/numbers.h"
#include "manager/core/sessions.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	PARKED_MAX = 1000, /* Fetches of an incarnation that park: its commands and its end go to all of them */
};

/* Returns true if a Fetch that does not park accepts the stream, whose left tasks are then read, and marks the profiles
 * of such Fetches. */
static bool read_left(void *arg, const struct stream *s)
{
	int route = stream_route(s);
	struct dispatch *d = arg;
	struct demand_walk walk;
	bool some = false;
	if (!match_wants(d->matching, route))
		return false;
	for (struct profile *p = demand_first(&walk, d->demand, route); p; p = demand_next(&walk))
		if (p->unparked && !p->searched)
			some = p->reads = true;
	return some;
}

static bool accepts(const void *profile, int route)
{
	return demand_accepts(profile, route);
}

/* Answers the Fetches that do not park and found no candidate, unless streams are being searched for them, or tasks
 * that were left to other managers are now read. Its time grows with these Fetches and the streams with such tasks, not
 * with the routes. */
static void answer_unparked(struct dispatch *d)
{
	struct fetch *f, *tmp;
	DL_FOREACH2 (d->unparked, f, unparked_next) {
		f->profile->searched = ready_searches(d->cache, accepts, f->profile);
		f->profile->reads = false;
	}
	if (d->unparked)
		ready_read_passed(d->cache, read_left, d);
	DL_FOREACH_SAFE2 (d->unparked, f, tmp, unparked_next) {
		if (f->profile->searched || f->profile->reads)
			continue;
		struct fetch_answer nothing = fetch_nothing(f, true);
		fetch_end(f, &nothing, NULL);
	}
}

void dispatch_run(struct dispatch *d)
{
	d->base->dispatch_asked = false;
	fetches_resume(d);
	if (d->claiming || !d->waiting)
		return;
	bool unsure = !ready_discovered(d->cache);
	int tried = unsure ? 0 : match_candidates(d->matching, &unsure);
	fetches_hold(d);
	if (tried)
		dispatch_claim(d, tried);
	if (!unsure)
		answer_unparked(d);
}

bool dispatch_wants(struct dispatch *d, int route)
{
	return match_wants(d->matching, route);
}

bool dispatch_takes(struct dispatch *d, int route, int candidates, int all)
{
	return match_fits(d->matching, route, candidates, all);
}

bool dispatch_waiting(const struct dispatch *d)
{
	return d->waiting > 0;
}

/* --- arrival of Fetches ------------------------------------------------------------------------------------------ */

void dispatch_gone(struct dispatch *d, int64_t incarnation, int64_t fetch_id, void *arg)
{
	struct fetch *f = fetch_find(d, incarnation, fetch_id);
	if (f && f->arg == arg)
		fetch_abort(f);
}

/* Refuses a Fetch of an incarnation that has as many as it may. */
static void refuse_fetch(const struct fetch_request *request, fetch_done *done, void *arg)
{
	struct reeve_error error;
	error_set(&error, STATUS(RESOURCE_EXHAUSTED),
	    "%d Fetches of incarnation %lld wait, the maximum at a manager; try again later", PARKED_MAX,
	    (long long)request->incarnation);
	done(arg, &(struct fetch_answer){0}, &error);
}

static struct fetch_limit limit_copy(const struct fetch_limit *limit)
{
	return (struct fetch_limit){.queue = limit->queue ? mem_strdup(limit->queue) : NULL,
	    .type = limit->type ? mem_strdup(limit->type) : NULL,
	    .slots = limit->slots};
}

void dispatch_fetch(struct dispatch *d, const struct fetch_request *request, fetch_done *done, void *arg)
{
	struct base *base = d->base;
	struct session *session = sessions_on_call(d->sessions, request->incarnation);
	bool again = request->again || session->state == SESSION_ASKED || request->fetch_id <= session->highest_fetch;
	base->counters.fetches++;
	struct fetch *earlier = again ? fetch_find(d, request->incarnation, request->fetch_id) : NULL;
	if (earlier) {
		fetch_abort(earlier);
		session = sessions_on_call(d->sessions, request->incarnation); /* it may have ended with its only Fetch */
	}
	if (request->fetch_id > session->highest_fetch)
		session->highest_fetch = request->fetch_id;
	if (request->wait_ms > 0 && session->parked >= PARKED_MAX) {
		refuse_fetch(request, done, arg);
		return;
	}

	struct fetch *f = mem_calloc(1, sizeof *f);
	f->dispatch = d;
	f->session = session;
	f->request = *request;
	f->request.queues = f->request.types = NULL;
	f->profile = demand_take(d->demand, request->queues, request->queue_count, request->types, request->type_count);
	f->number = ++d->last_number;
	int64_t *exclude = mem_calloc((size_t)request->exclude_count + 1, sizeof *exclude);
	if (request->exclude_count)
		memcpy(exclude, request->exclude, sizeof *exclude * (size_t)request->exclude_count);
	qsort(exclude, (size_t)request->exclude_count, sizeof *exclude, by_number);
	f->request.exclude = exclude;
	f->request.limits = NULL;
	f->limits = mem_calloc((size_t)request->limit_count + 1, sizeof *f->limits);
	for (int i = 0; i < request->limit_count; i++)
		f->limits[i] = limit_copy(&request->limits[i]);
	if (f->request.max_bytes <= 0 || f->request.max_bytes > base->options.max_answer_bytes)
		f->request.max_bytes = base->options.max_answer_bytes;
	f->parks = request->wait_ms > 0;
	session->parked += f->parks;
	int64_t wait = request->wait_ms < base->options.fetch_wait_ms ? request->wait_ms : base->options.fetch_wait_ms;
	f->arrived_ms = f->claimed_ms = base_now(base);
	f->until_ms = f->arrived_ms + (f->parks ? wait : UNPARKED_LIMIT_MS);
	f->done = done;
	f->arg = arg;
	f->state = ASKING;
	f->request.where = NULL;
	f->pick = request->where ? pick_create(f, request->where) : NULL;
	fetch_found_by_id(f);
	DL_APPEND(d->fetches, f);
	DL_APPEND2(session->fetches, f, session_prev, session_next);
	if (session->state == SESSION_LOST) {
		fetch_end_lost(f);
	} else if (again) {
		fetch_redeliver(f);
	} else if (f->pick) {
		pick_start(f);
	} else {
		fetch_wait(f);
		base_dispatch(d->base);
	}
}

void dispatch_commands(struct dispatch *d, int64_t incarnation, const struct store_worker_command *commands, int count)
{
	struct session *session = sessions_find(d->sessions, incarnation);
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE2 (session ? session->fetches : NULL, f, tmp, session_next) {
		if (f->state != WAITING && f->state != CHECKING && !fetch_held_waiting(f))
			continue;
		struct fetch_answer answer = {.commands = commands, .command_count = count};
		fetch_end(f, &answer, NULL);
		if (commands->task_id)
			return;
	}
}

void dispatch_lost(struct session *session)
{
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE2 (session->fetches, f, tmp, session_next)
		if (f->state == WAITING || f->state == CHECKING || f->state == HELD)
			fetch_end_lost(f);
}

static struct fetch *fetch_due(const struct dispatch *d, int64_t now_ms)
{
	struct deadline *first = deadlines_first(&d->deadlines);
	return first && first->at_ms <= now_ms ? (struct fetch *)((char *)first - offsetof(struct fetch, deadline)) : NULL;
}

/* Answers Fetches whose time is over, and forgets profiles. */
static bool answer_rescan(void *arg)
{
	struct dispatch *d = arg;
	int64_t now_ms = base_now(d->base);
	struct reeve_error error;
	error_set(&error, STATUS(UNAVAILABLE), "the database takes long; ask again");
	for (struct fetch *f; (f = fetch_due(d, now_ms));) {
		if (f->state == HELD && !fetch_held_waiting(f)) {
			fetch_end_held(f);
		} else if (f->state != CLAIMING) {
			struct fetch_answer nothing = fetch_nothing(f, false);
			fetch_end(f, &nothing, NULL);
		} else { /* what the claim wins stays with the Fetch's id */
			d->by_slot[f->slot] = NULL;
			fetch_end(f, NULL, &error);
		}
	}
	struct deadline *first = deadlines_first(&d->deadlines);
	jobs_at(d->base->jobs, JOB_FETCHES, demand_forget(d->demand, now_ms));
	if (first)
		jobs_at(d->base->jobs, JOB_FETCHES, first->at_ms);
	return false;
}

static bool dispatch_again(void *arg)
{
	const struct dispatch *d = arg;
	base_dispatch(d->base);
	return false;
}

void dispatch_route(struct dispatch *d, int route)
{
	demand_route(d->demand, route);
}

void dispatch_forget_route(struct dispatch *d, int route)
{
	demand_forget_route(d->demand, route);
}

static void on_wanted(void *arg, int route, bool wanted)
{
	const struct dispatch *d = arg;
	ready_route_wanted(d->cache, route, wanted);
}

struct dispatch *dispatch_create(struct base *base, const struct dispatch_neighbours *neighbours)
{
	struct dispatch *d = mem_calloc(1, sizeof *d);
	size_t max = (size_t)base->options.claim_limit;
	d->base = base;
	d->clock = neighbours->clock;
	d->cache = neighbours->cache;
	d->routes = neighbours->routes;
	d->queues = neighbours->queues;
	d->sessions = neighbours->sessions;
	d->verbose = neighbours->verbose;
	d->spans = neighbours->spans;
	d->demand = demand_create(base, d->routes, on_wanted, d);
	d->matching = match_create(d);
	d->tries = mem_calloc(max, sizeof *d->tries);
	d->grants = mem_calloc(max, sizeof *d->grants);
	d->slots = mem_calloc(max, sizeof *d->slots);
	d->by_slot = mem_calloc(max, sizeof *d->by_slot);
	jobs_bind(base->jobs, JOB_FETCHES, answer_rescan, d);
	jobs_bind(base->jobs, JOB_DISPATCH, dispatch_again, d);
	return d;
}

void dispatch_destroy(struct dispatch *d)
{
	struct fetch *f, *tmp;
	struct reeve_error error;
	error_set(&error, STATUS(UNAVAILABLE), "the manager stops");
	DL_FOREACH_SAFE (d->fetches, f, tmp)
		fetch_end(f, NULL, &error);
	demand_destroy(d->demand);
	match_destroy(d->matching);
	deadlines_free(&d->deadlines);
	free(d->tries);
	free(d->grants);
	free(d->slots);
	free(d->by_slot);
	free(d);
}
