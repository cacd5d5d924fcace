/*
 * The types that a worker runs, as its calls name them. They change when the handlers are read again (reload.c), and a call
 * that may be sent once more still points to those of its start: each holds on to the list that it names.
 * Guarded by the worker's lock.
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

/* The types to ask for: those of the options (`asked`), each of which must have a handler, or if there are none all that
 * have one. `may_start`: there is a spawner. It has one user, the caller. NULL: *error says what is wrong. */
struct accepts *accepts_make(
    const struct names *asked, struct handler *handlers, bool may_start, struct reeve_error *error);

/* One more user. */
struct accepts *accepts_use(struct accepts *accepts);

/* One less; the last frees it. NULL is allowed. */
void accepts_drop(struct accepts *accepts);

#endif
