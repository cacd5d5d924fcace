/*
 * Fetches wait in one list, in the order they came. A claim takes candidates from the streams, highest priority first,
 * and deals them to the Fetches that accept their routes; while it is under way its Fetches are `claiming`. A stream
 * with unread rows is a barrier: nothing of a lower priority overtakes what has not been read yet.
 *
 * Only Fetches of incarnations that live, as far as is known, take part in a claim: one that is new here is looked up first,
 * and one whose Fetch won nothing is looked at again, because that is what being lost looks like from here.
 */
#include "manager/core/dispatch.h"

#include "manager/core/queues.h"
#include "manager/core/routes.h"
#include "manager/core/sessions.h"
#include "manager/core/verbose.h"
#include "manager/core/window.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	LOOK_LIMIT_MS = 5000,    /* a look at a worker that takes longer is given up */
	UNPARKED_LIMIT_MS = 500, /* a Fetch that does not park waits so long for a claim or a page under way */
	CLAIM_LIMIT_MS = 1000,   /* a Fetch is held so much longer by a claim under way */
	CLAIM_BEGIN_MS = 2000,   /* a claim that cannot be begun in that time is given up */
	AGAIN_MS = 50,           /* who must know whether anything waits, and cannot be told yet, asks again after so long */
	GROUP_MOST = 128,        /* streams of one priority that are dealt from together */
	ASSIGNMENT_BYTES = 400,  /* what an assignment costs beside its texts: numbers, and a key of 255 bytes */
};

enum fetch_state {
	WAITING,
	CLAIMING,
	ASKING,   /* what it was given, and whether its incarnation lives */
	CHECKING, /* whether its incarnation still lives: its claim won nothing */
};

struct fetch {
	struct dispatch *dispatch;
	struct session *session;
	struct fetch_request request;
	enum fetch_state state;
	bool parks;              /* may wait for work to come */
	int64_t arrived_ms;
	int64_t claimed_ms;      /* when its claim, or the question what it was given, was sent */
	int64_t until_ms;        /* is answered by then, even if empty */
	fetch_done *done;
	void *arg;
	signed char *accepts;    /* by route: 0 not looked at, 1 yes, −1 no */
	int accepts_count;
	int64_t let_from_ms;     /* from then on it is given what is kept from it now; 0: nothing is */
	int granted;             /* candidates tried for it by the claim under way */
	int64_t granted_bytes;
	int slot;                /* its place in the claim */
	struct store_redeliver ask;
	struct fetch *prev, *next;
	struct fetch *session_prev, *session_next;
};

struct grant {
	struct candidate candidate;
	struct fetch *fetch;
	int slot;
};

struct dispatch {
	struct core *core;
	struct fetch *fetches;
	int waiting;             /* of them in state WAITING */
	bool claiming, running, again;
	bool unsure;             /* rows of a stream that somebody accepts are unread: that nothing waits is not known */
	struct store_claim claim;
	struct store_try *tries;
	struct grant *grants;    /* what is tried, and for whom */
	struct store_fetch *slots;
	struct fetch **by_slot;
	int slot_capacity;
};

struct dispatch *dispatch_create(struct core *core)
{
	struct dispatch *d = calloc(1, sizeof *d);
	d->core = core;
	d->tries = calloc((size_t)core->options.claim_limit, sizeof *d->tries);
	d->grants = calloc((size_t)core->options.claim_limit, sizeof *d->grants);
	return d;
}

/* --- one Fetch --------------------------------------------------------------------------------------------------- */

static char **texts_copy(char *const *texts, int count)
{
	char **copy = calloc((size_t)count + 1, sizeof *copy);
	for (int i = 0; i < count; i++)
		copy[i] = strdup(texts[i]);
	return copy;
}

static void texts_free(char *const *texts, int count)
{
	for (int i = 0; i < count; i++)
		free(texts[i]);
	free((void *)texts);
}

static void fetch_free(struct fetch *f)
{
	texts_free(f->request.queues, f->request.queue_count);
	texts_free(f->request.types, f->request.type_count);
	free((void *)f->request.exclude);
	free(f->accepts);
	free(f);
}

static void fetch_unlist(struct fetch *f)
{
	if (f->state == WAITING)
		f->dispatch->waiting--;
	DL_DELETE(f->dispatch->fetches, f);
	DL_DELETE2(f->session->fetches, f, session_prev, session_next);
	sessions_leave(f->dispatch->core->sessions, f->session);
}

/* Answers and frees it. */
static void fetch_end(struct fetch *f, const struct fetch_answer *answer, const struct reeve_error *error)
{
	static const struct fetch_answer nothing = {0};
	fetch_unlist(f);
	f->done(f->arg, answer ? answer : &nothing, error);
	fetch_free(f);
}

static void fetch_end_lost(struct fetch *f)
{
	struct reeve_error error;
	error_set(&error, STATUS(FAILED_PRECONDITION), "incarnation %lld has ended; register again",
	    (long long)f->request.incarnation);
	fetch_end(f, NULL, &error);
}

static bool listed(char *const *texts, int count, const char *text)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(texts[i], text))
			return true;
	return count == 0;
}

/* Whether the queue gives tasks now, and to this one: its worker may have to wait before its first. */
static bool queue_lets(const struct store_queue *queue, struct fetch *f)
{
	if (queue->state != STORE_QUEUE_RUNNING)
		return false;
	if (!queue->waiting_ms || !f->request.idle_ms)
		return true;
	int64_t from_ms = f->arrived_ms + queue->waiting_ms - f->request.idle_ms;
	if (core_now(f->dispatch->core) >= from_ms)
		return true;
	core_alarm(f->dispatch->core, from_ms);
	if (!f->let_from_ms || from_ms < f->let_from_ms)
		f->let_from_ms = from_ms;
	return false;
}

static bool fetch_accepts(struct fetch *f, int id)
{
	struct core *core = f->dispatch->core;
	const struct route *route = routes_get(core->routes, id);
	if (!route)
		return false;
	if (id >= f->accepts_count) {
		int count = routes_last(core->routes) + 1;
		f->accepts = realloc(f->accepts, (size_t)count);
		memset(f->accepts + f->accepts_count, 0, (size_t)(count - f->accepts_count));
		f->accepts_count = count;
	}
	if (f->accepts[id] == 0) {
		const struct fetch_request *r = &f->request;
		bool yes = listed(r->queues, r->queue_count, route->queue) && listed(r->types, r->type_count, route->type);
		f->accepts[id] = yes ? 1 : -1;
	}
	return f->accepts[id] > 0 && queue_lets(queues_of_route(core->queues, id), f);
}

/* What a Fetch that does not park is told with nothing; `sure`: nothing that is due is known to wait for it. */
static struct fetch_answer fetch_nothing(const struct fetch *f, bool sure)
{
	int64_t let_in_ms = f->let_from_ms ? f->let_from_ms - core_now(f->dispatch->core) : 0;
	if (f->parks)
		return (struct fetch_answer){0};
	return (struct fetch_answer){.again_in_ms = !sure ? AGAIN_MS : f->let_from_ms && let_in_ms < 1 ? 1 : let_in_ms};
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static bool fetch_excludes(const struct fetch *f, int64_t id)
{
	return f->request.exclude_count &&
	    bsearch(&id, f->request.exclude, (size_t)f->request.exclude_count, sizeof id, by_number);
}

/* Whether one more candidate fits: slots, and bytes unless it is the first. */
static bool fetch_has_room(const struct fetch *f, int64_t bytes)
{
	return f->granted < f->request.slots &&
	    (f->granted == 0 || f->granted_bytes + bytes <= f->request.max_bytes);
}

/* --- the claim --------------------------------------------------------------------------------------------------- */

static void answer_won(struct fetch *f, const struct store_claimed *won, int won_count, int slot)
{
	const struct store_claimed **mine = calloc((size_t)won_count + 1, sizeof *mine);
	int n = 0;
	for (int i = 0; i < won_count; i++)
		if (won[i].slot == slot)
			mine[n++] = &won[i];
	struct fetch_answer answer = n ? (struct fetch_answer){0} : fetch_nothing(f, false);
	answer.won = mine;
	answer.won_count = n;
	answer.parked_ms = f->claimed_ms - f->arrived_ms;
	fetch_end(f, &answer, NULL);
	free(mine);
}

static void redeliver(struct fetch *f);

static void fetch_wait(struct fetch *f)
{
	f->state = WAITING;
	f->dispatch->waiting++;
}

struct look {
	struct store_look op;
	struct core *core;
	struct session *session; /* stays while it is looked at */
};

static void on_looked(struct store_op *op, const struct reeve_error *error)
{
	struct look *look = (struct look *)op;
	struct core *core = look->core;
	struct session *session = look->session;
	struct fetch *f;
	session->looking = false;
	if (!error && look->op.lost)
		sessions_lost(core->sessions, session->incarnation);
	free(look);
	DL_FOREACH2 (session->fetches, f, session_next)
		if (f->state == CHECKING)
			fetch_wait(f);
	dispatch_run(core->dispatch);
}

/* Is the incarnation over? If so its Fetches end; until that is known they take part in nothing. */
static void fetch_check(struct fetch *f)
{
	struct core *core = f->dispatch->core;
	f->state = CHECKING;
	if (f->session->looking)
		return;
	f->session->looking = true;
	struct look *look = calloc(1, sizeof *look);
	look->op = (struct store_look){
	    .op.done = on_looked,
	    .op.deadline_ms = core_now(core) + LOOK_LIMIT_MS,
	    .incarnation = f->session->incarnation,
	};
	look->core = core;
	look->session = f->session;
	store_look(core->store, &look->op);
}

/* Gives each Fetch of the claim what it won. */
static void claim_deal(struct dispatch *d)
{
	struct store_claim *claim = &d->claim;
	int *counts = calloc((size_t)claim->fetch_count + 1, sizeof *counts);
	for (int i = 0; i < claim->won_count; i++)
		counts[claim->won[i].slot]++;
	for (int slot = 0; slot < claim->fetch_count; slot++) {
		struct fetch *f = d->by_slot[slot];
		if (!f) /* given up meanwhile: what it won stays with its worker's Fetch id, to be asked for again */
			continue;
		if (!counts[slot] && f->session->state == SESSION_LOST)
			fetch_end_lost(f);
		else if (counts[slot] || !f->parks)
			answer_won(f, claim->won, claim->won_count, slot);
		else /* all lost to others, or the worker is not alive any more */
			fetch_check(f);
	}
	free(counts);
}

/* The place of the grant with this task: they are in id order. */
static int grant_of(const struct dispatch *d, int64_t id)
{
	int from = 0, to = d->claim.count - 1;
	while (from < to) {
		int middle = (from + to) / 2;
		if (d->grants[middle].candidate.id < id)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static void on_claimed(struct store_op *op, const struct reeve_error *error)
{
	struct dispatch *d = (struct dispatch *)((char *)op - offsetof(struct dispatch, claim));
	struct core *core = d->core;
	struct store_claim *claim = &d->claim;
	d->claiming = false;
	if (error) {
		/* Whether they were won is unknown: the rows are read again, and each Fetch asks what it was given. */
		for (int i = 0; i < claim->count; i++)
			window_release(core->window, &d->grants[i].candidate);
		for (int slot = 0; slot < claim->fetch_count; slot++)
			if (d->by_slot[slot])
				redeliver(d->by_slot[slot]);
		return;
	}
	core->counters.claims_tried += claim->count;
	core->counters.claims_won += claim->won_count;
	bool *won_any = calloc((size_t)claim->fetch_count + 1, sizeof *won_any);
	bool *won = calloc((size_t)claim->count + 1, sizeof *won);
	for (int i = 0; i < claim->won_count; i++) {
		won_any[claim->won[i].slot] = true;
		won[grant_of(d, claim->won[i].id)] = true;
		verbose_say(core, claim->won[i].route, claim->won[i].id, "claimed by worker %lld, attempt %d of %d",
		    (long long)claim->fetches[claim->won[i].slot].incarnation, claim->won[i].attempt, claim->won[i].max_attempts);
	}
	for (int i = 0; i < claim->count; i++) {
		/* Single losses are somebody else's. Where a Fetch won nothing at all its worker may be lost, and the
		 * tasks still wait. */
		if (won_any[d->grants[i].slot])
			window_claimed(core->window, d->grants[i].candidate.id, won[i]);
		else
			window_release(core->window, &d->grants[i].candidate);
	}
	free(won_any);
	free(won);
	claim_deal(d);
	dispatch_run(d);
}

/* The stream's first candidate that the Fetch does not leave out. */
static const struct candidate *stream_first_for(const struct stream *s, const struct fetch *f)
{
	const struct candidate *c = stream_peek(s);
	while (c && fetch_excludes(f, c->id))
		c = stream_peek_next(c);
	return c;
}

/* Deals one stream's candidates, as far as they are not due later than `until_us`, to the waiting Fetches that accept it;
 * none gets more than `share` of this claim. */
static void stream_deal(struct dispatch *d, struct stream *s, int *tried, int share, int64_t until_us)
{
	const struct route *route = routes_get(d->core->routes, stream_route(s));
	int64_t fixed = ASSIGNMENT_BYTES + (int64_t)strlen(route->queue) + (int64_t)strlen(route->type);
	struct fetch *f;
	DL_FOREACH (d->fetches, f) {
		if (f->state != WAITING || !fetch_accepts(f, stream_route(s)))
			continue;
		while (f->granted < share && *tried < d->core->options.claim_limit) {
			const struct candidate *c = stream_first_for(s, f);
			if (!c || c->run_at_us > until_us || !fetch_has_room(f, c->bytes + fixed))
				break;
			f->granted++;
			f->granted_bytes += c->bytes + fixed;
			struct grant *grant = &d->grants[(*tried)++];
			*grant = (struct grant){.candidate = window_take(d->core->window, c), .fetch = f};
		}
	}
}

/* The streams of one priority that somebody has room for. */
struct group {
	struct stream *streams[GROUP_MOST];
	bool stuck[GROUP_MOST]; /* nobody takes its candidates any more */
	int count;
	int demand, available;
};

/* Deals a group's candidates in the order they are due, whatever stream they are in: always from the one whose first is
 * the oldest, as far as it is older than every other's. */
static void group_deal(struct dispatch *d, struct group *g, int *tried, int share)
{
	memset(g->stuck, 0, sizeof g->stuck);
	for (;;) {
		int oldest = -1, before = *tried;
		int64_t first_us = INT64_MAX, until_us = INT64_MAX;
		for (int i = 0; i < g->count; i++) {
			const struct candidate *c = g->stuck[i] ? NULL : stream_peek(g->streams[i]);
			if (!c)
				continue;
			if (oldest < 0 || c->run_at_us < first_us) {
				until_us = first_us;
				first_us = c->run_at_us;
				oldest = i;
			} else if (c->run_at_us < until_us) {
				until_us = c->run_at_us;
			}
		}
		if (oldest < 0)
			return;
		stream_deal(d, g->streams[oldest], tried, share, until_us);
		if (*tried == before)
			g->stuck[oldest] = true;
	}
}

/* How many more candidates the waiting Fetches that accept the route could take; *excluded: how many of the stream's they
 * may leave out. */
static int stream_demand(struct dispatch *d, const struct stream *s, int *excluded)
{
	struct fetch *f;
	int demand = 0;
	*excluded = 0;
	DL_FOREACH (d->fetches, f) {
		if (f->state != WAITING || f->granted >= f->request.slots || !fetch_accepts(f, stream_route(s)))
			continue;
		demand += f->request.slots - f->granted;
		*excluded += f->request.exclude_count;
	}
	return demand;
}

/* Gathers the streams of the next priority, from *at on, that somebody has room for, and has them read ahead. True if
 * rows of one of them are still being read: those may be older than what is at hand. */
static bool group_gather(struct dispatch *d, struct group *g, struct stream **at)
{
	struct stream *first = *at, *s = first;
	bool unread = false;
	*g = (struct group){0};
	for (; s && g->count < GROUP_MOST && stream_priority(s) == stream_priority(first); s = window_next(s)) {
		int excluded, demand = stream_demand(d, s, &excluded);
		if (demand == 0)
			continue;
		g->streams[g->count++] = s;
		g->demand = demand > g->demand ? demand : g->demand;
		g->available += stream_count(s);
		if (stream_unread(s))
			window_read_ahead(d->core->window, s, 2 * demand + excluded);
		unread |= stream_holds(s);
		d->unsure |= stream_unread(s) && stream_count(s) == 0 && !stream_failing(s);
	}
	*at = s;
	return unread;
}

/* Takes candidates for the waiting Fetches. Returns how many candidates are tried; *barred is set if a stream's rows are
 * still being read. */
static int claim_choose(struct dispatch *d, bool *barred)
{
	struct fetch *f;
	struct group group;
	int tried = 0;
	DL_FOREACH (d->fetches, f) {
		f->granted = 0;
		f->granted_bytes = 0;
		f->let_from_ms = 0;
	}
	struct stream *at = window_first(d->core->window);
	while (at && tried < d->core->options.claim_limit) {
		*barred = group_gather(d, &group, &at);
		if (*barred)
			break; /* what is not read yet goes before anything else of its priority, or lower */
		int much = group.available < group.demand ? group.available : group.demand;
		int share = (much + d->waiting - 1) / d->waiting;
		group_deal(d, &group, &tried, share < 1 ? 1 : share);
		group_deal(d, &group, &tried, INT_MAX); /* what is left over, to whoever has room */
		for (int i = 0; i < group.count; i++)
			*barred |= stream_holds(group.streams[i]);
		if (*barred)
			break;
	}
	return tried;
}

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const struct grant *)a)->candidate.id, y = ((const struct grant *)b)->candidate.id;
	return (x > y) - (x < y);
}

/* Sends the claim for what was chosen, in id order; the Fetches that got something are its slots. */
static void claim_send(struct dispatch *d, int tried)
{
	struct fetch *f;
	int slots = 0;
	if (d->waiting > d->slot_capacity) {
		d->slot_capacity = d->waiting * 2;
		d->slots = realloc(d->slots, sizeof *d->slots * (size_t)d->slot_capacity);
		d->by_slot = realloc(d->by_slot, sizeof *d->by_slot * (size_t)d->slot_capacity);
	}
	DL_FOREACH (d->fetches, f) {
		if (f->state != WAITING || !f->granted)
			continue;
		d->slots[slots] = (struct store_fetch){f->request.incarnation, f->request.fetch_id};
		d->by_slot[slots] = f;
		f->slot = slots++;
		f->state = CLAIMING;
		f->claimed_ms = core_now(d->core);
		d->waiting--;
	}
	qsort(d->grants, (size_t)tried, sizeof *d->grants, by_id);
	for (int i = 0; i < tried; i++) {
		struct grant *grant = &d->grants[i];
		grant->slot = grant->fetch->slot;
		d->tries[i] = (struct store_try){grant->candidate.id, grant->candidate.version, grant->slot};
	}
	d->claiming = true;
	d->claim = (struct store_claim){
	    .op.done = on_claimed,
	    .op.deadline_ms = core_now(d->core) + CLAIM_BEGIN_MS,
	    .count = tried,
	    .tries = d->tries,
	    .fetch_count = slots,
	    .fetches = d->slots,
	    .buffer_ms = d->core->options.buffer_ms,
	};
	store_claim(d->core->store, &d->claim);
}

/* Fetches that do not wait for work to come are answered when nothing was at hand. */
static void answer_unparked(struct dispatch *d)
{
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE (d->fetches, f, tmp)
		if (f->state == WAITING && !f->parks) {
			struct fetch_answer nothing = fetch_nothing(f, true);
			fetch_end(f, &nothing, NULL);
		}
}

void dispatch_run(struct dispatch *d)
{
	if (d->running) { /* called from within: once more afterwards */
		d->again = true;
		return;
	}
	d->running = true;
	do {
		d->again = false;
		if (d->claiming || !d->waiting)
			break;
		d->unsure = false;
		bool barred = !window_ready(d->core->window);
		int tried = barred ? 0 : claim_choose(d, &barred);
		if (tried)
			claim_send(d, tried);
		if (!barred && !d->unsure)
			answer_unparked(d);
	} while (d->again);
	d->running = false;
}

bool dispatch_waiting(const struct dispatch *d)
{
	return d->waiting > 0;
}

bool dispatch_wants(struct dispatch *d, int route)
{
	struct fetch *f;
	DL_FOREACH (d->fetches, f)
		if (f->state == WAITING && fetch_accepts(f, route))
			return true;
	return false;
}

/* --- Fetches come ------------------------------------------------------------------------------------------------ */

static void on_redelivered(struct store_op *op, const struct reeve_error *error)
{
	struct fetch *f = (struct fetch *)((char *)op - offsetof(struct fetch, ask));
	struct dispatch *d = f->dispatch;
	if (!f->done) { /* superseded */
		fetch_unlist(f);
		fetch_free(f);
		return;
	}
	if (error) {
		fetch_end(f, NULL, error);
		return;
	}
	if (f->ask.life == STORE_LIFE_LIVES)
		sessions_live(d->core->sessions, f->request.incarnation);
	else if (f->session->state == SESSION_LIVES || f->ask.life == STORE_LIFE_OVER)
		sessions_lost(d->core->sessions, f->request.incarnation);
	if (f->session->state != SESSION_LIVES) {
		fetch_end_lost(f);
		return;
	}
	if (f->ask.won_count) {
		d->core->counters.redelivered += f->ask.won_count;
		answer_won(f, f->ask.won, f->ask.won_count, 0);
		return;
	}
	fetch_wait(f);
	dispatch_run(d);
}

/* Asks the journal what this Fetch was given before, and whether its incarnation lives. */
static void redeliver(struct fetch *f)
{
	f->state = ASKING;
	f->claimed_ms = core_now(f->dispatch->core);
	f->ask = (struct store_redeliver){
	    .op.done = on_redelivered,
	    .op.deadline_ms = f->until_ms + CLAIM_LIMIT_MS,
	    .fetch = {f->request.incarnation, f->request.fetch_id},
	};
	store_redeliver(f->dispatch->core->store, &f->ask);
}

/* Ends a Fetch whose caller is not listening any more, in whatever state. What its claim wins meanwhile stays with its
 * id, for when it comes again. */
static void fetch_abort(struct fetch *f)
{
	struct reeve_error error;
	error_set(&error, STATUS(ABORTED), "this Fetch was sent again, or its caller has gone");
	if (f->state == CLAIMING)
		f->dispatch->by_slot[f->slot] = NULL;
	if (f->state != ASKING) {
		fetch_end(f, NULL, &error);
	} else if (f->done) { /* its question to the journal is under way: it goes when that is answered */
		fetch_done *ended = f->done;
		f->done = NULL;
		ended(f->arg, &(struct fetch_answer){0}, &error);
	}
}

/* The same Fetch has come again while an earlier copy is here. */
static void supersede(struct session *session, int64_t fetch_id)
{
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE2 (session->fetches, f, tmp, session_next)
		if (f->request.fetch_id == fetch_id)
			fetch_abort(f);
}

void dispatch_gone(struct dispatch *d, int64_t incarnation, int64_t fetch_id, void *arg)
{
	struct session *session = sessions_find(d->core->sessions, incarnation);
	struct fetch *f = session ? session->fetches : NULL;
	while (f && !(f->request.fetch_id == fetch_id && f->done && f->arg == arg))
		f = f->session_next;
	if (f)
		fetch_abort(f);
}

void dispatch_fetch(struct dispatch *d, const struct fetch_request *request, fetch_done *done, void *arg)
{
	struct core *core = d->core;
	struct session *session = sessions_hear(core->sessions, request->incarnation);
	bool again = request->again || session->state == SESSION_ASKED || request->fetch_id <= session->highest_fetch;
	if (request->fetch_id > session->highest_fetch)
		session->highest_fetch = request->fetch_id;
	core->counters.fetches++;
	if (again)
		supersede(session, request->fetch_id);

	struct fetch *f = calloc(1, sizeof *f);
	f->dispatch = d;
	f->session = session;
	f->request = *request;
	f->request.queues = texts_copy(request->queues, request->queue_count);
	f->request.types = texts_copy(request->types, request->type_count);
	int64_t *exclude = calloc((size_t)request->exclude_count + 1, sizeof *exclude);
	if (request->exclude_count)
		memcpy(exclude, request->exclude, sizeof *exclude * (size_t)request->exclude_count);
	qsort(exclude, (size_t)request->exclude_count, sizeof *exclude, by_number);
	f->request.exclude = exclude;
	if (f->request.max_bytes <= 0 || f->request.max_bytes > core->options.max_answer_bytes)
		f->request.max_bytes = core->options.max_answer_bytes;
	f->parks = request->wait_ms > 0;
	int64_t wait = request->wait_ms < core->options.park_limit_ms ? request->wait_ms : core->options.park_limit_ms;
	f->arrived_ms = f->claimed_ms = core_now(core);
	f->until_ms = f->arrived_ms + (f->parks ? wait : UNPARKED_LIMIT_MS);
	f->done = done;
	f->arg = arg;
	f->state = ASKING;
	DL_APPEND(d->fetches, f);
	DL_APPEND2(session->fetches, f, session_prev, session_next);
	core_alarm(core, f->until_ms);
	if (session->state == SESSION_LOST) {
		fetch_end_lost(f);
	} else if (again) {
		redeliver(f);
	} else {
		fetch_wait(f);
		dispatch_run(d);
	}
}

void dispatch_order(struct dispatch *d, int64_t incarnation, const struct store_order *order)
{
	struct session *session = sessions_find(d->core->sessions, incarnation);
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE2 (session ? session->fetches : NULL, f, tmp, session_next) {
		if (f->state != WAITING && f->state != CHECKING)
			continue;
		struct fetch_answer answer = {.orders = order, .order_count = 1};
		fetch_end(f, &answer, NULL);
		if (order->task_id)
			return;
	}
}

void dispatch_lost(struct session *session)
{
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE2 (session->fetches, f, tmp, session_next)
		if (f->state == WAITING || f->state == CHECKING)
			fetch_end_lost(f);
}

int64_t dispatch_turn(struct dispatch *d, int64_t now_ms)
{
	int64_t next = INT64_MAX;
	struct fetch *f, *tmp;
	struct reeve_error error;
	error_set(&error, STATUS(UNAVAILABLE), "the database takes long; ask again");
	DL_FOREACH_SAFE (d->fetches, f, tmp) {
		int64_t until = f->until_ms + (f->state == CLAIMING ? CLAIM_LIMIT_MS : 0);
		if (f->state == ASKING)
			continue;
		if (until > now_ms) {
			next = until < next ? until : next;
		} else if (f->state != CLAIMING) {
			struct fetch_answer nothing = fetch_nothing(f, false);
			fetch_end(f, &nothing, NULL);
		} else { /* what the claim wins stays with its id */
			d->by_slot[f->slot] = NULL;
			fetch_end(f, NULL, &error);
		}
	}
	return next;
}

void dispatch_destroy(struct dispatch *d)
{
	struct fetch *f, *tmp;
	struct reeve_error error;
	error_set(&error, STATUS(UNAVAILABLE), "the manager stops");
	DL_FOREACH_SAFE (d->fetches, f, tmp)
		fetch_end(f, NULL, &error);
	free(d->tries);
	free(d->grants);
	free(d->slots);
	free(d->by_slot);
	free(d);
}
