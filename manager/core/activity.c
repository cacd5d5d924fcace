/* Numbers whose addition failed are added the next time. If it is not known whether they were added, they are not. */
#include "manager/core/activity.h"

#include <stdlib.h>
#include <string.h>

struct activity {
	struct base *base;
	struct store_activity op;
	struct traffic_numbers *numbers; /* of the rows */
	activity_done *done;             /* or NULL: no addition is the last one */
	void *done_arg;
	bool last; /* the addition that runs began after activity_finish */
};

static bool is_empty(const struct traffic_numbers *n)
{
	static const struct traffic_numbers none;
	return !memcmp(n, &none, sizeof none);
}

static void forget(struct activity *a)
{
	free(a->op.rows);
	free(a->numbers);
	a->op.rows = NULL;
	a->numbers = NULL;
}

static void finish(struct activity *a)
{
	activity_done *done = a->done;
	a->done = NULL;
	if (done)
		done(a->done_arg);
}

static void on_added(struct store_op *op, const struct reeve_error *error)
{
	struct activity *a = (struct activity *)((char *)op - offsetof(struct activity, op));
	struct traffic *traffic = &a->base->traffic;
	struct traffic_route *r, *tmp;
	forget(a);
	if (!error || error->code == STATUS(UNKNOWN)) {
		HASH_ITER (hh, traffic->routes, r, tmp)
			r->added = r->sent;
		traffic->others.added = traffic->others.sent;
	}
	jobs_done(a->base->jobs, JOB_ACTIVITY, error, false);
	if (a->last)
		finish(a);
}

/* Adds a row with what has been counted since the last addition. */
static void add_row(struct activity *a, struct traffic_route *r)
{
	struct traffic_numbers *n = &a->numbers[a->op.count];
	*n = r->sent = r->now;
	traffic_add(n, &r->added, -1);
	if (is_empty(n))
		return;
	a->op.rows[a->op.count++] = (struct store_activity_row){
	    .route = (int)r->route,
	    .submitted = n->submitted,
	    .begun = n->claimed,
	    .completed = n->attempts[STORE_COMPLETED],
	    .failed = n->attempts[STORE_FAILED] + n->attempts[STORE_FATAL] + n->attempts[STORE_LEASE_ENDED] +
	        n->attempts[STORE_EXPIRED] + n->attempts[STORE_LOST],
	    .retried = n->retries,
	    .dead = n->ended[TRAFFIC_DEAD],
	    .ended = n->ended[TRAFFIC_COMPLETED] + n->ended[TRAFFIC_DEAD] + n->ended[TRAFFIC_CANCELLED],
	    .waited = n->waited.count,
	    .took = n->took.count,
	    .waited_us = n->waited.sum_us,
	    .took_us = n->took.sum_us,
	};
}

static bool add(void *arg)
{
	struct activity *a = arg;
	struct traffic *traffic = &a->base->traffic;
	struct traffic_route *r, *tmp;
	size_t count = HASH_COUNT(traffic->routes) + 1;
	a->op = (struct store_activity){
	    .op.done = on_added, .buckets = TRAFFIC_BUCKETS, .rows = mem_calloc(count, sizeof *a->op.rows)};
	a->numbers = mem_calloc(count, sizeof *a->numbers);
	a->last = a->done;
	HASH_ITER (hh, traffic->routes, r, tmp)
		add_row(a, r);
	add_row(a, &traffic->others);
	if (a->op.count) {
		store_activity(a->base->store, &a->op);
		return true;
	}
	forget(a);
	finish(a);
	return false;
}

void activity_finish(struct activity *a, activity_done *done, void *arg)
{
	a->done = done;
	a->done_arg = arg;
	jobs_at(a->base->jobs, JOB_ACTIVITY, 0);
}

struct activity *activity_create(struct base *base)
{
	struct activity *a = mem_calloc(1, sizeof *a);
	a->base = base;
	jobs_bind(base->jobs, JOB_ACTIVITY, add, a);
	return a;
}

void activity_destroy(struct activity *a)
{
	free(a);
}
