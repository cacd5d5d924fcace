/*
 * The waiting Fetches that accept a stream, in order of arrival, while its candidates are matched. A heap has the next
 * Fetch of each profile. Fetches that leave the heap join a line. Each candidate goes to the first Fetch of the line
 * that accepts it.
 */
#ifndef REEVE_MANAGER_CORE_FETCH_ORDER_H
#define REEVE_MANAGER_CORE_FETCH_ORDER_H

#include "manager/core/dispatch_internal.h"

/* A zeroed struct has no Fetches. */
struct fetch_order {
	struct fetch **heap, **line;
	int heap_count, line_count, line_capacity;
	int walked, kept; /* since the last restart: Fetches returned, and those of them that were not removed */
	bool begun;
	bool removed;   /* a Fetch that accepts the stream is missing or was removed */
	int64_t *steps; /* counts comparisons of Fetches */
};

/* Returns true if the Fetch has its slots, or its share of the claim. */
static inline bool fetch_full(const struct fetch *fetch, int share)
{
	return fetch->granted >= fetch->request.slots || fetch->granted >= share;
}

/* Collects the Fetches that accept the route, at the first call. Only profiles of the group with this number count. */
void fetch_order_begin(
    struct fetch_order *order, struct demand *demand, int route, unsigned group, int share, int64_t *steps);

/* Continues with the first Fetch. */
void fetch_order_restart(struct fetch_order *order);

/* Returns the next Fetch that is not full, or NULL at the end. Full ones are removed. */
struct fetch *fetch_order_next(struct fetch_order *order, int share);

/* Removes the Fetch that fetch_order_next has returned. */
void fetch_order_remove(struct fetch_order *order);

/* Returns true if all Fetches that were returned since the last restart were removed. */
bool fetch_order_none(const struct fetch_order *order);

void fetch_order_free(struct fetch_order *order);

#endif
