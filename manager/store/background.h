/*
 * Blocking work in a thread of its own, so that the loop continues. Each work has its own thread.
 */
#ifndef REEVE_MANAGER_STORE_BACKGROUND_H
#define REEVE_MANAGER_STORE_BACKGROUND_H

#include <event2/event.h>
#include <stdbool.h>

struct background;

struct background_kind {
	void (*work)(void *data); /* in the thread, which has `data` exclusively until it returns */
	/* Called on the loop when the work is done; `started` is false if no thread could be created. The work is freed
	 * afterwards. */
	void (*done)(void *data, bool started);
	void (*release)(void *data); /* the last use of `data`, in either thread */
};

/* Starts the work. `kind` must be static. */
struct background *background_start(struct event_base *base, const struct background_kind *kind, void *data);

/* Abandons the work: `done` is not called any more; the thread ends when its work does. Call it on the loop. */
void background_abandon(struct background *work);

#endif
