/*
 * The settings of queues as they are known here: read from the database at the start, and again when somebody has changed
 * them. A change made at another manager is known within a second, mostly at once. What must never be missed is checked by
 * the statements themselves: no claim takes a task of a queue that is not running.
 */
#ifndef REEVE_MANAGER_CORE_QUEUES_H
#define REEVE_MANAGER_CORE_QUEUES_H

#include "manager/core/base.h"

struct routes;

/* Settings have changed: what was left alone may be taken now. */
typedef void queues_changed(void *arg);

struct queues *queues_create(struct base *base, struct routes *routes, queues_changed *changed, void *arg);
void queues_destroy(struct queues *queues);

/* The settings of a queue; those of one that nobody has set anything of are the defaults. Valid until they are read again:
 * not kept beyond the caller. */
const struct store_queue *queues_get(const struct queues *queues, const char *queue);

/* The same by a route's number, without a search. */
const struct store_queue *queues_of_route(struct queues *queues, int route);

/* Whether some queue is stopped or being stopped. */
bool queues_stopped(const struct queues *queues);

/* Calls `done` when they have been read once: from within, if that is so already. An error: they could not be. */
typedef void queues_done(void *arg, const struct reeve_error *error);
void queues_ready(struct queues *queues, int64_t deadline_ms, queues_done *done, void *arg);

/* The tables have this fingerprint: reads them again if that is another than it was. */
void queues_fingerprint(struct queues *queues, const char *fingerprint);

#endif
