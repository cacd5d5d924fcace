/*
 * The worker's handlers, the types that it takes because of them, and their reload while the worker runs.
 *
 * A reload reads all handlers files into a table of its own. That replaces the handlers from files only if all of it is
 * valid. Attempts that the worker already holds keep their handlers. The next heartbeat, and the parked Fetch, which is
 * resent (fetcher.c), report new types to the managers.
 */
#ifndef REEVE_WORKER_HANDLER_SET_H
#define REEVE_WORKER_HANDLER_SET_H

#include "worker/accepts.h"
#include "worker/handler.h"
#include "worker/heartbeat_timer.h"
#include "worker/shared.h"

struct handler_set {
	struct shared *shared;
	struct heartbeat_timer *timer;
	struct names files;     /* the handlers files */
	struct names requested; /* the types of the options; empty: all that have a handler */
	bool supervisor;        /* the worker has one, so handlers may start processes */

	_Atomic int reload_requests; /* calls of reeve_worker_reload */
	int reloads;                 /* how many of these are done; only control uses it */

	/* Only control changes these, under the lock. */
	struct handler *table;
	struct accepts *accepts; /* the types that the worker runs now; NULL before it runs */

	bool types_sent; /* the managers know these types; until then heartbeats carry them. Under the lock */
};

/* Frees the handlers and lists; the attempts must have been freed. */
void handler_set_clear(struct handler_set *set);

/* Sets the types that the worker takes, from the options and the handlers. Called before the threads start. False:
 * *error has the reason. */
bool handler_set_start(struct handler_set *set, struct reeve_error *error);

/* Reloads the files, and the access token's, if reeve_worker_reload was called. Called by control without the lock. */
void handler_set_step(struct handler_set *set);

/* Returns true if a handler starts processes, or may after a reload. Called by control. */
bool handler_set_may_start_processes(const struct handler_set *set);

#endif
