/* The claim of candidates for the waiting Fetches. */
#include "manager/core/dispatch_internal.h"
#include "manager/core/queues.h"
#include "manager/core/sessions.h"
#include "manager/core/spans.h"
#include "manager/core/verbose.h"

#include <stdlib.h>

enum { CLAIM_BEGIN_MS = 2000 }; /* a claim that has not begun within this time fails */

void fetch_ask_newer_copy(struct dispatch *d, const struct store_fetch *fetch)
{
	struct fetch *f = fetch_find(d, fetch->incarnation, fetch->fetch_id);
	if (f && f->state == ASKING)
		f->ask_again = true;
	else if (f && f->state != CLAIMING)
		fetch_redeliver(f);
}

/* Answers each Fetch of the claim with what it won. */
static void claim_answer(struct dispatch *d)
{
	struct store_claim *claim = &d->claim;
	int *counts = mem_calloc((size_t)claim->fetch_count + 1, sizeof *counts);
	for (int i = 0; i < claim->won_count; i++)
		counts[claim->won[i].slot]++;
	for (int slot = 0; slot < claim->fetch_count; slot++) {
		struct fetch *f = d->by_slot[slot];
		if (!f) /* the Fetch has ended: what it won stays with its worker's Fetch id */
			fetch_ask_newer_copy(d, &claim->fetches[slot]);
		else if (!counts[slot] && f->session->state == SESSION_LOST)
			fetch_end_lost(f);
		else if (counts[slot] || !f->parks)
			fetch_end_won(f, claim->won, claim->won_count, slot);
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

/* Puts back the candidates that the limits of their queues did not let through, the last one first, and adjusts the
 * rooms of the queues. */
static void claim_limits_apply(struct dispatch *d, const bool *won)
{
	const struct store_claim *claim = &d->claim;
	for (int i = claim->count - 1; i >= 0; i--) {
		int route = stream_route(d->grants[i].candidate.stream);
		if (d->grants[i].limited && !won[i])
			queues_use_room(d->queues, route, -1);
	}
	for (int i = claim->count - 1; i >= 0; i--) {
		if (!claim->tries[i].blocked)
			continue;
		queues_fill(d->queues, stream_route(d->grants[i].candidate.stream));
		ready_untake(d->cache, d->grants[i].candidate.id);
	}
}

static void on_claimed(struct store_op *op, const struct reeve_error *error)
{
	struct dispatch *d = (struct dispatch *)((char *)op - offsetof(struct dispatch, claim));
	struct store_claim *claim = &d->claim;
	d->claiming = false;
	if (error) {
		/* The outcome is unknown: the ready cache reads the rows again, and each Fetch queries what it was assigned. */
		for (int i = 0; i < claim->count; i++)
			ready_release(d->cache, &d->grants[i].candidate);
		for (int slot = 0; slot < claim->fetch_count; slot++) {
			if (d->by_slot[slot])
				fetch_redeliver(d->by_slot[slot]);
			else
				fetch_ask_newer_copy(d, &claim->fetches[slot]);
		}
		return;
	}
	d->base->counters.claims_tried += claim->count;
	d->base->counters.claims_won += claim->won_count;
	bool *won_any = mem_calloc((size_t)claim->fetch_count + 1, sizeof *won_any);
	bool *won = mem_calloc((size_t)claim->count + 1, sizeof *won);
	for (int i = 0; i < claim->won_count; i++) {
		int grant = grant_of(d, claim->won[i].id);
		won_any[claim->won[i].slot] = true;
		won[grant] = true;
		claim->won[i].order = d->grants[grant].order;
		traffic_claimed(
		    &d->base->traffic, claim->won[i].route, claim->won[i].token - d->grants[grant].candidate.run_at_us);
		spans_claimed(d->spans, &claim->won[i], d->grants[grant].candidate.run_at_us,
		    claim->fetches[claim->won[i].slot].incarnation);
		verbose_log(d->verbose, claim->won[i].route, claim->won[i].id, "claimed by worker %lld, attempt %d of %d",
		    (long long)claim->fetches[claim->won[i].slot].incarnation, claim->won[i].attempt,
		    claim->won[i].max_attempts);
	}
	if (claim->limited)
		claim_limits_apply(d, won);
	bool halted = queues_changes(d->queues) != d->queue_changes;
	for (int i = 0; i < claim->count; i++) {
		/* If the Fetch won other tasks, another manager has this one. If it won none, its worker may be lost, and the
		 * tasks still wait. If queues have changed since, the claim may have found the task's queue halted or limited,
		 * and the streams have been read again while the task was taken. A later change has them read again. */
		if (claim->tries[i].blocked)
			continue;
		if (claim->tries[i].locked)
			ready_suspend(d->cache, d->grants[i].candidate.id);
		else if (won[i] || (won_any[d->grants[i].slot] && !halted))
			ready_claimed(d->cache, d->grants[i].candidate.id, won[i]);
		else
			ready_release(d->cache, &d->grants[i].candidate);
	}
	free(won_any);
	free(won);
	claim_answer(d);
	base_dispatch(d->base);
}

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const struct grant *)a)->candidate.id, y = ((const struct grant *)b)->candidate.id;
	return (x > y) - (x < y);
}

void dispatch_claim(struct dispatch *d, int tried)
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
	for (int i = 0; i < tried; i++)
		d->grants[i].order = i;
	qsort(d->grants, (size_t)tried, sizeof *d->grants, by_id);
	bool careful = false, limited = false;
	for (int i = 0; i < tried; i++) {
		struct grant *grant = &d->grants[i];
		grant->slot = grant->fetch->slot;
		careful |= grant->candidate.was_locked;
		limited |= grant->limited;
		d->tries[i] =
		    (struct store_try){.id = grant->candidate.id, .version = grant->candidate.version, .slot = grant->slot};
	}
	d->claiming = true;
	d->queue_changes = queues_changes(d->queues);
	d->claim = (struct store_claim){
	    .op.done = on_claimed,
	    .op.deadline_ms = base_now(d->base) + CLAIM_BEGIN_MS,
	    .count = tried,
	    .tries = d->tries,
	    .fetch_count = slots,
	    .fetches = d->slots,
	    .expiry_grace_ms = d->base->options.expiry_grace_ms,
	    .limited = limited,
	    .careful = careful,
	};
	store_claim(d->base->store, &d->claim);
}
