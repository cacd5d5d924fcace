/*
 * Fetches wait in the lists of their profiles (demand.h). A claim takes candidates for them (deal.c); while it is in
 * flight its Fetches are in state CLAIMING.
 *
 * Only Fetches of incarnations that are alive, as far as known, take part in claims. An incarnation that is new here is
 * looked up first. One whose Fetch won nothing is checked again, because it may be lost.
 */
#include "manager/core/dispatch_internal.h"
#include "manager/core/numbers.h"
#include "manager/core/sessions.h"
#include "manager/core/verbose.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	POLL_LIMIT_MS = 5000,    /* deadline of the check of a worker */
	UNPARKED_LIMIT_MS = 500, /* how long a Fetch that does not park waits for a claim or page in flight */
	CLAIM_LIMIT_MS = 1000,   /* how much longer a Fetch waits for a claim in flight */
	CLAIM_BEGIN_MS = 2000,   /* a claim that has not begun within this time fails */
	RETURN_MS = 20,          /* how long the next Fetch of a worker is expected after an answer */
	AGAIN_MS = 50,           /* retry time of a Fetch that does not park if it is unknown whether tasks wait */
};

/* --- a Fetch ----------------------------------------------------------------------------------------------------- */

static void fetch_free(struct fetch *f)
{
	free((void *)f->request.exclude);
	free(f);
}

static void fetch_timer(struct fetch *f, int64_t at_ms)
{
	deadlines_set(&f->dispatch->deadlines, &f->deadline, at_ms);
	jobs_at(f->dispatch->base->jobs, JOB_FETCHES, at_ms);
}

/* Inserts the Fetch into its profile in order of arrival. One that returns from a claim that won nothing is among the
 * oldest. */
static void fetch_line_up(struct fetch *f)
{
	struct profile *p = f->profile;
	struct fetch *at = p->waiting;
	if (!at || at->waiting_prev->number < f->number) {
		DL_APPEND2(p->waiting, f, waiting_prev, waiting_next);
		return;
	}
	while (at->number < f->number)
		at = at->waiting_next;
	DL_PREPEND_ELEM2(p->waiting, at, f, waiting_prev, waiting_next);
}

static void fetch_wait(struct fetch *f)
{
	struct dispatch *d = f->dispatch;
	struct profile *p = f->profile;
	f->state = WAITING;
	f->granted = 0;
	f->granted_bytes = 0;
	f->slot = -1;
	demand_wait(p);
	fetch_line_up(f);
	p->count++;
	p->room += f->request.slots;
	p->excluded += f->request.exclude_count;
	if (f->request.idle_ms) {
		p->idle_room += f->request.slots;
		p->idle_unparked += !f->parks;
		deadlines_set(&p->idle, &f->idle, f->arrived_ms - f->request.idle_ms);
	}
	d->waiting++;
	d->room += f->request.slots;
	if (!f->parks)
		DL_APPEND2(d->unparked, f, unparked_prev, unparked_next);
	fetch_timer(f, f->until_ms);
}

/* Returns the number of slots that the Fetch will request again when its claim has ended. */
static int coming(const struct fetch *f, enum fetch_state state)
{
	return state == CLAIMING && f->request.goes_on ? f->request.slots - f->granted : 0;
}

/* Takes the Fetch out of the waiting ones, if it is there, and sets its state. */
static void fetch_move(struct fetch *f, enum fetch_state state)
{
	struct dispatch *d = f->dispatch;
	struct profile *p = f->profile;
	int more = coming(f, state) - coming(f, f->state);
	p->coming += more;
	d->coming += more;
	if (f->state == WAITING) {
		DL_DELETE2(p->waiting, f, waiting_prev, waiting_next);
		p->count--;
		p->room -= f->request.slots - f->granted;
		p->excluded -= f->request.exclude_count;
		p->idle_room -= f->request.idle_ms ? f->request.slots - f->granted : 0;
		p->idle_unparked -= f->request.idle_ms && !f->parks;
		deadlines_remove(&p->idle, &f->idle);
		d->waiting--;
		d->room -= f->request.slots - f->granted;
		if (!f->parks)
			DL_DELETE2(d->unparked, f, unparked_prev, unparked_next);
	}
	f->state = state;
}

static void fetch_unlist(struct fetch *f)
{
	struct dispatch *d = f->dispatch;
	fetch_move(f, ASKING);
	deadlines_remove(&d->deadlines, &f->deadline);
	DL_DELETE(d->fetches, f);
	demand_give_back(f->profile);
	DL_DELETE2(f->session->fetches, f, session_prev, session_next);
	sessions_leave(d->sessions, f->session);
}

/* Answers and frees the Fetch. */
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

/* Returns an empty answer. It tells a Fetch that does not park when to come again. `sure`: no due task
 * is known to wait for the Fetch. */
static struct fetch_answer fetch_nothing(const struct fetch *f, bool sure)
{
	int64_t let_in_ms = f->let_from_ms ? f->let_from_ms - base_now(f->dispatch->base) : 0;
	if (f->parks)
		return (struct fetch_answer){0};
	return (struct fetch_answer){.retry_after_ms = !sure ? AGAIN_MS : f->let_from_ms && let_in_ms < 1 ? 1 : let_in_ms};
}

/* --- the claim --------------------------------------------------------------------------------------------------- */

static void answer_won(struct fetch *f, const struct store_claimed *won, int won_count, int slot)
{
	const struct store_claimed **mine = mem_calloc((size_t)won_count + 1, sizeof *mine);
	int n = 0;
	for (int i = 0; i < won_count; i++)
		if (won[i].slot == slot)
			mine[n++] = &won[i];
	struct fetch_answer answer = n ? (struct fetch_answer){0} : fetch_nothing(f, false);
	if (n && f->request.goes_on) {
		f->profile->left = n < f->request.slots ? f->request.slots - n : 0;
		f->profile->left_until_ms = base_now(f->dispatch->base) + RETURN_MS;
	}
	answer.won = mine;
	answer.won_count = n;
	answer.parked_ms = f->claimed_ms - f->arrived_ms;
	fetch_end(f, &answer, NULL);
	free(mine);
}

static void redeliver(struct fetch *f);

/* A check whether an incarnation is alive. It serves all Fetches of the incarnation; its origin is that of the first
 * one. */
struct lookup {
	struct store_poll op;
	struct dispatch *dispatch;
	struct session *session; /* not freed during the check */
};

static void on_polled(struct store_op *op, const struct reeve_error *error)
{
	struct lookup *lookup = (struct lookup *)op;
	struct dispatch *d = lookup->dispatch;
	struct session *session = lookup->session;
	struct fetch *f;
	session->looking = false;
	if (!error && lookup->op.lost)
		sessions_lost(d->sessions, session->incarnation);
	free(lookup);
	DL_FOREACH2 (session->fetches, f, session_next)
		if (f->state == CHECKING)
			fetch_wait(f);
	base_dispatch(d->base);
}

/* Checks whether the Fetch's incarnation is alive; if not, its Fetches end. Until the answer this Fetch takes part in
 * no claim. */
static void fetch_check(struct fetch *f)
{
	struct base *base = f->dispatch->base;
	fetch_move(f, CHECKING);
	fetch_timer(f, f->until_ms);
	if (f->session->looking)
		return;
	f->session->looking = true;
	struct lookup *lookup = mem_calloc(1, sizeof *lookup);
	lookup->op = (struct store_poll){
	    .op.done = on_polled,
	    .op.deadline_ms = base_now(base) + POLL_LIMIT_MS,
	    .op.origin = f->request.origin,
	    .incarnation = f->session->incarnation,
	};
	lookup->dispatch = f->dispatch;
	lookup->session = f->session;
	store_poll(base->store, &lookup->op);
}

/* Call it when a claim has ended and its Fetch had been sent again before: the newer copy may have queried the journal
 * too early. */
static void ask_for_newer_copy(struct dispatch *d, const struct store_fetch *fetch)
{
	struct session *session = sessions_find(d->sessions, fetch->incarnation);
	struct fetch *f = session ? session->fetches : NULL;
	while (f && !(f->request.fetch_id == fetch->fetch_id && f->done))
		f = f->session_next;
	if (f && f->state == ASKING)
		f->ask_again = true;
	else if (f && f->state != CLAIMING)
		redeliver(f);
}

/* Answers each Fetch of the claim with what it won. */
static void claim_deal(struct dispatch *d)
{
	struct store_claim *claim = &d->claim;
	int *counts = mem_calloc((size_t)claim->fetch_count + 1, sizeof *counts);
	for (int i = 0; i < claim->won_count; i++)
		counts[claim->won[i].slot]++;
	for (int slot = 0; slot < claim->fetch_count; slot++) {
		struct fetch *f = d->by_slot[slot];
		if (!f) /* the Fetch has ended: what it won stays with its worker's Fetch id */
			ask_for_newer_copy(d, &claim->fetches[slot]);
		else if (!counts[slot] && f->session->state == SESSION_LOST)
			fetch_end_lost(f);
		else if (counts[slot] || !f->parks)
			answer_won(f, claim->won, claim->won_count, slot);
		else /* other managers won all its tasks, or its worker is not alive any more */
			fetch_check(f);
	}
	free(counts);
}

/* Returns the index of the grant with this task; grants are sorted by id. */
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
	struct store_claim *claim = &d->claim;
	d->claiming = false;
	if (error) {
		/* The outcome is unknown: the ready cache reads the rows again, and each Fetch queries what it was assigned. */
		for (int i = 0; i < claim->count; i++)
			window_release(d->window, &d->grants[i].candidate);
		for (int slot = 0; slot < claim->fetch_count; slot++) {
			if (d->by_slot[slot])
				redeliver(d->by_slot[slot]);
			else
				ask_for_newer_copy(d, &claim->fetches[slot]);
		}
		return;
	}
	d->base->counters.claims_tried += claim->count;
	d->base->counters.claims_won += claim->won_count;
	bool *won_any = mem_calloc((size_t)claim->fetch_count + 1, sizeof *won_any);
	bool *won = mem_calloc((size_t)claim->count + 1, sizeof *won);
	for (int i = 0; i < claim->won_count; i++) {
		won_any[claim->won[i].slot] = true;
		won[grant_of(d, claim->won[i].id)] = true;
		verbose_log(d->verbose, claim->won[i].route, claim->won[i].id, "claimed by worker %lld, attempt %d of %d",
		    (long long)claim->fetches[claim->won[i].slot].incarnation, claim->won[i].attempt, claim->won[i].max_attempts);
	}
	for (int i = 0; i < claim->count; i++) {
		/* If the Fetch won other tasks, another manager has this one. If it won none, its worker may be lost, and the
		 * tasks still wait. */
		if (claim->tries[i].locked)
			window_rest(d->window, d->grants[i].candidate.id);
		else if (won[i] || won_any[d->grants[i].slot])
			window_claimed(d->window, d->grants[i].candidate.id, won[i]);
		else
			window_release(d->window, &d->grants[i].candidate);
	}
	free(won_any);
	free(won);
	claim_deal(d);
	base_dispatch(d->base);
}

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const struct grant *)a)->candidate.id, y = ((const struct grant *)b)->candidate.id;
	return (x > y) - (x < y);
}

/* Sends the claim for the first `tried` grants, sorted by id. Its slots are the Fetches that have grants. */
static void claim_send(struct dispatch *d, int tried)
{
	int slots = 0;
	for (int i = 0; i < tried; i++) {
		struct fetch *f = d->grants[i].fetch;
		if (f->slot >= 0)
			continue;
		d->slots[slots] = (struct store_fetch){f->request.incarnation, f->request.fetch_id};
		d->by_slot[slots] = f;
		f->slot = slots++;
		f->claimed_ms = base_now(d->base);
		fetch_move(f, CLAIMING);
		fetch_timer(f, f->until_ms + CLAIM_LIMIT_MS);
	}
	qsort(d->grants, (size_t)tried, sizeof *d->grants, by_id);
	bool careful = false;
	for (int i = 0; i < tried; i++) {
		struct grant *grant = &d->grants[i];
		grant->slot = grant->fetch->slot;
		careful |= grant->candidate.rested;
		d->tries[i] =
		    (struct store_try){.id = grant->candidate.id, .version = grant->candidate.version, .slot = grant->slot};
	}
	d->claiming = true;
	d->claim = (struct store_claim){
	    .op.done = on_claimed,
	    .op.deadline_ms = base_now(d->base) + CLAIM_BEGIN_MS,
	    .count = tried,
	    .tries = d->tries,
	    .fetch_count = slots,
	    .fetches = d->slots,
	    .expiry_grace_ms = d->base->options.expiry_grace_ms,
	    .careful = careful,
	};
	store_claim(d->base->store, &d->claim);
}

/* Whether tasks of the routes that a Fetch accepts were left to other managers. */
struct left {
	struct dispatch *dispatch;
	bool some;
};

static void read_left(void *arg, int route)
{
	struct left *left = arg;
	left->some |= deal_wants(left->dispatch->deal, route) && window_read_passed(left->dispatch->window, route);
}

/* Answers the Fetches that do not park and found no candidate, unless tasks that were left to other managers are now
 * read for them. */
static void answer_unparked(struct dispatch *d)
{
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE2 (d->unparked, f, tmp, unparked_next) {
		struct left left = {.dispatch = d};
		demand_routes(f->profile, read_left, &left);
		if (left.some)
			continue;
		struct fetch_answer nothing = fetch_nothing(f, true);
		fetch_end(f, &nothing, NULL);
	}
}

void dispatch_run(struct dispatch *d)
{
	d->base->dispatch_asked = false;
	if (d->claiming || !d->waiting)
		return;
	bool unsure = !window_ready(d->window);
	int tried = unsure ? 0 : deal_candidates(d->deal, &unsure);
	if (tried)
		claim_send(d, tried);
	if (!unsure && window_complete(d->window))
		answer_unparked(d);
}

bool dispatch_wants(struct dispatch *d, int route)
{
	return deal_wants(d->deal, route);
}

bool dispatch_takes(struct dispatch *d, int route, int candidates, int all)
{
	return deal_takes(d->deal, route, candidates, all);
}

bool dispatch_waiting(const struct dispatch *d)
{
	return d->waiting > 0;
}

/* --- arrival of Fetches ------------------------------------------------------------------------------------------ */

static void on_redelivered(struct store_op *op, const struct reeve_error *error)
{
	struct fetch *f = (struct fetch *)((char *)op - offsetof(struct fetch, ask));
	struct dispatch *d = f->dispatch;
	if (!f->done) { /* the caller has its answer already */
		fetch_unlist(f);
		fetch_free(f);
		return;
	}
	if (error) {
		fetch_end(f, NULL, error);
		return;
	}
	if (f->ask.life == STORE_LIFE_LIVES)
		sessions_live(d->sessions, f->request.incarnation);
	else if (f->session->state == SESSION_LIVES || f->ask.life == STORE_LIFE_OVER)
		sessions_lost(d->sessions, f->request.incarnation);
	if (f->session->state != SESSION_LIVES) {
		fetch_end_lost(f);
		return;
	}
	if (f->ask.later) {
		redeliver(f);
		return;
	}
	/* What does not fit stays assigned. The Fetch ends here, and its worker's next heartbeat shows that this never
	 * arrived. */
	for (int i = 0; i < f->ask.left_out_count; i++)
		window_too_long(d->window, &f->ask.left_out[i]);
	if (f->ask.won_count || f->ask.left_out_count) {
		d->base->counters.redelivered += f->ask.won_count;
		answer_won(f, f->ask.won, f->ask.won_count, 0);
		return;
	}
	if (f->ask_again) {
		redeliver(f);
		return;
	}
	fetch_wait(f);
	base_dispatch(d->base);
}

/* Queries the journal for what this Fetch was assigned before, and whether its incarnation is alive. */
static void redeliver(struct fetch *f)
{
	fetch_move(f, ASKING);
	f->ask_again = false;
	deadlines_remove(&f->dispatch->deadlines, &f->deadline);
	f->claimed_ms = base_now(f->dispatch->base);
	const struct core_options *options = &f->dispatch->base->options;
	f->ask = (struct store_redeliver){
	    .op.done = on_redelivered,
	    .op.deadline_ms = f->until_ms + CLAIM_LIMIT_MS,
	    .op.origin = f->request.origin,
	    .fetch = {f->request.incarnation, f->request.fetch_id},
	    .max_details_bytes = options->max_sent_bytes,
	    .max_answer_bytes = options->max_answer_bytes,
	    .max_batch_bytes = ANSWERS_MAX * options->max_answer_bytes,
	    .assignment_bytes = ASSIGNMENT_BYTES,
	};
	store_redeliver(f->dispatch->base->store, &f->ask);
}

/* Ends a Fetch in any state, because its caller does not wait for it any more. What its claim wins stays with its id,
 * and is delivered if the Fetch comes again. */
static void fetch_abort(struct fetch *f)
{
	struct reeve_error error;
	error_set(&error, STATUS(ABORTED), "this Fetch was sent again, or its caller has gone");
	if (f->state == CLAIMING)
		f->dispatch->by_slot[f->slot] = NULL;
	if (f->state != ASKING) {
		fetch_end(f, NULL, &error);
	} else if (f->done) { /* its query of the journal is in flight: on_redelivered frees it */
		fetch_done *ended = f->done;
		f->done = NULL;
		ended(f->arg, &(struct fetch_answer){0}, &error);
	}
}

/* Ends the earlier copies of a Fetch that has come again. */
static void supersede(struct session *session, int64_t fetch_id)
{
	struct fetch *f, *tmp;
	DL_FOREACH_SAFE2 (session->fetches, f, tmp, session_next)
		if (f->request.fetch_id == fetch_id)
			fetch_abort(f);
}

void dispatch_gone(struct dispatch *d, int64_t incarnation, int64_t fetch_id, void *arg)
{
	struct session *session = sessions_find(d->sessions, incarnation);
	struct fetch *f = session ? session->fetches : NULL;
	while (f && !(f->request.fetch_id == fetch_id && f->done && f->arg == arg))
		f = f->session_next;
	if (f)
		fetch_abort(f);
}

void dispatch_fetch(struct dispatch *d, const struct fetch_request *request, fetch_done *done, void *arg)
{
	struct base *base = d->base;
	struct session *session = sessions_on_call(d->sessions, request->incarnation);
	bool again = request->again || session->state == SESSION_ASKED || request->fetch_id <= session->highest_fetch;
	if (request->fetch_id > session->highest_fetch)
		session->highest_fetch = request->fetch_id;
	base->counters.fetches++;
	if (again)
		supersede(session, request->fetch_id);

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
	if (f->request.max_bytes <= 0 || f->request.max_bytes > base->options.max_answer_bytes)
		f->request.max_bytes = base->options.max_answer_bytes;
	f->parks = request->wait_ms > 0;
	int64_t wait = request->wait_ms < base->options.fetch_wait_ms ? request->wait_ms : base->options.fetch_wait_ms;
	f->arrived_ms = f->claimed_ms = base_now(base);
	f->until_ms = f->arrived_ms + (f->parks ? wait : UNPARKED_LIMIT_MS);
	f->done = done;
	f->arg = arg;
	f->state = ASKING;
	DL_APPEND(d->fetches, f);
	DL_APPEND2(session->fetches, f, session_prev, session_next);
	if (session->state == SESSION_LOST) {
		fetch_end_lost(f);
	} else if (again) {
		redeliver(f);
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
		if (f->state != WAITING && f->state != CHECKING)
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
		if (f->state == WAITING || f->state == CHECKING)
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
		if (f->state != CLAIMING) {
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
	window_route_wanted(d->window, route, wanted);
}

struct dispatch *dispatch_create(struct base *base, const struct dispatch_neighbours *neighbours)
{
	struct dispatch *d = mem_calloc(1, sizeof *d);
	size_t most = (size_t)base->options.claim_limit;
	d->base = base;
	d->window = neighbours->window;
	d->routes = neighbours->routes;
	d->queues = neighbours->queues;
	d->sessions = neighbours->sessions;
	d->verbose = neighbours->verbose;
	d->demand = demand_create(base, d->routes, on_wanted, d);
	d->deal = deal_create(d);
	d->tries = mem_calloc(most, sizeof *d->tries);
	d->grants = mem_calloc(most, sizeof *d->grants);
	d->slots = mem_calloc(most, sizeof *d->slots);
	d->by_slot = mem_calloc(most, sizeof *d->by_slot);
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
	deal_destroy(d->deal);
	deadlines_free(&d->deadlines);
	free(d->tries);
	free(d->grants);
	free(d->slots);
	free(d->by_slot);
	free(d);
}
