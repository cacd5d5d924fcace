/* Counts by queue and type: the buckets of the histograms, and which routes have numbers of their own. */
#include "manager/core/traffic.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>

static struct traffic traffic;

static const struct traffic_numbers *of(int64_t route)
{
	struct traffic_route *found;

	HASH_FIND(hh, traffic.routes, &route, sizeof route, found);
	return found ? &found->now : NULL;
}

static void end(int route, enum store_outcome outcome, const char *becomes, bool ended, int64_t us)
{
	const struct store_result result = {.route = route, .outcome = outcome, .becomes = becomes, .ended = ended};

	traffic_attempt(&traffic, &result, us);
}

Test(traffic, bounds_are_inclusive)
{
	traffic_init(&traffic, 1);
	for (int i = 0; i < TRAFFIC_BOUNDS; i++) {
		cr_assert(i == 0 || traffic_bounds_us[i] > traffic_bounds_us[i - 1]);
		traffic_claimed(&traffic, 1, traffic_bounds_us[i]);
		traffic_claimed(&traffic, 1, traffic_bounds_us[i] + 1);
	}
	cr_assert(eq(i64, of(1)->waited.count[0], 1));
	for (int i = 1; i < TRAFFIC_BOUNDS; i++)
		cr_assert(eq(i64, of(1)->waited.count[i], 2));
	cr_assert(eq(i64, of(1)->waited.count[TRAFFIC_BOUNDS], 1));
	cr_assert(eq(i64, of(1)->claimed, 2 * TRAFFIC_BOUNDS));
	traffic_claimed(&traffic, 1, -1); /* unknown */
	cr_assert(eq(i64, of(1)->claimed, 2 * TRAFFIC_BOUNDS + 1));
	cr_assert(eq(i64, of(1)->waited.count[0], 1));
	traffic_destroy(&traffic);
}

Test(traffic, attempts_and_tasks_are_counted_by_their_end)
{
	traffic_init(&traffic, 1);
	end(1, STORE_COMPLETED, "completed", true, 500);
	end(1, STORE_COMPLETED, "queued", false, 500); /* the next stage of a pipeline */
	end(1, STORE_FAILED, "failed", false, -5);     /* the clocks differ */
	end(1, STORE_FAILED, "dead", true, 3000);
	end(1, STORE_CANCELLED, "cancelled", true, 0);
	end(1, STORE_REQUEUED, "queued", false, 99);
	traffic_ended(&traffic, 1, "cancelled");
	cr_assert(eq(i64, of(1)->attempts[STORE_COMPLETED], 2));
	cr_assert(eq(i64, of(1)->attempts[STORE_FAILED], 2));
	cr_assert(eq(i64, of(1)->attempts[STORE_REQUEUED], 1));
	cr_assert(eq(i64, of(1)->retries, 1));
	cr_assert(eq(i64, of(1)->ended[TRAFFIC_COMPLETED], 1));
	cr_assert(eq(i64, of(1)->ended[TRAFFIC_DEAD], 1));
	cr_assert(eq(i64, of(1)->ended[TRAFFIC_CANCELLED], 2));
	cr_assert(eq(i64, of(1)->took.count[0], 4));
	cr_assert(eq(i64, of(1)->took.count[2], 1));
	cr_assert(eq(i64, of(1)->took.sum_us, 4000));
	traffic_destroy(&traffic);
}

Test(traffic, routes_beyond_the_limit_are_counted_together)
{
	traffic_init(&traffic, 2);
	for (int route = 1; route <= 4; route++)
		for (int i = 0; i < route; i++)
			traffic_submitted(&traffic, route);
	cr_assert(eq(i64, of(2)->submitted, 2));
	cr_assert(eq(ptr, (void *)of(3), NULL));
	cr_assert(eq(i64, traffic.others.now.submitted, 3 + 4));
	traffic_forget(&traffic, 3);
	traffic_forget(&traffic, 1); /* a route that is gone leaves its place; nothing that was counted is lost */
	cr_assert(eq(i64, traffic.others.now.submitted, 3 + 4 + 1));
	traffic_submitted(&traffic, 5);
	cr_assert(eq(i64, of(5)->submitted, 1));
	traffic_submitted(&traffic, 0); /* a route that is not known */
	cr_assert(eq(i64, traffic.others.now.submitted, 3 + 4 + 1 + 1));
	traffic_destroy(&traffic);
}
