/*
 * A Fetch with a filter: it takes no candidates of the ready cache, but reads tasks that match and claims them by a
 * claim of its own. It never parks. While it reads and claims, it is in state ASKING, and has no deadline of its own.
 */
#include "manager/core/db_clock.h"
#include "manager/core/dispatch_internal.h"
#include "manager/core/routes.h"
#include "manager/core/spans.h"

#include <stdlib.h>

enum { PICK_MS = 10000 }; /* deadline of the reading, and of the claim */

struct pick {
	struct fetch *fetch;
	struct store_pick read;
	struct store_claim claim;
	struct store_fetch id;
	ProtobufCMessage *request; /* a copy */
	struct place_of {
		int64_t id;
		int order; /* in the answer */
	} * places;    /* of `tries`, by id; after these in the same block */
	struct store_try tries[];
};

void pick_free(struct pick *pick)
{
	if (!pick)
		return;
	protobuf_c_message_free_unpacked(pick->request, NULL);
	free(pick);
}

/* Queries the journal: the claim for an earlier copy of the Fetch has just ended, or the outcome of its own is unknown.
 */
static void ask_again(struct fetch *f)
{
	f->until_ms = base_now(f->dispatch->base) + UNPARKED_LIMIT_MS;
	fetch_redeliver(f);
}

/* Ends the Fetch, or, if its caller has gone, frees it. */
static void pick_end(struct fetch *f, const struct reeve_error *error)
{
	if (!f->done) {
		fetch_drop(f);
	} else if (error) {
		fetch_end(f, NULL, error);
	} else {
		struct fetch_answer nothing = {0};
		fetch_end(f, &nothing, NULL);
	}
}

static int by_id(const void *a, const void *b)
{
	int64_t x = ((const struct place_of *)a)->id, y = ((const struct place_of *)b)->id;
	return (x > y) - (x < y);
}

static void on_claimed(struct store_op *op, const struct reeve_error *error)
{
	struct pick *pick = (struct pick *)((char *)op - offsetof(struct pick, claim));
	struct fetch *f = pick->fetch;
	struct dispatch *d = f->dispatch;
	for (int i = 0; !error && i < pick->claim.won_count; i++) {
		struct store_claimed *won = &pick->claim.won[i];
		const struct place_of *place = bsearch(
		    &(struct place_of){.id = won->id}, pick->places, (size_t)pick->claim.count, sizeof *pick->places, by_id);
		won->order = place->order;
		traffic_claimed(&d->base->traffic, won->route, -1);
		spans_claimed(d->spans, won, 0, f->request.incarnation);
		ready_drop(d->cache, won->id);
	}
	if (!f->done) {
		const struct store_fetch id = pick->id;
		fetch_drop(f);
		fetch_ask_newer_copy(d, &id);
	} else if (f->ask_again || (error && error->code == STATUS(UNKNOWN))) {
		ask_again(f);
	} else if (error || !pick->claim.won_count) {
		pick_end(f, error);
	} else {
		fetch_end_won(f, pick->claim.won, pick->claim.won_count, 0);
	}
}

static void on_picked(struct store_op *op, const struct reeve_error *error)
{
	struct pick *pick = (struct pick *)((char *)op - offsetof(struct pick, read));
	struct fetch *f = pick->fetch;
	struct dispatch *d = f->dispatch;
	int64_t bytes = 0;
	int count = 0;
	if (f->done && f->ask_again) {
		ask_again(f);
		return;
	}
	for (int i = 0; !error && i < pick->read.count; i++) {
		const struct store_picked *c = &pick->read.picked[i];
		const struct route *route = routes_get(d->routes, c->route);
		if (!route) { /* another manager has just created it */
			jobs_ask(d->base->jobs, JOB_ROUTES);
			continue;
		}
		bytes += ASSIGNMENT_BYTES + c->bytes + 2 * LIMIT_NAME_BYTES;
		if (count && bytes > f->request.max_bytes)
			break;
		pick->places[count] = (struct place_of){c->id, count};
		pick->tries[count++] = (struct store_try){.id = c->id, .version = c->version};
	}
	if (!f->done || error || !count) {
		pick_end(f, error);
		return;
	}
	qsort(pick->places, (size_t)count, sizeof *pick->places, by_id);
	f->claimed_ms = base_now(d->base);
	pick->id = (struct store_fetch){f->request.incarnation, f->request.fetch_id};
	pick->claim = (struct store_claim){
	    .op.done = on_claimed,
	    .op.deadline_ms = base_now(d->base) + PICK_MS,
	    .count = count,
	    .tries = pick->tries,
	    .fetch_count = 1,
	    .fetches = &pick->id,
	    .expiry_grace_ms = d->base->options.expiry_grace_ms,
	    .limited = true,
	};
	store_claim(d->base->store, &pick->claim);
}

struct pick *pick_create(struct fetch *f, const ProtobufCMessage *request)
{
	size_t length = protobuf_c_message_get_packed_size(request);
	uint8_t *packed = mem_malloc(length + 1);
	size_t slots = (size_t)f->request.slots;
	struct pick *pick = mem_calloc(1, sizeof *pick + (sizeof *pick->tries + sizeof *pick->places) * slots);
	pick->places = (struct place_of *)(pick->tries + slots);
	protobuf_c_message_pack(request, packed);
	pick->fetch = f;
	pick->request = protobuf_c_message_unpack(request->descriptor, NULL, length, packed);
	free(packed);
	return pick;
}

void pick_start(struct fetch *f)
{
	if (!fetch_begin(f, PICK_WORK, pick_start))
		return;
	deadlines_remove(&f->dispatch->deadlines, &f->deadline);
	const struct core_options *options = &f->dispatch->base->options;
	const struct db_clock *clock = f->dispatch->clock;
	f->pick->read = (struct store_pick){
	    .op.done = on_picked,
	    .op.deadline_ms = base_now(f->dispatch->base) + PICK_MS,
	    .op.origin = f->request.origin,
	    .request = f->pick->request,
	    .max_details = options->max_sent_bytes ? options->max_sent_bytes : INT64_MAX,
	    .estimate_us = db_clock_us(clock) > db_clock_latest_us(clock) ? db_clock_us(clock) : 0,
	};
	store_pick(f->dispatch->base->store, &f->pick->read);
}
