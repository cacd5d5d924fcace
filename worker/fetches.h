/*
 * The Fetches that this incarnation waits for. The worker accepts an answer only for one of them, so that assignments
 * in a lost or late answer are known to belong to no worker: the heartbeat reports to the manager which Fetches can
 * still be answered.
 *
 * The worker still waits for a Fetch whose call ended without an answer. It resends the Fetch with the same id until it
 * is answered or the incarnation ends; the manager then returns the same assignments again.
 *
 * Data only; guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_FETCHES_H
#define REEVE_WORKER_FETCHES_H

#include "worker/backoff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct promises;

enum { FETCHES_STALE_MAX = 8 };

struct fetch {
	int64_t id;
	uint32_t slots; /* how many tasks it may bring */
	bool in_flight; /* a call carries it now */
	bool parked;    /* … and the manager may keep it for a while */
	bool cancelled; /* … and it has been cancelled */
	bool sent_before;
	const void *accepts;       /* the types that this call requests */
	uint64_t changes;          /* see fetcher.c: what it excludes is up to date with these changes */
	struct promises *promises; /* … and of which handlers it may bring so many tasks; NULL: of all */
	uint64_t call;             /* rpc_call_id of that call, if it is a Fetch call; 0: unknown */
	struct fetch *prev, *next;
};

struct fetches {
	struct fetch *waiting; /* utlist, by id */
	size_t waiting_count;
	size_t in_flight_count;
	size_t parked_count;               /* in flight and parked */
	uint32_t slots;                    /* the sum over all of them */
	int64_t highest_id;                /* the last id of this incarnation */
	struct backoff retry;              /* before the next call that carries one */
	uint64_t stale[FETCHES_STALE_MAX]; /* calls of a lost incarnation, to be cancelled */
	int stale_count;
};

/* Creates a Fetch that the worker waits for. */
struct fetch *fetches_create(struct fetches *fetches, uint32_t slots);

/* Returns the Fetch with this id, or NULL if the worker does not wait for it. */
struct fetch *fetches_find(const struct fetches *fetches, int64_t id);

/* Returns the oldest Fetch that no call carries, or NULL. */
struct fetch *fetches_unsent(const struct fetches *fetches);

/* Marks the Fetch as in flight, or as no longer in flight. */
void fetches_mark_sent(struct fetches *fetches, struct fetch *fetch, bool parked);
void fetches_mark_unsent(struct fetches *fetches, struct fetch *fetch);

/* Removes and frees a Fetch that was answered or given up. */
void fetches_remove(struct fetches *fetches, struct fetch *fetch);

/* Removes all Fetches for a new incarnation. Ids start from 1 again. */
void fetches_reset(struct fetches *fetches);

/* Removes all Fetches of a lost incarnation; their calls become stale. */
void fetches_abandon(struct fetches *fetches);

/* Adds a call to the stale ones. Beyond FETCHES_STALE_MAX, a call ends only on its own. */
void fetches_add_stale(struct fetches *fetches, uint64_t call);

#endif
