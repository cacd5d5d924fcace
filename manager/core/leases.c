/* The watch over heartbeats, the sweep of lost workers' tasks, and requeuing undelivered tasks. */
#include "manager/core/leases.h"

#include "common/hash.h"
#include "common/log.h"
#include "manager/core/control.h"
#include "manager/core/report.h"
#include "manager/core/sessions.h"
#include "manager/core/verbose.h"

#include <stdlib.h>
#include <string.h>

enum {
	WATCH_MAX_MS = 400,  /* or a quarter of a heartbeat, if shorter: a gap of more than one restarts the watch */
	LOSE_MAX = 1000,     /* maximum number of incarnations marked lost by one statement */
	SWEEP_ALL_MS = 5000, /* interval of sweeps of all lost workers; each run sweeps those lost recently */
	SWEEP_ROWS = 50,     /* maximum number of journal rows checked by a run */
	GONE_MAX = 1000,     /* maximum number remembered as lost recently; for more, all lost workers are swept */
	GONE_KEPT_MS = 30000,
	FULL_CHECK_MS = 15000, /* interval of checks of all Fetches, or a lease, if shorter: claims of old ones may be
	                          committed late */
};

/* A watched worker. */
struct watched {
	int64_t incarnation;
	int64_t seq;
	int64_t since_ms; /* the end of the poll that first saw this `seq` */
	int64_t poll;     /* the last poll that found it */
	UT_hash_handle hh;
};

/* A worker that was lost recently. */
struct gone {
	int64_t incarnation;
	int64_t until_ms;
};

/* A requeue of undelivered tasks; `numbers` has the arrays of `op.holding`. */
struct requeue {
	struct store_requeue op;
	struct leases *leases;
	int64_t numbers[];
};

/* Wraps the caller's operation, to act on the result. */
struct beat {
	struct store_heartbeat op;
	struct leases *leases;
	struct store_heartbeat *given;
	struct requeue *requeue;
};

struct leases {
	struct base *base;
	struct sessions *sessions;
	struct reports *reports;
	struct control *control;
	const struct verbose *verbose;
	struct watched *watched; /* hash */
	int64_t poll;            /* number of polls so far */
	int64_t sent_ms;         /* when the poll in flight, or the last one, was sent */
	int64_t polled_ms;       /* when the last successful poll was sent; 0: none since the watch began */
	int64_t sweep_all_ms;    /* the next sweep of all lost workers */
	bool losing;
	int pass;                    /* so many of the first that stand still are left out: they are locked */
	bool sweep_again;            /* a worker was lost since the last pass over the journal began */
	struct store_place swept[2]; /* position of the passes: [0] of workers lost recently, [1] of all */
	struct gone gone[GONE_MAX];
	int gone_count;
	int64_t gone_ids[GONE_MAX]; /* for the sweep in flight */
	struct store_watch watch;
	struct store_lose lose;
	struct store_beat still[LOSE_MAX];
	struct store_sweep sweep;
};

static void restart_watch(struct leases *l)
{
	struct watched *w, *tmp;
	HASH_ITER (hh, l->watched, w, tmp) {
		HASH_DEL(l->watched, w);
		free(w);
	}
	l->polled_ms = 0;
}

/* --- the watch --------------------------------------------------------------------------------------------------- */

static void on_lost(struct store_op *op, const struct reeve_error *error)
{
	struct leases *l = (struct leases *)((char *)op - offsetof(struct leases, lose));
	l->losing = false;
	bool more = !error && l->lose.count == LOSE_MAX; /* others may stand still, too */
	l->pass = more ? l->pass + l->lose.count - l->lose.lost_count : 0;
	if (error)
		return; /* the next poll finds them again */
	l->base->counters.lost += l->lose.lost_count;
	for (int i = 0; i < l->lose.lost_count; i++) {
		sessions_lost(l->sessions, l->lose.lost[i]);
		leases_gone(l, l->lose.lost[i]);
	}
	if (more)
		jobs_at(l->base->jobs, JOB_WATCH, base_now(l->base));
}

static void lose(struct leases *l, int count)
{
	l->losing = true;
	l->lose = (struct store_lose){
	    .op.done = on_lost,
	    .count = count,
	    .beats = l->still,
	};
	store_lose(l->base->store, &l->lose);
}

/* Enters one row of a poll that was sent at `sent_ms` and has ended now. Returns true if the worker has sent no
 * heartbeat for its lease: an earlier poll that ended a lease or more before this one was sent saw the same number. */
static bool stands_still(struct leases *l, const struct store_beat *beat, int64_t sent_ms, int64_t now_ms)
{
	struct watched *w;
	HASH_FIND(hh, l->watched, &beat->incarnation, sizeof beat->incarnation, w);
	if (!w) {
		w = mem_calloc(1, sizeof *w);
		w->incarnation = beat->incarnation;
		w->seq = beat->seq;
		w->since_ms = now_ms;
		HASH_ADD(hh, l->watched, incarnation, sizeof w->incarnation, w);
	} else if (w->seq != beat->seq) {
		w->seq = beat->seq;
		w->since_ms = now_ms;
	}
	w->poll = l->poll;
	return sent_ms - w->since_ms >= beat->lease_ms;
}

/* Handles workers that are missing from a poll: they were lost, or have left, perhaps at another manager. */
static void forget_missing(struct leases *l)
{
	struct watched *w, *tmp;
	HASH_ITER (hh, l->watched, w, tmp) {
		if (w->poll == l->poll)
			continue;
		sessions_lost(l->sessions, w->incarnation);
		leases_gone(l, w->incarnation);
		verbose_worker_ended(l->verbose, w->incarnation);
		HASH_DEL(l->watched, w);
		free(w);
	}
}

static void on_polled(struct store_op *op, const struct reeve_error *error)
{
	struct leases *l = (struct leases *)((char *)op - offsetof(struct leases, watch));
	int64_t now = base_now(l->base), sent = l->sent_ms;
	int still = 0, passed = 0;
	jobs_done(l->base->jobs, JOB_WATCH, error, false);
	if (error || op->again || (l->polled_ms && now - l->polled_ms > l->base->options.heartbeat_ms)) {
		restart_watch(l);
		if (error)
			return;
	}
	l->polled_ms = sent;
	l->poll++;
	for (int i = 0; i < l->watch.count; i++)
		if (stands_still(l, &l->watch.beats[i], sent, now) && !l->losing && passed++ >= l->pass && still < LOSE_MAX)
			l->still[still++] = l->watch.beats[i];
	forget_missing(l);
	if (still)
		lose(l, still);
	else if (!l->losing)
		l->pass = 0;
}

static bool watch(void *arg)
{
	struct leases *l = arg;
	l->sent_ms = base_now(l->base);
	l->watch = (struct store_watch){.op.done = on_polled};
	store_watch(l->base->store, &l->watch);
	return true;
}

/* --- the sweep --------------------------------------------------------------------------------------------------- */

static void on_swept(struct store_op *op, const struct reeve_error *error)
{
	struct leases *l = (struct leases *)((char *)op - offsetof(struct leases, sweep));
	l->swept[l->sweep.all] = l->sweep.more ? l->sweep.last : (struct store_place){0};
	if (!error && l->sweep.more && l->sweep.all)
		l->sweep_all_ms = 0;
	jobs_done(l->base->jobs, JOB_SWEEP, error, l->sweep.more || l->sweep_again);
	if (error)
		return;
	for (int i = 0; i < l->sweep.count; i++)
		log_info(NULL, "task %lld: its worker was lost; attempt ended", (long long)l->sweep.results[i].id);
	l->base->counters.reclaimed += l->sweep.count;
	report_apply(l->reports, op, l->sweep.results, l->sweep.count, "");
}

/* Forgets workers whose time as recently lost is over, and copies the others to gone_ids. Returns their number. */
static int gone_lately(struct leases *l, int64_t now_ms)
{
	int n = 0;
	for (int i = 0; i < l->gone_count; i++)
		if (l->gone[i].until_ms > now_ms)
			l->gone[n++] = l->gone[i];
	l->gone_count = n;
	for (int i = 0; i < n; i++)
		l->gone_ids[i] = l->gone[i].incarnation;
	return n;
}

static bool sweep(void *arg)
{
	struct leases *l = arg;
	int64_t now_ms = base_now(l->base);
	bool all = now_ms >= l->sweep_all_ms;
	int lately = gone_lately(l, now_ms);
	struct store_place *place = &l->swept[all];
	if (!lately)
		l->swept[false] = (struct store_place){0};
	if (!place->id)
		l->sweep_again = false;
	if (!all && !lately)
		return false;
	if (all)
		l->sweep_all_ms = now_ms + SWEEP_ALL_MS;
	l->sweep = (struct store_sweep){
	    .op.done = on_swept,
	    .limit = SWEEP_ROWS,
	    .after = *place,
	    .all = all,
	    .count_of = lately,
	    .of = l->gone_ids,
	};
	store_sweep(l->base->store, &l->sweep);
	return true;
}

void leases_gone(struct leases *l, int64_t incarnation)
{
	int64_t now = base_now(l->base);
	for (int i = 0; i < l->gone_count; i++)
		if (l->gone[i].incarnation == incarnation)
			return; /* already reported: it is being swept */
	if (l->gone_count < GONE_MAX)
		l->gone[l->gone_count++] = (struct gone){incarnation, now + GONE_KEPT_MS};
	else
		l->sweep_all_ms = now;
	l->sweep_again = true;
	jobs_ask(l->base->jobs, JOB_SWEEP);
}

/* --- heartbeats -------------------------------------------------------------------------------------------------- */

static void on_requeued(struct store_op *op, const struct reeve_error *error)
{
	struct requeue *t = (struct requeue *)op;
	struct leases *l = t->leases;
	struct session *session = sessions_find(l->sessions, t->op.holding.incarnation);
	if (session)
		session->requeuing = false;
	if (!error) {
		if (session)
			session->lowest_open = t->op.lowest_open;
		for (int i = 0; i < t->op.count; i++)
			log_info(NULL, "task %lld: it never arrived at incarnation %lld; requeued", (long long)t->op.results[i].id,
			    (long long)t->op.holding.incarnation);
		l->base->counters.requeued += t->op.count;
		report_apply(l->reports, op, t->op.results, t->op.count, "");
	}
	free(t);
}

/* Returns the size of a copy of the lists. */
static size_t holding_bytes(const struct store_holding *h)
{
	return sizeof(int64_t) * ((size_t)h->waiting_count + 2 * (size_t)h->held_count);
}

static struct requeue *requeue_create(struct leases *l, const struct store_holding *h)
{
	struct requeue *t = mem_calloc(1, sizeof *t + holding_bytes(h));
	int64_t *waiting = t->numbers, *ids = waiting + h->waiting_count, *tokens = ids + h->held_count;
	if (h->waiting_count)
		memcpy(waiting, h->waiting, sizeof *waiting * (size_t)h->waiting_count);
	if (h->held_count) {
		memcpy(ids, h->held_ids, sizeof *ids * (size_t)h->held_count);
		memcpy(tokens, h->held_tokens, sizeof *tokens * (size_t)h->held_count);
	}
	t->leases = l;
	t->op.op.done = on_requeued;
	t->op.holding = *h;
	t->op.holding.waiting = waiting;
	t->op.holding.held_ids = ids;
	t->op.holding.held_tokens = tokens;
	return t;
}

/* Returns true if the worker waits for every Fetch that may have open assignments: those are never requeued. For an
 * idle worker this is true at each heartbeat. */
static bool waits_for_all(const struct session *session, const struct store_holding *h)
{
	if (session->lowest_open <= 0)
		return false;
	int64_t open = h->highest_fetch - session->lowest_open + 1;
	for (int i = 0; i < h->waiting_count && open > 0; i++)
		open -= h->waiting[i] >= session->lowest_open && h->waiting[i] <= h->highest_fetch;
	return open <= 0;
}

static int64_t full_check_interval(const struct leases *l)
{
	return l->base->options.lease_ms < FULL_CHECK_MS ? l->base->options.lease_ms : FULL_CHECK_MS;
}

static void on_heartbeat(struct store_op *op, const struct reeve_error *error)
{
	struct beat *b = (struct beat *)op;
	struct leases *l = b->leases;
	struct store_heartbeat *given = b->given;
	struct requeue *t = b->requeue;
	void (*done)(struct store_op *, const struct reeve_error *) = given->op.done;
	/* A heartbeat repeated after an unknown outcome may find the number raised already: then `renewed` is false, and
	 * only the next heartbeat is news. */
	bool news = !error && b->op.renewed, lost = !error && b->op.lost;
	int64_t incarnation = b->op.incarnation;
	uint64_t origin = b->op.op.origin;
	*given = b->op;
	given->op.done = done;
	if (!error)
		control_standing(l->control, incarnation, b->op.commands, b->op.command_count);
	done(&given->op, error);
	if (lost) {
		sessions_lost(l->sessions, incarnation);
		if (remarks_new(&l->base->remarks, REMARK_HEARTBEAT, incarnation, 0, base_now(l->base)))
			log_info(NULL, "a heartbeat of incarnation %lld, which is lost or never was: it has to register",
			    (long long)incarnation);
	}
	struct session *session = news ? sessions_live(l->sessions, incarnation) : NULL;
	/* Closed rows stay closed, so a check can begin at the first Fetch that the last one found open. But a claim may be
	 * committed long after those of later Fetches: all are checked from time to time. */
	if (session && !session->requeuing && base_now(l->base) >= session->full_check_ms) {
		session->lowest_open = 0;
		session->full_check_ms = base_now(l->base) + full_check_interval(l);
	}
	if (session && !session->requeuing && !waits_for_all(session, &t->op.holding)) {
		session->requeuing = true;
		t->op.lowest_fetch = session->lowest_open;
		t->op.op.origin = origin;
		t->op.op.deadline_ms = base_now(l->base) + l->base->options.heartbeat_ms; /* the next one knows more */
		store_requeue(l->base->store, &t->op);
	} else { /* the requeue in flight is older but correct; the next heartbeat brings the other tasks */
		free(t);
	}
	free(b);
}

void leases_heartbeat(struct leases *l, struct store_heartbeat *op, const struct store_holding *holding)
{
	struct beat *b = mem_calloc(1, sizeof *b);
	b->op = *op;
	b->op.op.done = on_heartbeat;
	b->leases = l;
	b->given = op;
	b->requeue = requeue_create(l, holding);
	b->op.carries = holding_bytes(holding) + 64 * (size_t)(op->type_count + op->count_count);
	store_heartbeat(l->base->store, &b->op);
}

/* --- creation ----------------------------------------------------------------------------------------------------- */

struct leases *leases_create(struct base *base, const struct leases_neighbours *neighbours)
{
	struct leases *l = mem_calloc(1, sizeof *l);
	int64_t quarter = base->options.heartbeat_ms / 4;
	l->base = base;
	l->sessions = neighbours->sessions;
	l->reports = neighbours->reports;
	l->control = neighbours->control;
	l->verbose = neighbours->verbose;
	jobs_every(base->jobs, JOB_WATCH, quarter < WATCH_MAX_MS ? quarter : WATCH_MAX_MS);
	jobs_bind(base->jobs, JOB_WATCH, watch, l);
	jobs_bind(base->jobs, JOB_SWEEP, sweep, l);
	return l;
}

void leases_destroy(struct leases *l)
{
	restart_watch(l);
	free(l);
}
