/*
 * The outbox: results that the manager has not yet judged, in the order in which the attempts ended.
 *
 * A result stays until a verdict on it has come, through as many reports as that takes. Results of a report that the
 * manager called invalid go again in two halves, each a group of its own, and so on down to the one that is to blame.
 * Only the data; guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_OUTBOX_H
#define REEVE_WORKER_OUTBOX_H

#include "worker/attempt.h"

struct outbox {
	struct attempt *waiting; /* utlist, oldest first */
	size_t waiting_count;
	size_t waiting_bytes;
	size_t reported_count; /* in reports under way */
	size_t reported_bytes;
	uint64_t last_group;
};

/* Adds an attempt that has ended and is sealed. */
void outbox_add(struct outbox *outbox, struct attempt *attempt);

/* Moves the oldest results, at most `max_count` and, but for the first, `max_bytes`, into a report: writes them to
 * `into`, returns their number. They are of one group. */
size_t outbox_take(struct outbox *outbox, struct attempt **into, size_t max_count, size_t max_bytes);

/* The report failed: they wait again, where they were. */
void outbox_put_back(struct outbox *outbox, struct attempt *const *attempts, size_t count);

/* One of a report was not judged: it waits again, behind the others, and goes with them. */
void outbox_again(struct outbox *outbox, struct attempt *attempt);

/* The same as outbox_put_back for two or more of which at least one is invalid: they go again in two halves. */
void outbox_split(struct outbox *outbox, struct attempt *const *attempts, size_t count);

/* Takes out an attempt, wherever it is in the outbox; it is the caller's from then on. */
void outbox_remove(struct outbox *outbox, struct attempt *attempt);

#endif
