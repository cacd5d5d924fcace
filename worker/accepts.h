/*
 * The task types that a worker runs, as its calls list them. The list changes when the handlers are reloaded
 * (handler_set.h), but a call that may be resent still points to the list from its start. So lists are
 * reference-counted: each call keeps a reference to its list. Guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_ACCEPTS_H
#define REEVE_WORKER_ACCEPTS_H

#include "common/error.h"
#include "worker/names.h"

struct handler;

struct accepts {
	struct names types; /* never empty */
	int users;
};

/* Creates the list of types to request: those of the options (`requested`), each of which must have a handler, or all
 * types with a handler if `requested` is empty. `may_start`: the worker has a supervisor. The caller gets the only
 * reference. NULL: *error has the reason. */
struct accepts *accepts_create(
    const struct names *requested, struct handler *handlers, bool may_start, struct reeve_error *error);

/* Adds a reference. */
struct accepts *accepts_use(struct accepts *accepts);

/* Drops a reference and frees the list after the last one. NULL is allowed. */
void accepts_drop(struct accepts *accepts);

#endif
