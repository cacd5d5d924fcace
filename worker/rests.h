/*
 * Resting periods. After a task of a queue with one, a slot takes no other task of that queue for a while; tasks of
 * other queues it takes. No slot is bound to a rest: with R rests of a queue, all slots but R may run its tasks.
 *
 * Guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_RESTS_H
#define REEVE_WORKER_RESTS_H

#include "common/hash.h"
#include "worker/in_flight.h"

/* The rests of a queue. */
struct queue_rests {
	char *queue;
	int64_t *until_ms; /* on the monotonic clock, in no order */
	size_t count, size;
	UT_hash_handle hh;
};

/* All zero: none. */
struct rests {
	struct queue_rests *queues; /* uthash, by name; each has at least one */
	size_t count;
	uint64_t changes; /* how often one has begun or ended */
};

/* Queues of which a Fetch may bring fewer tasks than it has slots. */
struct queue_slots {
	size_t count;
	Reeve__V1__QueueSlots **list;
	Reeve__V1__QueueSlots items[];
};

/* Begins a rest. */
void rests_begin(struct rests *rests, const char *queue, int64_t until_ms);

/* Ends the rests whose time is over. Returns true if there were any. */
bool rests_end(struct rests *rests, int64_t now_ms);

/* Returns when the first rest ends; INT64_MAX: there is none. */
int64_t rests_next_ms(const struct rests *rests);

/* Returns true if the attempt must not start now, as so many of the slots rest for its queue. */
bool rests_block(
    const struct rests *rests, const struct in_flight *in_flight, const struct attempt *attempt, int slots);

/* Returns the limits of a Fetch with so many slots. `capacity`: how many unfinished attempts of a queue the worker may
 * have, apart from what its other Fetches bring. NULL: none is needed. The caller frees them with queue_slots_free. */
struct queue_slots *rests_queue_slots(
    const struct rests *rests, const struct in_flight *in_flight, int64_t capacity, uint32_t slots);
void queue_slots_free(struct queue_slots *slots);

/* Ends all rests, and frees everything. */
void rests_clear(struct rests *rests);

#endif
