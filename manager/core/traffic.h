/*
 * What this manager has done since its start, by queue and type: counts, and how long tasks waited and attempts took,
 * as histograms. Only a limited number of routes have numbers of their own; the first ones that are used get them, and
 * those that are forgotten lose them. Everything else is counted together, as route 0.
 *
 * Counting costs a look-up in a table for each task.
 */
#ifndef REEVE_MANAGER_CORE_TRAFFIC_H
#define REEVE_MANAGER_CORE_TRAFFIC_H

#include "common/hash.h"
#include "manager/store/ops_attempts.h"

enum { TRAFFIC_BOUNDS = 20, TRAFFIC_BUCKETS = TRAFFIC_BOUNDS + 1 };

/* The upper bounds of the buckets, inclusive; the last bucket has none. */
extern const int64_t traffic_bounds_us[TRAFFIC_BOUNDS];

struct traffic_times {
	int64_t count[TRAFFIC_BUCKETS];
	int64_t sum_us;
};

enum traffic_status { TRAFFIC_COMPLETED, TRAFFIC_DEAD, TRAFFIC_CANCELLED, TRAFFIC_STATUSES };

struct traffic_numbers {
	int64_t submitted;
	int64_t claimed;                  /* attempts that began */
	int64_t attempts[STORE_OUTCOMES]; /* that ended, by outcome */
	int64_t retries;                  /* failed attempts after which the task waits for another one */
	int64_t ended[TRAFFIC_STATUSES];  /* tasks */
	struct traffic_times waited;      /* from when a task was due to its claim */
	struct traffic_times took;        /* attempts, from claim to end */
};

struct traffic_route {
	int64_t route; /* 0: all others */
	struct traffic_numbers now;
	struct traffic_numbers sent, added; /* to the history (activity.h): with the last try, and for certain */
	UT_hash_handle hh;
};

struct traffic {
	struct traffic_route *routes;
	struct traffic_route others;
	int limit; /* how many routes have their own numbers */
};

void traffic_init(struct traffic *traffic, int limit);
void traffic_destroy(struct traffic *traffic);

void traffic_submitted(struct traffic *traffic, int route);

/* `waited_us`: negative: unknown. */
void traffic_claimed(struct traffic *traffic, int route, int64_t waited_us);

/* Counts a task that has ended without an attempt: "dead" or "cancelled". */
void traffic_ended(struct traffic *traffic, int route, const char *status);

/* Counts an attempt whose end has been accepted. */
void traffic_attempt(struct traffic *traffic, const struct store_result *result, int64_t took_us);

/* Adds numbers `times` times: 1, or -1 to subtract them. */
void traffic_add(struct traffic_numbers *to, const struct traffic_numbers *from, int times);

/* Adds the numbers of a route to the others: it is not known any more. */
void traffic_forget(struct traffic *traffic, int route);

/* Returns the time that `percent` of the observations do not exceed, estimated within its bucket, in milliseconds,
 * rounded up; 0 without observations, and the last bound for those beyond it. */
int64_t traffic_quantile_ms(const struct traffic_times *times, int percent);

#endif
