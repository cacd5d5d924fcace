/*
 * The waiting Fetches that accept a stream, in order of arrival, while its candidates are dealt. A heap has the next
 * Fetch of each profile. Those that left it stand in a line, from which each candidate goes to the first that takes it.
 */
#ifndef REEVE_MANAGER_CORE_TAKERS_H
#define REEVE_MANAGER_CORE_TAKERS_H

#include "manager/core/dispatch_internal.h"

/* A zeroed struct has no Fetches. */
struct takers {
	struct fetch **heap, **line;
	int heap_count, line_count, line_capacity;
	int walked, kept; /* in this walk of the line: Fetches met, and those of them that were not removed */
	bool begun;
	bool removed;   /* a Fetch that accepts the stream is not here, or not any more */
	int64_t *steps; /* counts comparisons of Fetches */
};

/* Returns true if the Fetch has its slots, or its share of the claim. */
static inline bool fetch_full(const struct fetch *fetch, int share)
{
	return fetch->granted >= fetch->request.slots || fetch->granted >= share;
}

/* Collects the Fetches that accept the route, unless that has been done; only of profiles that are in the group with
 * this number. */
void takers_begin(struct takers *takers, struct demand *demand, int route, unsigned group, int share, int64_t *steps);

/* Begins a walk at the first Fetch. */
void takers_walk(struct takers *takers);

/* Returns the next Fetch that is not full, or NULL at the end. Full ones are removed. */
struct fetch *takers_next(struct takers *takers, int share);

/* Removes the Fetch that takers_next has returned. */
void takers_remove(struct takers *takers);

/* Returns true if all Fetches that the walk met were removed. */
bool takers_none(const struct takers *takers);

void takers_free(struct takers *takers);

#endif
