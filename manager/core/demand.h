/*
 * What the Fetches at this manager accept. Fetches with the same queues and types share a profile, so that a route is
 * compared with a few profiles instead of thousands of Fetches. A route finds its profiles by its names.
 *
 * A profile is known from its first waiting Fetch until some seconds after its last Fetch has ended, because the Fetch
 * of a single busy worker comes and goes with each task. A callback reports which routes are accepted by a known
 * profile; the others cost nothing.
 */
#ifndef REEVE_MANAGER_CORE_DEMAND_H
#define REEVE_MANAGER_CORE_DEMAND_H

#include "common/deadlines.h"
#include "common/hash.h"
#include "manager/core/base.h"

struct fetch;
struct routes;
struct name;
struct link;

struct profile {
	/* Owned by the dispatcher: the waiting Fetches. */
	struct fetch *waiting; /* list, in order of arrival */
	int count;
	int64_t capacity;         /* candidates that they can still take, in total */
	int64_t coming;           /* free slots of its Fetches in the claim in flight, which they will request again */
	int64_t left;             /* slots that its last Fetch with tasks left free, and that the next one requests */
	int64_t left_until_ms;    /* until then the next Fetch counts as requesting `left` */
	int64_t excluded;         /* tasks that they exclude, in total */
	struct deadlines idle;    /* heap: those whose worker has begun no task yet, and that have room; by its start */
	int64_t idle_capacity;    /* the part of `capacity` that is theirs */
	int idle_unparked;        /* the number of those that do not park */
	int unparked;             /* the number of all that do not park */
	bool searched;            /* during a run: streams of a route that it accepts are being searched */
	int32_t collects_above;   /* during a run: one of its Fetches waits for tasks above this priority that are read */
	int64_t collects_from_ms; /* when the last of these Fetches came */
	bool reads;               /* during a run: tasks that were left to other managers are now read for it */
	struct fetch *at;         /* while candidates are matched: the first that may have room */
	unsigned round;           /* the last group in match.c that contained it */

	/* Owned by demand.c. */
	struct demand *demand;
	char *key;
	int fetches; /* number of Fetches that have it, in any state */
	bool known;
	int64_t forget_ms;             /* without a Fetch: when it is forgotten */
	struct name **queues, **types; /* sorted by their addresses */
	int queue_count, type_count;   /* 0: all */
	bool by_queue;                 /* it is linked to its queues, else to its types */
	struct link *links;            /* one for each of those names */
	struct profile *prev, *next;   /* among known profiles without a Fetch */
	UT_hash_handle hh;
};

/* Called when a route is added or removed, and when `wanted` changes: whether a known profile accepts the route. */
typedef void demand_wanted(void *arg, int route, bool wanted);

struct demand *demand_create(struct base *base, struct routes *routes, demand_wanted *wanted, void *arg);
void demand_destroy(struct demand *demand);

/* Returns the profile of a Fetch that lists these queues and types; an empty list means all. The caller must return it
 * with demand_give_back. */
struct profile *demand_take(
    struct demand *demand, const char *const *queues, int queue_count, const char *const *types, int type_count);
void demand_give_back(struct profile *profile);

/* Makes the profile known, because a Fetch waits with it. */
void demand_wait(struct profile *profile);

/* Returns true if the profile accepts the route. */
bool demand_accepts(const struct profile *profile, int route);

/* Calls `each` for every route that a known profile accepts. */
void demand_routes(const struct profile *profile, void (*each)(void *arg, int route), void *arg);

/* Adds a new route, which routes_get knows. */
void demand_route(struct demand *demand, int route);

/* Removes a route that is not known any more. Reports it as not wanted. */
void demand_forget_route(struct demand *demand, int route);

/* A walk over the known profiles that accept a route. demand_first and demand_next return NULL at its end. */
struct demand_walk {
	struct demand *demand;
	const struct name *queue, *type;
	const struct link *at;
	int step;
};
struct profile *demand_first(struct demand_walk *walk, struct demand *demand, int route);
struct profile *demand_next(struct demand_walk *walk);

/* Forgets the profiles whose time is over. Returns when the next one will be forgotten; INT64_MAX: never. */
int64_t demand_forget(struct demand *demand, int64_t now_ms);

/* For tests: returns how many comparisons of a profile with a route there were. */
int64_t demand_compared(const struct demand *demand);

#endif
