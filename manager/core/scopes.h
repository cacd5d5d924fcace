/* Discovery of streams: finds the priorities of each route that have tasks, by a skip scan of the ready index. */
#ifndef REEVE_MANAGER_CORE_SCOPES_H
#define REEVE_MANAGER_CORE_SCOPES_H

#include "manager/core/base.h"

struct routes;
struct scopes;

/* Tasks of this route and priority exist or existed, and none of them is due before `first_us`. */
typedef void scopes_found(void *arg, int route, int32_t priority, int64_t first_us);

struct scopes *scopes_create(struct base *base, struct routes *routes, scopes_found *found, void *arg);
void scopes_destroy(struct scopes *scopes);

/* Returns whether discovery has covered every known route once. If not, starts it, and runs the dispatcher when it has
 * results. */
bool scopes_ready(struct scopes *scopes);

/* Returns whether no query is in flight or needed. */
bool scopes_complete(const struct scopes *scopes);

/* Handles new routes. */
void scopes_routes_changed(struct scopes *scopes);

/* Handles a route that is no longer known. */
void scopes_forget_route(struct scopes *scopes, int route);

/* Queries all routes again, in the background. */
void scopes_look_again(struct scopes *scopes);

#endif
