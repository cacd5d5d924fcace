/*
 * The unacknowledged results, in the order in which the attempts ended.
 *
 * A result stays until it is acknowledged, through as many reports as necessary. If a manager calls a report invalid,
 * its results are reported again in two halves, each a group of its own, and so on until the invalid one is alone.
 *
 * Data only; guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_UNACKED_H
#define REEVE_WORKER_UNACKED_H

#include "worker/attempt.h"

enum {
	REPORTS_MAX = 2,                    /* in flight at once */
	REPORT_BYTES_MAX = 2 * 1024 * 1024, /* per report, roughly */
	SECOND_REPORT_MAX = 256,            /* this many results are always enough for a second report */
};

struct unacked {
	struct attempt *waiting; /* utlist, oldest first */
	size_t waiting_count;
	size_t waiting_bytes;
	size_t reported_count; /* in reports in flight */
	size_t reported_bytes;
	int reports; /* in flight */
	uint64_t last_group;
};

/* Returns true if a report could be sent now. `capacity` is the number of attempts that the worker runs or holds. */
bool unacked_report_due(const struct unacked *unacked, size_t capacity);

/* Adds an attempt that has ended and is sealed. */
void unacked_add(struct unacked *unacked, struct attempt *attempt);

/* Moves the oldest results into a report: up to `max_count` of them, and up to `max_bytes` unless the first alone is
 * larger. All are of one group. Writes them to `into` and returns their number. */
size_t unacked_take(struct unacked *unacked, struct attempt **into, size_t max_count, size_t max_bytes);

/* Puts the results of a failed report back to the front. */
void unacked_put_back(struct unacked *unacked, struct attempt *const *attempts, size_t count);

/* Puts a result that was not acknowledged back, after the others and without a group. */
void unacked_resend(struct unacked *unacked, struct attempt *attempt);

/* Like unacked_put_back, for two or more results of which at least one is invalid: they are reported again in two
 * halves. */
void unacked_split(struct unacked *unacked, struct attempt *const *attempts, size_t count);

/* Removes an attempt, whether it waits or is in a report. The caller then owns it. */
void unacked_remove(struct unacked *unacked, struct attempt *attempt);

#endif
