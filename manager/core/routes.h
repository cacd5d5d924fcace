/*
 * The known routes: a (queue, type) and its number, which is the same for every manager and never changes. A route
 * without tasks, live or in the history, retires (routes_retire in sql/functions/) and is forgotten. A submit that
 * still uses its number revives it.
 */
#ifndef REEVE_MANAGER_CORE_ROUTES_H
#define REEVE_MANAGER_CORE_ROUTES_H

#include "manager/core/base.h"

struct route {
	int id;
	char *queue, *type;
};

/* Callbacks on changes. */
struct routes_listener {
	void (*known)(void *arg, int route);     /* a route is known for the first time, or again */
	void (*forgotten)(void *arg, int route); /* a route is no longer known */
	void (*changed)(void *arg);              /* all routes of a load are known */
	void *arg;
};

struct routes *routes_create(struct base *base, const struct routes_listener *listener);
void routes_destroy(struct routes *routes);

/* Returns the route's number, or 0 if it is not known here (yet). */
int routes_find(const struct routes *routes, const char *queue, const char *type);

/* Returns a route by its number, or NULL if it is not known here. A forgotten route can be looked up for at least ten
 * minutes, which is longer than any call. */
const struct route *routes_get(const struct routes *routes, int id);

/* Returns whether the route is known and not forgotten. */
bool routes_known(const struct routes *routes, int id);

/* Returns the highest known number. Numbers run from 1, with gaps. */
int routes_last(const struct routes *routes);

/* Return whether any known route has this queue, or this type. */
bool routes_have_queue(const struct routes *routes, const char *queue);
bool routes_have_type(const struct routes *routes, const char *type);

/* Creates these routes if they do not exist. `done` gets NULL, or the error: FAILED_PRECONDITION if there would be more
 * routes than the option max_routes. The names are copied; for `origin` see struct store_op. */
typedef void routes_done(void *arg, const struct reeve_error *error);
void routes_ensure(struct routes *routes, int count, const char *const *queues, const char *const *types,
    int64_t deadline_ms, uint64_t origin, routes_done *done, void *arg);

/* Passes the fingerprint of the routes in use (manager_heartbeat.sql); reloads the routes if it differs from that of
 * the known ones. */
void routes_fingerprint(struct routes *routes, int64_t fingerprint);

#endif
