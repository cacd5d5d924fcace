/*
 * Leases: which workers are alive, and what happens to the tasks of the others.
 *
 * A worker's heartbeats raise a number in its row. A manager polls those numbers a few times a second. It marks a
 * worker lost when it has itself seen the number unchanged for a full lease, on the monotonic clock; no timestamp
 * matters. A failed poll, or a gap between two, restarts the watch, because after an outage no worker has sent
 * heartbeats.
 *
 * Losing a worker takes two commits. The first marks it, unless a heartbeat has come in between. Only after that does
 * the second reclaim its tasks. The sweep that does that never stops, because a claim may be committed long after its
 * worker was lost. (docs/reliability.md)
 *
 * Every manager watches all workers. Managers may delay each other by that, but do no harm.
 */
#ifndef REEVE_MANAGER_CORE_LEASES_H
#define REEVE_MANAGER_CORE_LEASES_H

#include "manager/core/base.h"

struct control;
struct leases;
struct reports;
struct sessions;
struct verbose;

struct leases_neighbours {
	struct sessions *sessions;
	struct reports *reports;
	struct control *control;
	const struct verbose *verbose;
};

struct leases *leases_create(struct base *base, const struct leases_neighbours *neighbours);
void leases_destroy(struct leases *leases);

/* Renews a worker's lease. Calls the caller's `op->op.done` when it is committed, with the worker's commands, or has
 * failed; `op` must live until then. If this heartbeat raised the number, then requeues tasks that were assigned to the
 * worker and never arrived. `holding`, which is copied, must be from the same heartbeat. */
void leases_heartbeat(struct leases *leases, struct store_heartbeat *op, const struct store_holding *holding);

/* Sweeps the tasks of an incarnation that was just lost or has left, at once and for 30 s. */
void leases_gone(struct leases *leases, int64_t incarnation);

#endif
