/*
 * The Fetches that this incarnation still waits for. An answer is accepted only for one of them, so that what a lost or
 * late answer brought is known to be nobody's: the heartbeat tells the manager which Fetches can still be answered.
 *
 * A Fetch whose call ended without an answer is still waited for: it is sent again under its number, until it has been
 * answered or the incarnation ends, and the manager then gives again what it gave before.
 * Only the data; guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_FETCHES_H
#define REEVE_WORKER_FETCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fetch {
	int64_t id;
	uint32_t slots; /* how many tasks it may bring */
	bool in_flight; /* a call carries it now */
	bool parked;    /* … which the manager may keep for a while */
	bool given_up;  /* … and which has been cancelled */
	bool sent_before;
	const void *accepts; /* what that call asks for */
	uint64_t call; /* rpc_call_id of that call, if it is the Fetch's own; 0: unknown */
	struct fetch *prev, *next;
};

struct fetches {
	struct fetch *waiting; /* utlist, by id */
	size_t waiting_count;
	size_t in_flight_count;
	size_t parked_count; /* in flight and parked */
	uint32_t slots;      /* what all of them may bring */
	int64_t highest_id;  /* ever sent in this incarnation */
};

/* A new Fetch, waited for from now on. */
struct fetch *fetches_new(struct fetches *fetches, uint32_t slots);

/* The Fetch with this id, or NULL if it is not waited for. */
struct fetch *fetches_find(const struct fetches *fetches, int64_t id);

/* The oldest that is waited for and that no call carries, or NULL. */
struct fetch *fetches_unsettled(const struct fetches *fetches);

/* A call carries it from now on, or no longer does. */
void fetches_sent(struct fetches *fetches, struct fetch *fetch, bool parked);
void fetches_unsent(struct fetches *fetches, struct fetch *fetch);

/* It has been answered, or is waited for no more. Frees it. */
void fetches_settle(struct fetches *fetches, struct fetch *fetch);

/* A new incarnation begins: none is waited for, ids start from 1. */
void fetches_reset(struct fetches *fetches);

#endif
