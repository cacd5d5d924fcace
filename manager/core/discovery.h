/* Discovery of streams: finds the priorities of each route that have tasks, by a skip scan of the ready index. */
#ifndef REEVE_MANAGER_CORE_DISCOVERY_H
#define REEVE_MANAGER_CORE_DISCOVERY_H

#include "manager/core/base.h"

struct routes;
struct discovery;

/* Tasks of this route and priority exist or existed, and none of them is due before `first_us`. */
typedef void discovery_found(void *arg, int route, int32_t priority, int64_t first_us);

struct discovery *discovery_create(struct base *base, struct routes *routes, discovery_found *found, void *arg);
void discovery_destroy(struct discovery *discovery);

/* Returns whether discovery has covered every known route once. If not, starts it, and runs the dispatcher when it has
 * results. */
bool discovery_ready(struct discovery *discovery);

/* Returns whether no query is in flight or needed. */
bool discovery_complete(const struct discovery *discovery);

/* Handles new routes. */
void discovery_routes_changed(struct discovery *discovery);

/* Handles a route that is no longer known. */
void discovery_forget_route(struct discovery *discovery, int route);

/* Queries all routes again, in the background. */
void discovery_rescan(struct discovery *discovery);

#endif
