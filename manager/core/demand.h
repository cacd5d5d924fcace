/*
 * What the Fetches that are here accept. Fetches that list the same queues and types share a profile, so that a route has
 * to be compared with a few profiles instead of with thousands of Fetches; and a profile is found by the route's names.
 *
 * A profile is known from the first Fetch that waits with it until some time after its last one has gone: a single busy
 * worker goes and comes with each task. Whoever has made the demand is told which routes some known profile accepts; the others cost nothing.
 */
#ifndef REEVE_MANAGER_CORE_DEMAND_H
#define REEVE_MANAGER_CORE_DEMAND_H

#include "common/hash.h"
#include "manager/core/base.h"


struct fetch;
struct routes;
struct name;
struct link;

struct profile {
	/* The dispatcher's: those of its Fetches that wait. */
	struct fetch *waiting; /* list, in the order they came */
	int count;
	int64_t room;          /* candidates that they can still take, in all */
	int64_t coming;        /* slots that its Fetches in the claim under way have left: they ask for that much again */
	int64_t excluded;      /* tasks that they leave out, in all */
	int idle;              /* those whose worker has begun no task yet */
	struct fetch *at;      /* the first that may have room, while candidates are dealt */
	unsigned round;        /* of dealing that has met it last */

	/* demand.c's. */
	struct demand *demand;
	char *key;
	int fetches;           /* that have it */
	bool known;
	int64_t forget_ms;     /* when no Fetch has it */
	struct name **queues, **types; /* sorted by their addresses */
	int queue_count, type_count;   /* 0: all */
	bool by_queue;         /* it is found by its queues, else by its types */
	struct link *links;    /* one for each name that it is found by */
	struct profile *prev, *next;   /* among those that no Fetch has */
	UT_hash_handle hh;
};

/* Whether some known profile accepts a route. */
typedef void demand_wanted(void *arg, int route, bool wanted);

struct demand *demand_create(struct base *base, struct routes *routes, demand_wanted *wanted, void *arg);
void demand_destroy(struct demand *demand);

/* The profile of a Fetch that lists these queues and types; none: all. To be given back. */
struct profile *demand_take(struct demand *demand, char *const *queues, int queue_count, char *const *types,
    int type_count);
void demand_give_back(struct profile *profile);

/* A Fetch waits with this profile: it is known from now on. */
void demand_wait(struct profile *profile);

/* Calls `each` for every route that a known profile accepts. */
void demand_routes(const struct profile *profile, void (*each)(void *arg, int route), void *arg);

/* A route that was not known before. */
void demand_route(struct demand *demand, int route);

/* One that is not known any more: nobody wants it. */
void demand_forget_route(struct demand *demand, int route);

/* Walks the known profiles that accept a route. */
struct demand_walk {
	struct demand *demand;
	const struct name *queue, *type;
	const struct link *at;
	int step;
};
struct profile *demand_first(struct demand_walk *walk, struct demand *demand, int route);
struct profile *demand_next(struct demand_walk *walk);

/* Forgets profiles that no Fetch has had for a while. Returns when the next one will be. */
int64_t demand_forget(struct demand *demand, int64_t now_ms);

/* For tests: how many profiles have been compared with a route so far. */
int64_t demand_compared(const struct demand *demand);

#endif
