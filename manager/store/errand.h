/*
 * Work that blocks, done in a thread of its own, so that the loop does not stop meanwhile. One thread for each.
 */
#ifndef REEVE_MANAGER_STORE_ERRAND_H
#define REEVE_MANAGER_STORE_ERRAND_H

#include <event2/event.h>
#include <stdbool.h>

struct errand;

struct errand_kind {
	void (*work)(void *data); /* in the thread; `data` is the thread's alone until it returns */
	/* On the loop, once the work is done; `started` is false if no thread could be made. The errand is gone afterwards. */
	void (*done)(void *data, bool started);
	void (*release)(void *data); /* the last use of `data`, in either thread */
};

/* Starts the work. `kind` must be static. */
struct errand *errand_start(struct event_base *base, const struct errand_kind *kind, void *data);

/* Gives it up: `done` is not called any more, the thread ends when its work does. On the loop. */
void errand_abandon(struct errand *errand);

#endif
