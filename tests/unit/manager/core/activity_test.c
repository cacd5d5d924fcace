/* What a manager adds to the history of its activity: everything once, unless it is not known whether it was added. */
#include "manager/core/activity.h"

#include "tests/unit/compare.h"
#include "tests/unit/manager/core/fake_store.h"

#include <criterion/criterion.h>

static struct core *core;
static int route;

static void begin(void)
{
	route = fake_route("q", "t");
	core = fake_core_with(&(struct core_options){.traffic_routes = 1});
	fake.adding = true;
	fake_pass(core, 5000);
	cr_assert(not(fake_count(FAKE_ACTIVITY)), "there is nothing to add");
}

static void count(int of_route, int times)
{
	while (times--)
		traffic_submitted(&core->base.traffic, of_route);
}

static struct store_activity *next(void)
{
	fake_pass(core, 5000);
	cr_assert(eq(int, fake_count(FAKE_ACTIVITY), 1));
	return fake_take(FAKE_ACTIVITY);
}

static void expect(const struct store_activity *op, int of_route, int submitted)
{
	for (int i = 0; i < op->count; i++)
		if (op->rows[i].route == of_route) {
			cr_expect(eq(i64, op->rows[i].submitted, submitted));
			return;
		}
	cr_expect(not(submitted), "there is no row");
}

Test(activity, what_was_counted_is_added_once)
{
	begin();
	count(route, 3);
	count(route + 1, 2);
	struct store_activity *op = next();
	expect(op, route, 3);
	expect(op, 0, 2);
	count(route, 4); /* while it is in flight */
	fake_ok(op);
	op = next();
	cr_expect(eq(int, op->count, 1));
	expect(op, route, 4);
	fake_ok(op);
	fake_pass(core, 10000);
	cr_expect(not(fake_count(FAKE_ACTIVITY)));
	fake_end(core);
}

Test(activity, what_failed_is_added_later_and_what_is_unknown_is_not)
{
	begin();
	count(route, 3);
	fake_fail(next(), STATUS(UNAVAILABLE));
	count(route, 1);
	struct store_activity *op = next();
	expect(op, route, 4);
	count(route, 2);
	fake_fail(op, STATUS(UNKNOWN));
	op = next();
	expect(op, route, 2);
	fake_ok(op);
	fake_end(core);
}

Test(activity, a_route_that_is_forgotten_is_added_with_the_others)
{
	begin();
	count(route, 3);
	fake_ok(next());
	count(route, 5);
	struct store_activity *op = next();
	expect(op, route, 5);
	count(route, 1);
	traffic_forget(&core->base.traffic, route);
	fake_ok(op);
	op = next();
	expect(op, 0, 1);
	fake_ok(op);
	count(route, 2);
	traffic_forget(&core->base.traffic, route);
	op = next();
	expect(op, 0, 2);
	fake_ok(op);
	fake_end(core);
}

static void on_finished(void *arg)
{
	(*(int *)arg)++;
}

Test(activity, a_stop_adds_what_was_counted)
{
	int finished = 0;
	begin();
	count(route, 3);
	struct store_activity *op = next();
	count(route, 4); /* while it is in flight */
	activity_finish(core->activity, on_finished, &finished);
	fake_ok(op);
	cr_expect(not(finished), "there is more");
	fake_pass(core, 0);
	cr_assert(eq(int, fake_count(FAKE_ACTIVITY), 1));
	op = fake_take(FAKE_ACTIVITY);
	expect(op, route, 4);
	fake_ok(op);
	cr_expect(eq(int, finished, 1));
	activity_finish(core->activity, on_finished, &finished); /* there is nothing to add */
	fake_pass(core, 0);
	cr_expect(eq(int, finished, 2));
	count(route, 1);
	activity_finish(core->activity, on_finished, &finished);
	fake_pass(core, 0);
	fake_fail(fake_take(FAKE_ACTIVITY), STATUS(UNAVAILABLE));
	cr_expect(eq(int, finished, 3));
	fake_pass(core, 60000);
	fake_ok(fake_take(FAKE_ACTIVITY));
	cr_expect(eq(int, finished, 3), "once");
	fake_end(core);
}

Test(activity, quantiles_are_estimated_within_their_bucket)
{
	struct traffic_times times = {0};

	cr_expect(eq(i64, traffic_quantile_ms(&times, 50), 0));
	times.count[TRAFFIC_BUCKETS - 1] = 1;
	cr_expect(eq(i64, traffic_quantile_ms(&times, 50), 86400000));
	times.count[TRAFFIC_BUCKETS - 1] = 0;
	times.count[9] = 100; /* from 500 to 1000 ms */
	cr_expect(eq(i64, traffic_quantile_ms(&times, 50), 750));
	cr_expect(eq(i64, traffic_quantile_ms(&times, 95), 975));
	times.count[0] = 300;
	cr_expect(eq(i64, traffic_quantile_ms(&times, 50), 1));
}
