/*
 * Which streams there are: for each route the priorities that have tasks, found by a skip scan of the ready index.
 */
#ifndef REEVE_MANAGER_CORE_SCOPES_H
#define REEVE_MANAGER_CORE_SCOPES_H

#include "manager/core/base.h"

struct routes;
struct scopes;

/* There are, or were, tasks of this route and priority, none of them due before `first_us`. */
typedef void scopes_found(void *arg, int route, int32_t priority, int64_t first_us);

struct scopes *scopes_create(struct base *base, struct routes *routes, scopes_found *found, void *arg);
void scopes_destroy(struct scopes *scopes);

/* Whether every known route has been looked at once; if not, looks, and runs the dispatcher when it knows. */
bool scopes_ready(struct scopes *scopes);

/* Whether no look is under way, or to be made. */
bool scopes_complete(const struct scopes *scopes);

/* New routes are known. */
void scopes_routes_changed(struct scopes *scopes);

/* A route is not known any more. */
void scopes_forget_route(struct scopes *scopes, int route);

/* Looks at all routes again, in the background. */
void scopes_look_again(struct scopes *scopes);

#endif
