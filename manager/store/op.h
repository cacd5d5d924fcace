/*
 * Operations of the store: what all of them have in common.
 *
 * The caller owns an operation's struct and everything its pointers refer to, sets the first part, and passes it to its
 * function. The store calls `op.done` exactly once, on the loop's thread. It calls it from within that function only to
 * refuse the operation at once: UNAVAILABLE while the store closes, RESOURCE_EXHAUSTED if too much waits
 * (store_options.waiting_bytes). The results (second part) are valid during `done`; the store frees them when it
 * returns. An error with code UNKNOWN means that the operation may or may not have taken effect; only operations whose
 * comment says "Reports UNKNOWN" have it.
 *
 * Times are microseconds since 1970 of the database's clock, durations milliseconds.
 */
#ifndef REEVE_MANAGER_STORE_OP_H
#define REEVE_MANAGER_STORE_OP_H

#include "common/error.h"
#include "common/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Points in time before and after all others. */
#define STORE_TIME_BEGIN INT64_MIN
#define STORE_TIME_NEVER INT64_MAX

/* Maximum memory of the operations in a batch, unless it is one alone. A small operation waits for the batch in flight
 * and for its own, so long operations do not share a batch with others. */
enum { STORE_BATCH_BYTES = 2 << 20 };

struct store;
struct role;
struct op_kind;

struct store_op {
	void (*done)(struct store_op *op, const struct reeve_error *error); /* error NULL: committed */
	int64_t deadline_ms; /* monotonic: if not started by then, or within 2 s while the database is down, it fails with
	                      * UNAVAILABLE; with DEADLINE_EXCEEDED if an earlier try's outcome is unknown; 0: none */
	uint64_t origin;     /* the beneficiary: different origins take turns; 0: the manager itself */
	bool can_wait;       /* its sender has other work: it may wait a few ms until more operations join its batch */
	int weight;          /* its number of tasks; set by the store */
	size_t bytes;        /* its memory; set by the store */

	bool again; /* in `done`: the connection broke during an earlier try, whose outcome is unknown */

	/* for the role only */
	struct store_op *prev, *next;
	const struct op_kind *kind;
	struct role *role; /* the role that lists it */
	int64_t turn;      /* see fair.h */
	int batch_limit, tries;
	bool blocked;     /* it could not get a lock in time */
	int64_t added_ms; /* when it was passed to the store; monotonic */
};

#endif
