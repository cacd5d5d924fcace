/*
 * The routes known here: a (queue, type) and its number, which means the same to every manager for ever. One without
 * tasks, live or in the history, retires (routes_retire in sql/functions/) and is forgotten. A submit that has its number meanwhile brings it back.
 */
#ifndef REEVE_MANAGER_CORE_ROUTES_H
#define REEVE_MANAGER_CORE_ROUTES_H

#include "manager/core/base.h"

struct route {
	int id;
	char *queue, *type;
};

/* Who is told of changes. */
struct routes_listener {
	void (*known)(void *arg, int route);     /* one that was not known before, or was forgotten */
	void (*forgotten)(void *arg, int route); /* one that is not known any more */
	void (*changed)(void *arg);              /* all that was read is known */
	void *arg;
};

struct routes *routes_create(struct base *base, const struct routes_listener *listener);
void routes_destroy(struct routes *routes);

/* The route's number, or 0 if it is not known here (yet). */
int routes_find(const struct routes *routes, const char *queue, const char *type);

/* By its number; NULL if not known here. Lives for ten minutes after it was forgotten, so for the time of any call. */
const struct route *routes_get(const struct routes *routes, int id);

/* Whether it is known, and not forgotten. */
bool routes_known(const struct routes *routes, int id);

/* The highest number known; numbers run from 1, with gaps. */
int routes_last(const struct routes *routes);

/* Whether any route that is known has this queue, or this type. */
bool routes_have_queue(const struct routes *routes, const char *queue);
bool routes_have_type(const struct routes *routes, const char *type);

/* Makes sure that these routes exist: `done` gets NULL, or why not; FAILED_PRECONDITION if there would be more than the option
 * max_routes. The names are copied; `origin` is as struct store_op has it. */
typedef void routes_done(void *arg, const struct reeve_error *error);
void routes_ensure(struct routes *routes, int count, const char *const *queues, const char *const *types,
    int64_t deadline_ms, uint64_t origin, routes_done *done, void *arg);

/* What those in use come to (manager_tick.sql): loads them if that is not what those that are known come to. */
void routes_fingerprint(struct routes *routes, int64_t fingerprint);

/* Loads them, and says when that is done: NULL, or why they could not be loaded. `done` is called later, exactly once. */
void routes_fresh(struct routes *routes, routes_done *done, void *arg);

#endif
