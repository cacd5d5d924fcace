/*
 * The settings of queues in memory: loaded at the start, and again after each change, before its caller is answered. A
 * change made at another manager is known within a second, usually at once. Where a stale setting would do harm, the
 * statements check the tables: no claim takes a task of a queue that is not running.
 *
 * Of queues with a limit it is estimated how many more tasks may execute. The claims keep the limits; the estimate only
 * spares those that would get nothing. The job "limits" corrects it while it is 0.
 */
#ifndef REEVE_MANAGER_CORE_QUEUES_H
#define REEVE_MANAGER_CORE_QUEUES_H

#include "manager/core/base.h"

struct routes;

/* Called when settings have changed: tasks that were skipped before may be claimable now. */
typedef void queues_changed(void *arg);

struct queues *queues_create(struct base *base, struct routes *routes, queues_changed *changed, void *arg);
void queues_destroy(struct queues *queues);

/* Returns the settings of a queue, or the defaults if none were set. The pointer is valid until the next load: the
 * caller must not keep it. */
const struct store_queue *queues_get(const struct queues *queues, const char *queue);

/* Like queues_get, by a route's number and without a search. */
const struct store_queue *queues_of_route(struct queues *queues, int route);

/* Returns true if the queue has no limit, or its limit lets one more task execute, as far as known. If not, finds out
 * soon whether that has changed, and then runs the dispatcher. */
bool queues_have_room(struct queues *queues, const struct store_queue *queue);

/* Notes that so many more tasks of the route's queue execute; less if `count` is negative. Returns false if the queue
 * has no limit. */
bool queues_use_room(struct queues *queues, int route, int64_t count);

/* Notes that no more tasks of the route's queue may execute. */
void queues_fill(struct queues *queues, int route);

/* Returns how often settings have changed. */
int64_t queues_changes(const struct queues *queues);

/* Returns whether any queue is verbose. */
bool queues_verbose(const struct queues *queues);

/* Returns whether any queue is stopped or stopping. */
bool queues_stopped(const struct queues *queues);

/* Calls `done` after the settings have been loaded once; from within this call if they already were. `error`: why they
 * could not be loaded. */
typedef void queues_done(void *arg, const struct reeve_error *error);
void queues_ready(struct queues *queues, int64_t deadline_ms, queues_done *done, void *arg);

/* Loads the settings of now, then calls `done`. */
void queues_reload(struct queues *queues, int64_t deadline_ms, queues_done *done, void *arg);

/* Passes the fingerprint of the tables; reloads the settings if it differs from that of the loaded ones. */
void queues_fingerprint(struct queues *queues, const char *fingerprint);

#endif
