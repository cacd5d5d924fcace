/*
 * Leases: which workers live, and what becomes of what the others held.
 *
 * A worker's heartbeats raise a number in its row. A manager reads those numbers a few times a second and marks a worker
 * lost when it has itself seen its number stand still for a whole lease, on the monotonic clock; no timestamp takes part.
 * A failed look, or a gap between two, starts the watch anew: after an outage everyone stands still. Losing takes two
 * commits: the mark, which a heartbeat that came meanwhile forestalls, and only then the taking back of the tasks, by a
 * sweep without end, because a claim may be committed long after its worker was lost. (docs/reliability.md)
 *
 * Every manager watches over all workers; they may get in each other's way, but not do harm.
 */
#ifndef REEVE_MANAGER_CORE_LEASES_H
#define REEVE_MANAGER_CORE_LEASES_H

#include "manager/core/base.h"

struct control;
struct leases;
struct reports;
struct sessions;

struct leases_neighbours {
	struct sessions *sessions;
	struct reports *reports;
	struct control *control;
};

struct leases *leases_create(struct base *base, const struct leases_neighbours *neighbours);
void leases_destroy(struct leases *leases);

/* Renews a worker's lease. The caller's `op->op.done` is called when it is committed, with the orders that stand; `op` must
 * live until then. If this heartbeat was news, attempts that were given to the worker and never arrived are then taken
 * back: `holding`, which is copied, is what the very same heartbeat says. */
void leases_heartbeat(struct leases *leases, struct store_heartbeat *op, const struct store_holding *holding);

/* An incarnation has just been lost, or said that it is over: what it held is looked for at once, and for a while. */
void leases_gone(struct leases *leases, int64_t incarnation);

#endif
