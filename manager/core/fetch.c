/* A Fetch: where it waits, how its state changes, and how it ends. */
#include "manager/core/dispatch_internal.h"
#include "manager/core/routes.h"
#include "manager/core/sessions.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum {
	POLL_LIMIT_MS = 5000, /* deadline of the check of a worker */
	RETURN_MS = 20,       /* how long the next Fetch of a worker is expected after an answer */
	AGAIN_MS = 50,        /* retry time of a Fetch that does not park if it is unknown whether tasks wait */
};

static void fetch_free(struct fetch *f)
{
	for (int i = 0; i < f->request.limit_count; i++) {
		free((char *)f->limits[i].queue);
		free((char *)f->limits[i].type);
	}
	free(f->limits);
	pick_free(f->pick);
	free((void *)f->request.exclude);
	free(f);
}

static bool limits(const struct fetch_limit *limit, const struct route *route)
{
	return limit->type ? !strcmp(limit->type, route->type) : !strcmp(limit->queue, route->queue);
}

bool fetch_takes(const struct fetch *f, const struct route *route)
{
	for (int i = 0; i < f->request.limit_count; i++)
		if (limits(&f->limits[i], route) && f->limits[i].granted >= f->limits[i].slots)
			return false;
	return true;
}

void fetch_count(struct fetch *f, const struct route *route, int by)
{
	for (int i = 0; i < f->request.limit_count; i++)
		if (limits(&f->limits[i], route))
			f->limits[i].granted += by;
}

void fetch_found_by_id(struct fetch *f)
{
	struct dispatch *d = f->dispatch;
	f->id = (struct store_fetch){f->request.incarnation, f->request.fetch_id};
	HASH_ADD(hh, d->by_id, id, sizeof f->id, f);
}

struct fetch *fetch_find(struct dispatch *d, int64_t incarnation, int64_t fetch_id)
{
	struct store_fetch key = {incarnation, fetch_id};
	struct fetch *f;
	HASH_FIND(hh, d->by_id, &key, sizeof key, f);
	d->searched++;
	return f;
}

void fetch_timer(struct fetch *f, int64_t at_ms)
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

void fetch_wait(struct fetch *f)
{
	struct dispatch *d = f->dispatch;
	struct profile *p = f->profile;
	fetch_idle(f);
	f->state = WAITING;
	for (int i = 0; i < f->request.limit_count; i++)
		f->limits[i].granted = 0;
	f->granted = 0;
	f->granted_bytes = 0;
	f->worth = 0;
	f->slot = -1;
	f->wait = ++d->waits;
	DL_PREPEND2(d->latest, f, latest_prev, latest_next);
	demand_wait(p);
	fetch_line_up(f);
	p->count++;
	p->capacity += f->request.slots;
	p->excluded += f->request.exclude_count;
	p->unparked += !f->parks;
	if (f->request.idle_ms) {
		p->idle_capacity += f->request.slots;
		p->idle_unparked += !f->parks;
		deadlines_set(&p->idle, &f->idle, f->arrived_ms - f->request.idle_ms);
	}
	d->waiting++;
	d->capacity += f->request.slots;
	if (!f->parks)
		DL_APPEND2(d->unparked, f, unparked_prev, unparked_next);
	fetch_timer(f, f->until_ms);
}

/* Returns the number of slots that the Fetch will request again when its claim has ended. */
static int coming(const struct fetch *f, enum fetch_state state)
{
	return state == CLAIMING && f->request.continues ? f->request.slots - f->granted : 0;
}

void fetch_move(struct fetch *f, enum fetch_state state)
{
	struct dispatch *d = f->dispatch;
	struct profile *p = f->profile;
	int more = coming(f, state) - coming(f, f->state);
	p->coming += more;
	d->coming += more;
	if (f->state == WAITING) {
		DL_DELETE2(d->latest, f, latest_prev, latest_next);
		DL_DELETE2(p->waiting, f, waiting_prev, waiting_next);
		p->count--;
		p->capacity -= f->request.slots - f->granted;
		p->excluded -= f->request.exclude_count;
		p->unparked -= !f->parks;
		p->idle_capacity -= f->request.idle_ms ? f->request.slots - f->granted : 0;
		p->idle_unparked -= f->request.idle_ms && !f->parks;
		deadlines_remove(&p->idle, &f->idle);
		d->waiting--;
		d->capacity -= f->request.slots - f->granted;
		if (!f->parks)
			DL_DELETE2(d->unparked, f, unparked_prev, unparked_next);
	}
	if (f->state == HELD)
		fetch_unhold(f);
	f->state = state;
}

static void fetch_unlist(struct fetch *f)
{
	struct dispatch *d = f->dispatch;
	fetch_move(f, ASKING);
	fetch_idle(f);
	deadlines_remove(&d->deadlines, &f->deadline);
	DL_DELETE(d->fetches, f);
	if (f->done)
		HASH_DEL(d->by_id, f);
	demand_give_back(f->profile);
	DL_DELETE2(f->session->fetches, f, session_prev, session_next);
	f->session->parked -= f->parks;
	sessions_leave(d->sessions, f->session);
}

void fetch_drop(struct fetch *f)
{
	fetch_unlist(f);
	fetch_free(f);
}

void fetch_end(struct fetch *f, const struct fetch_answer *answer, const struct reeve_error *error)
{
	static const struct fetch_answer nothing = {0};
	fetch_unlist(f);
	f->done(f->arg, answer ? answer : &nothing, error);
	fetch_free(f);
}

void fetch_end_lost(struct fetch *f)
{
	struct reeve_error error;
	error_set(&error, STATUS(FAILED_PRECONDITION), "incarnation %lld has ended; register again",
	    (long long)f->request.incarnation);
	fetch_end(f, NULL, &error);
}

struct fetch_answer fetch_nothing(const struct fetch *f, bool sure)
{
	int64_t left_ms = f->waiting_until_ms ? f->waiting_until_ms - base_now(f->dispatch->base) : 0;
	if (f->parks)
		return (struct fetch_answer){0};
	return (struct fetch_answer){.retry_after_ms = !sure ? AGAIN_MS : f->waiting_until_ms && left_ms < 1 ? 1 : left_ms};
}

static int by_order(const void *a, const void *b)
{
	const struct store_claimed *x = *(const struct store_claimed *const *)a,
	                           *y = *(const struct store_claimed *const *)b;
	return (x->order > y->order) - (x->order < y->order);
}

void fetch_end_won(struct fetch *f, const struct store_claimed *won, int won_count, int slot)
{
	const struct store_claimed **mine = mem_calloc((size_t)won_count + 1, sizeof *mine);
	int n = 0;
	for (int i = 0; i < won_count; i++)
		if (won[i].slot == slot)
			mine[n++] = &won[i];
	if (n > 1)
		qsort(mine, (size_t)n, sizeof *mine, by_order);
	struct fetch_answer answer = n ? (struct fetch_answer){0} : fetch_nothing(f, false);
	if (n && f->request.continues) {
		f->profile->left = n < f->request.slots ? f->request.slots - n : 0;
		f->profile->left_until_ms = base_now(f->dispatch->base) + RETURN_MS;
	}
	answer.won = mine;
	answer.won_count = n;
	answer.parked_ms = f->claimed_ms - f->arrived_ms;
	fetch_end(f, &answer, NULL);
	free(mine);
}

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
	session->checking = false;
	if (!error && lookup->op.lost)
		sessions_lost(d->sessions, session->incarnation);
	free(lookup);
	DL_FOREACH2 (session->fetches, f, session_next)
		if (f->state == CHECKING)
			fetch_wait(f);
	base_dispatch(d->base);
}

void fetch_check(struct fetch *f)
{
	struct base *base = f->dispatch->base;
	fetch_move(f, CHECKING);
	fetch_timer(f, f->until_ms);
	if (f->session->checking)
		return;
	f->session->checking = true;
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

static void on_redelivered(struct store_op *op, const struct reeve_error *error)
{
	struct fetch *f = (struct fetch *)((char *)op - offsetof(struct fetch, ask));
	struct dispatch *d = f->dispatch;
	if (!f->done) { /* the caller has its answer already */
		fetch_drop(f);
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
		fetch_redeliver(f);
		return;
	}
	/* What does not fit stays assigned. The Fetch ends here, and its worker's next heartbeat shows that this never
	 * arrived. */
	for (int i = 0; i < f->ask.left_out_count; i++)
		ready_too_long(d->cache, &f->ask.left_out[i]);
	if (f->ask.won_count || f->ask.left_out_count) {
		d->base->counters.redelivered += f->ask.won_count;
		fetch_end_won(f, f->ask.won, f->ask.won_count, 0);
		return;
	}
	if (f->ask_again) {
		fetch_redeliver(f);
		return;
	}
	if (f->pick) {
		pick_start(f);
		return;
	}
	fetch_wait(f);
	base_dispatch(d->base);
}

void fetch_redeliver(struct fetch *f)
{
	if (!fetch_begin(f, REDELIVER_WORK, fetch_redeliver))
		return;
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

void fetch_abort(struct fetch *f)
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
		HASH_DEL(f->dispatch->by_id, f);
		ended(f->arg, &(struct fetch_answer){0}, &error);
	}
}
