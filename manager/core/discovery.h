/*
 * Discovery of streams: finds the priorities of each wanted route that have tasks, by a skip scan of the ready index,
 * from the highest down. It stops in a route of which the ready cache has enough.
 */
#ifndef REEVE_MANAGER_CORE_DISCOVERY_H
#define REEVE_MANAGER_CORE_DISCOVERY_H

#include "manager/core/base.h"

struct discovery;

/* The functions of its user that discovery calls. */
struct discovery_user {
	/* Tasks of this route and priority exist or existed, and none of them is due before `first_us`. */
	void (*found)(void *arg, int route, int32_t priority, int64_t first_us);
	/* Whether enough streams of the route are known for now, of those from this priority up. */
	bool (*enough)(void *arg, int route, int32_t from);
	void *arg;
};

struct discovery *discovery_create(struct base *base, const struct discovery_user *user);
void discovery_destroy(struct discovery *discovery);

/* Sets whether a route is wanted: only the streams of those are searched. None is at first. */
void discovery_want(struct discovery *discovery, int route, bool wanted);

/* Searches the route again, from its highest priority down, after a search in progress, and after a pause if that was
 * long. */
void discovery_again(struct discovery *discovery, int route);

/* The same for all wanted routes. `at_once`: without a pause, since streams have been forgotten. */
void discovery_rescan(struct discovery *discovery, bool at_once);

/* Goes on in a route that had enough streams. */
void discovery_more(struct discovery *discovery, int route);

/* Handles that streams of the route are not known any more; all of them are below this priority. */
void discovery_forget(struct discovery *discovery, int route, int32_t below);

/* Returns whether the search has not come to this priority yet, and will find tasks that are there now. */
bool discovery_will_find(const struct discovery *discovery, int route, int32_t priority);

/* Returns whether the highest priorities of the routes that were wanted first have been found. If not, starts that, and
 * runs the dispatcher when it has results. Later routes do not count: new ones could come all the time. */
bool discovery_ready(struct discovery *discovery);

/* Returns whether a query is in flight or needed for a route for which `accepts` returns true. With many routes to
 * query it returns true at once. */
bool discovery_searches(
    const struct discovery *discovery, bool (*accepts)(const void *arg, int route), const void *arg);

#endif
