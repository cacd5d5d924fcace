/*
 * What all parts of the worker share: the lock, the lease, the client, and the way to wake control.
 *
 * Threads, and where they begin:
 *
 *   control     reeve_worker_run's own thread: decides everything and starts most calls   control.c
 *   slots       `concurrency` threads that run handlers                                   slots.c
 *   heartbeats  one thread that renews the lease                                          heartbeats.c
 *   supervisor  one thread that reads which processes have ended                          supervisor_client.c
 *   rpc         the client's threads, on which answers arrive                             common/rpc/client.h
 *
 * One lock guards the state of all parts, so that a heartbeat is one snapshot, and a change that concerns several parts
 * is one step. A thread holds it briefly, never during a call or a handler. Each part's header says which of its
 * functions need the lock. A thread that changes something on which control must act wakes control.
 *
 * Each part gets the parts that it needs at its creation. They include each other in one direction only, from control
 * down to the attempts.
 */
#ifndef REEVE_WORKER_SHARED_H
#define REEVE_WORKER_SHARED_H

#include "common/error.h"
#include "worker/lease.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct rpc_client;

struct shared {
	pthread_mutex_t lock;

	/* Set before the threads start, read-only afterwards. */
	char object[280]; /* "worker NAME": the object of log lines */
	struct rpc_client *rpc;
	struct lease *lease;    /* changed under the lock, read without (lease.h) */
	struct lease own_lease; /* the lease of a worker without a supervisor */

	/* Used without the lock. */
	int wake_fd;        /* eventfd on which control waits */
	_Atomic bool woken; /* it has been written */
};

/* False: *error has the reason; shared_destroy is needed all the same. */
bool shared_init(struct shared *shared, struct reeve_error *error);
void shared_destroy(struct shared *shared);

/* Take and release the lock. */
static inline void shared_lock(struct shared *shared)
{
	pthread_mutex_lock(&shared->lock);
}

static inline void shared_unlock(struct shared *shared)
{
	pthread_mutex_unlock(&shared->lock);
}

/* Wakes control. Any thread and signal handlers; with or without the lock. */
void shared_wake(struct shared *shared);

/* Sleeps until shared_wake is called or `until_ms` has passed (monotonic; INT64_MAX: no limit). Called by control
 * without the lock. */
void shared_wait(struct shared *shared, int64_t until_ms);

#endif
