/* A short list, with counts of its entries. */
#include "worker/fetches.h"

#include "common/mem.h"
#include "worker/rooms.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

struct fetch *fetches_create(struct fetches *fetches, uint32_t slots)
{
	struct fetch *fetch = mem_calloc(1, sizeof *fetch);

	fetch->id = ++fetches->highest_id;
	fetch->slots = slots;
	DL_APPEND(fetches->waiting, fetch);
	fetches->waiting_count++;
	fetches->slots += slots;
	return fetch;
}

struct fetch *fetches_find(const struct fetches *fetches, int64_t id)
{
	struct fetch *fetch;

	DL_FOREACH (fetches->waiting, fetch) {
		if (fetch->id == id)
			return fetch;
	}
	return NULL;
}

struct fetch *fetches_unsent(const struct fetches *fetches)
{
	struct fetch *fetch;

	DL_FOREACH (fetches->waiting, fetch) {
		if (!fetch->in_flight)
			return fetch;
	}
	return NULL;
}

void fetches_mark_sent(struct fetches *fetches, struct fetch *fetch, bool parked)
{
	assert(!fetch->in_flight);
	fetch->in_flight = true;
	fetch->parked = parked;
	fetch->cancelled = false;
	fetch->sent_before = true;
	fetch->call = 0;
	fetches->in_flight_count++;
	fetches->parked_count += parked;
}

void fetches_mark_unsent(struct fetches *fetches, struct fetch *fetch)
{
	assert(fetch->in_flight);
	rooms_end(fetch->promises);
	fetch->promises = NULL;
	fetches->in_flight_count--;
	fetches->parked_count -= fetch->parked;
	fetch->in_flight = fetch->parked = false;
}

void fetches_remove(struct fetches *fetches, struct fetch *fetch)
{
	if (fetch->in_flight)
		fetches_mark_unsent(fetches, fetch);
	DL_DELETE(fetches->waiting, fetch);
	fetches->waiting_count--;
	fetches->slots -= fetch->slots;
	free(fetch);
}

void fetches_reset(struct fetches *fetches)
{
	while (fetches->waiting)
		fetches_remove(fetches, fetches->waiting);
	fetches->highest_id = 0;
	backoff_clear(&fetches->retry);
}

void fetches_abandon(struct fetches *fetches)
{
	const struct fetch *fetch;

	DL_FOREACH (fetches->waiting, fetch) {
		if (fetch->call)
			fetches_add_stale(fetches, fetch->call);
	}
	fetches_reset(fetches);
}

void fetches_add_stale(struct fetches *fetches, uint64_t call)
{
	if (fetches->stale_count < FETCHES_STALE_MAX)
		fetches->stale[fetches->stale_count++] = call;
}
