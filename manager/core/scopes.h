/*
 * Which streams there are: for each route the priorities that have tasks, found by a skip scan of the ready index. The
 * window is told of each.
 */
#ifndef REEVE_MANAGER_CORE_SCOPES_H
#define REEVE_MANAGER_CORE_SCOPES_H

#include "manager/core/core.h"

struct scopes;

struct scopes *scopes_create(struct core *core, struct window *window);
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

/* Goes on with what could not be looked at before. */
void scopes_turn(struct scopes *scopes);

#endif
