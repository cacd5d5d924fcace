/* Routes: their maximum number, and what happens to unused ones. */
#include "manager/core/routes.h"

#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct core *core;

struct told {
	int calls;
	reeve_status code;
	char message[512];
};

static void on_ensured(void *arg, const struct reeve_error *error)
{
	struct told *told = arg;

	told->calls++;
	told->code = error ? error->code : STATUS(OK);
	snprintf(told->message, sizeof told->message, "%s", error ? error->message : "");
}

static struct told ensure(int count, const char *const *types)
{
	const char *queues[16];
	static struct told told[8];
	static int next;
	struct told *t = &told[next++ % 8];

	for (int i = 0; i < count; i++)
		queues[i] = "q";
	*t = (struct told){0};
	routes_ensure(core->routes, count, queues, types, fake.now_ms + 5000, 0, on_ensured, t);
	fake_turn(core);
	return *t;
}

Test(routes, new_ones_are_refused_over_the_limit)
{
	static const char *const three[] = {"a", "b", "c"}, *const same[] = {"d", "d", "a", "d"},
	                         *const more[] = {"e", "f"};

	core = fake_core_with(&(struct core_options){.max_routes = 5});
	cr_expect_eq(ensure(3, three).code, STATUS(OK));
	cr_expect_eq(ensure(4, same).code, STATUS(OK), "one new one, named three times");
	struct told refused = ensure(2, more);
	cr_expect_eq(refused.calls, 1);
	cr_expect_eq(refused.code, STATUS(FAILED_PRECONDITION));
	cr_expect_not_null(strstr(refused.message, "--max-routes"), "%s", refused.message);
	cr_expect_eq(routes_find(core->routes, "q", "e"), 0);
	cr_expect_eq(ensure(1, more).code, STATUS(OK));
	cr_expect_eq(ensure(3, three).code, STATUS(OK), "known ones are not new");
	cr_expect_eq(ensure(1, more + 1).code, STATUS(FAILED_PRECONDITION));
	cr_expect_eq(core->base.counters.refused, 2);
	fake_end(core);
}

Test(routes, calls_under_way_count)
{
	static const char *const queues[] = {"q", "q", "q"}, *const types[] = {"a", "b", "c"};
	struct told first = {0}, second = {0};

	core = fake_core_with(&(struct core_options){.max_routes = 3});
	routes_ensure(core->routes, 2, queues, types, fake.now_ms + 5000, 0, on_ensured, &first);
	routes_ensure(core->routes, 2, queues, types + 1, fake.now_ms + 5000, 0, on_ensured, &second);
	cr_expect_eq(second.code, STATUS(FAILED_PRECONDITION));
	fake_turn(core);
	cr_expect_eq(first.calls, 1);
	cr_expect_eq(first.code, STATUS(OK));
	fake_end(core);
}

/* A caller that creates many routes delays only itself: registrations use the same connection to the database. */
Test(routes, created_cursors_belong_to_their_callers)
{
	static const char *const queues[] = {"q"}, *const types[] = {"a"};
	struct told told = {0};

	core = fake_core();
	routes_ensure(core->routes, 1, queues, types, fake.now_ms + 5000, 77, on_ensured, &told);
	struct store_routes *op = fake_take(FAKE_ROUTES);
	cr_assert_not_null(op);
	cr_expect_eq(op->op.origin, 77);
	fake_fail(op, STATUS(UNAVAILABLE));
	cr_expect_eq(told.code, STATUS(UNAVAILABLE));
	fake_end(core);
}

Test(routes, those_that_nothing_uses_are_forgotten_and_come_back)
{
	int a = fake_route("q", "a"), b = fake_route("q", "b"), other = fake_route("other", "a");

	core = fake_core();
	cr_expect_eq(routes_find(core->routes, "q", "a"), a);
	fake_route_retired(a, true);
	fake_route_retired(other, true);
	fake_pass(core, 2000); /* the heartbeat reports it */
	cr_expect_eq(routes_find(core->routes, "q", "a"), 0);
	cr_expect_eq(routes_find(core->routes, "q", "b"), b);
	cr_expect(routes_have_queue(core->routes, "q"));
	cr_expect(routes_have_type(core->routes, "b"));
	cr_expect_not(routes_have_queue(core->routes, "other"));
	cr_expect_not(routes_have_type(core->routes, "a"));
	cr_expect(routes_known(core->routes, b));
	cr_expect_not(routes_known(core->routes, a));
	cr_assert_not_null(routes_get(core->routes, a), "what is under way may ask");
	cr_expect_str_eq(routes_get(core->routes, a)->type, "a");
	fake_route_retired(a, false);
	fake_pass(core, 2000);
	cr_expect_eq(routes_find(core->routes, "q", "a"), a);
	cr_expect(routes_have_type(core->routes, "a"));
	fake_pass(core, 11 * 60 * 1000);
	cr_expect_null(routes_get(core->routes, other));
	cr_expect_not_null(routes_get(core->routes, a));
	fake_route_retired(other, false);
	fake_pass(core, 2000);
	cr_expect_eq(routes_find(core->routes, "other", "a"), other);
	fake_end(core);
}

/* The process was stopped for a long time, and only now reads an answer that arrived before. */
Test(routes, a_frozen_manager_has_not_forgotten_what_it_is_asked_about)
{
	int a = fake_route("q", "a");

	core = fake_core();
	fake_route_retired(a, true);
	fake_pass(core, 2000);
	cr_expect_not(routes_known(core->routes, a));
	fake.now_ms += 60 * 60 * 1000;
	fake_turn(core);
	cr_expect_not_null(routes_get(core->routes, a));
	fake_end(core);
}

/* Its streams are discovered again, because they were not read in between. */
Test(routes, one_that_returns_is_checked)
{
	struct fake_fetch fetch;
	int a = fake_route("q", "a");

	core = fake_core();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(a, 0);
	fake_route_retired(a, true);
	fake_pass(core, 2000);
	while (fake_count(FAKE_STREAMS))
		fake_streams(0, NULL);
	fake_route_retired(a, false);
	fake_pass(core, 2000);
	cr_assert_eq(fake_count(FAKE_STREAMS), 1);
	fake_stream(a, 0);
	fake_end(core);
}

/* As many as before, and with the same sum of their numbers. */
Test(routes, others_in_place_of_some_are_noticed)
{
	static const char *const types[] = {"a", "b", "c", "d"};

	for (int i = 0; i < 4; i++)
		fake_route("q", types[i]);
	fake_route_retired(2, true);
	fake_route_retired(3, true);
	core = fake_core();
	for (int i = 1; i <= 4; i++)
		fake_route_retired(i, i == 1 || i == 4);
	fake_pass(core, 2000);
	for (int i = 1; i <= 4; i++)
		cr_expect_eq(routes_find(core->routes, "q", types[i - 1]), i == 1 || i == 4 ? 0 : i);
	fake_end(core);
}

Test(routes, forgotten_ones_make_capacity)
{
	static const char *const two[] = {"a", "b"}, *const third[] = {"c"};

	core = fake_core_with(&(struct core_options){.max_routes = 2});
	cr_expect_eq(ensure(2, two).code, STATUS(OK));
	cr_expect_eq(ensure(1, third).code, STATUS(FAILED_PRECONDITION));
	fake_route_retired(1, true);
	fake_pass(core, 2000);
	cr_expect_eq(ensure(1, third).code, STATUS(OK));
	fake_end(core);
}
