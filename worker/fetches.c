/* A short list, with counts of its entries. */
#include "worker/fetches.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

struct fetch *fetches_new(struct fetches *fetches, uint32_t slots)
{
	struct fetch *fetch = calloc(1, sizeof *fetch);

	if (!fetch)
		abort();
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

	DL_FOREACH(fetches->waiting, fetch)
	{
		if (fetch->id == id)
			return fetch;
	}
	return NULL;
}

struct fetch *fetches_unsettled(const struct fetches *fetches)
{
	struct fetch *fetch;

	DL_FOREACH(fetches->waiting, fetch)
	{
		if (!fetch->in_flight)
			return fetch;
	}
	return NULL;
}

void fetches_sent(struct fetches *fetches, struct fetch *fetch, bool parked)
{
	assert(!fetch->in_flight);
	fetch->in_flight = true;
	fetch->parked = parked;
	fetch->given_up = false;
	fetch->sent_before = true;
	fetch->call = 0;
	fetches->in_flight_count++;
	fetches->parked_count += parked;
}

void fetches_unsent(struct fetches *fetches, struct fetch *fetch)
{
	assert(fetch->in_flight);
	fetches->in_flight_count--;
	fetches->parked_count -= fetch->parked;
	fetch->in_flight = fetch->parked = false;
}

void fetches_settle(struct fetches *fetches, struct fetch *fetch)
{
	if (fetch->in_flight)
		fetches_unsent(fetches, fetch);
	DL_DELETE(fetches->waiting, fetch);
	fetches->waiting_count--;
	fetches->slots -= fetch->slots;
	free(fetch);
}

void fetches_reset(struct fetches *fetches)
{
	while (fetches->waiting)
		fetches_settle(fetches, fetches->waiting);
	fetches->highest_id = 0;
}
