/* The numbers of each route are added up in place; readers compare them with what they read before. */
#include "manager/core/traffic.h"

#include <stdlib.h>

enum { MILLISECOND = 1000, SECOND = 1000 * MILLISECOND };

const int64_t traffic_bounds_us[TRAFFIC_BOUNDS] = {
    MILLISECOND,
    2500,
    5 * MILLISECOND,
    10 * MILLISECOND,
    25 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    250 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    2500 * MILLISECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
    5 * INT64_C(60) * SECOND,
    15 * INT64_C(60) * SECOND,
    INT64_C(3600) * SECOND,
    6 * INT64_C(3600) * SECOND,
    24 * INT64_C(3600) * SECOND,
};

void traffic_init(struct traffic *t, int limit)
{
	*t = (struct traffic){.limit = limit};
}

void traffic_destroy(struct traffic *t)
{
	struct traffic_route *next = t->routes;
	HASH_CLEAR(hh, t->routes);
	while (next) {
		struct traffic_route *r = next;
		next = r->hh.next;
		free(r);
	}
}

static struct traffic_numbers *numbers_of(struct traffic *t, int route)
{
	int64_t key = route;
	struct traffic_route *r;
	HASH_FIND(hh, t->routes, &key, sizeof key, r);
	if (r)
		return &r->now;
	if (!route || (int)HASH_COUNT(t->routes) >= t->limit)
		return &t->others.now;
	r = mem_calloc(1, sizeof *r);
	r->route = key;
	HASH_ADD(hh, t->routes, route, sizeof key, r);
	return &r->now;
}

static void observe(struct traffic_times *times, int64_t us)
{
	int from = 0, to = TRAFFIC_BOUNDS;
	us = us < 0 ? 0 : us; /* two clocks */
	while (from < to) {
		int middle = (from + to) / 2;
		if (us <= traffic_bounds_us[middle])
			to = middle;
		else
			from = middle + 1;
	}
	times->count[from]++;
	times->sum_us += us;
}

void traffic_submitted(struct traffic *t, int route)
{
	numbers_of(t, route)->submitted++;
}

void traffic_claimed(struct traffic *t, int route, int64_t waited_us)
{
	struct traffic_numbers *n = numbers_of(t, route);
	n->claimed++;
	if (waited_us >= 0)
		observe(&n->waited, waited_us);
}

static enum traffic_status status_of(const char *name)
{
	return *name == 'd' ? TRAFFIC_DEAD : !strcmp(name, "cancelled") ? TRAFFIC_CANCELLED : TRAFFIC_COMPLETED;
}

void traffic_ended(struct traffic *t, int route, const char *status)
{
	numbers_of(t, route)->ended[status_of(status)]++;
}

void traffic_attempt(struct traffic *t, const struct store_result *result, int64_t took_us)
{
	struct traffic_numbers *n = numbers_of(t, result->route);
	n->attempts[result->outcome]++;
	if (result->outcome != STORE_REQUEUED) /* it never began */
		observe(&n->took, took_us);
	if (result->ended)
		n->ended[status_of(result->becomes)]++;
	else
		n->retries += *result->becomes == 'f';
}

static void add_times(struct traffic_times *to, const struct traffic_times *from, int times)
{
	for (int i = 0; i < TRAFFIC_BUCKETS; i++)
		to->count[i] += times * from->count[i];
	to->sum_us += times * from->sum_us;
}

void traffic_add(struct traffic_numbers *to, const struct traffic_numbers *from, int times)
{
	to->submitted += times * from->submitted;
	to->claimed += times * from->claimed;
	to->retries += times * from->retries;
	for (int i = 0; i < STORE_OUTCOMES; i++)
		to->attempts[i] += times * from->attempts[i];
	for (int i = 0; i < TRAFFIC_STATUSES; i++)
		to->ended[i] += times * from->ended[i];
	add_times(&to->waited, &from->waited, times);
	add_times(&to->took, &from->took, times);
}

void traffic_forget(struct traffic *t, int route)
{
	int64_t key = route;
	struct traffic_route *r;
	HASH_FIND(hh, t->routes, &key, sizeof key, r);
	if (!r)
		return;
	traffic_add(&t->others.now, &r->now, 1);
	traffic_add(&t->others.sent, &r->sent, 1);
	traffic_add(&t->others.added, &r->added, 1);
	HASH_DEL(t->routes, r);
	free(r);
}

int64_t traffic_quantile_ms(const struct traffic_times *times, int percent)
{
	int64_t total = 0, before = 0;
	for (int i = 0; i < TRAFFIC_BUCKETS; i++)
		total += times->count[i];
	double rank = (double)total * percent / 100;
	for (int i = 0; i < TRAFFIC_BOUNDS; i++) {
		double from = i ? (double)traffic_bounds_us[i - 1] : 0, width = (double)traffic_bounds_us[i] - from;
		if (times->count[i] && (double)(before + times->count[i]) >= rank)
			return ((int64_t)(from + width * (rank - (double)before) / (double)times->count[i]) + 999) / 1000;
		before += times->count[i];
	}
	return total ? traffic_bounds_us[TRAFFIC_BOUNDS - 1] / 1000 : 0;
}
