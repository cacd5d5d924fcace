/* Routes: how many there may be. */
#include "manager/core/routes.h"

#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct core *core;

struct told {
	int calls;
	reeve_status code;
	char message[400];
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
	routes_ensure(core->routes, count, queues, types, fake.now_ms + 5000, on_ensured, t);
	fake_turn(core);
	return *t;
}

Test(routes, new_ones_are_refused_over_the_limit)
{
	static const char *const three[] = {"a", "b", "c"}, *const same[] = {"d", "d", "a", "d"}, *const more[] = {"e", "f"};

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
	cr_expect_eq(core->counters.refused, 2);
	fake_end(core);
}

Test(routes, calls_under_way_count)
{
	static const char *const queues[] = {"q", "q", "q"}, *const types[] = {"a", "b", "c"};
	struct told first = {0}, second = {0};

	core = fake_core_with(&(struct core_options){.max_routes = 3});
	routes_ensure(core->routes, 2, queues, types, fake.now_ms + 5000, on_ensured, &first);
	routes_ensure(core->routes, 2, queues, types + 1, fake.now_ms + 5000, on_ensured, &second);
	cr_expect_eq(second.code, STATUS(FAILED_PRECONDITION));
	fake_turn(core);
	cr_expect_eq(first.calls, 1);
	cr_expect_eq(first.code, STATUS(OK));
	fake_end(core);
}

Test(routes, whoever_wants_them_fresh_waits_for_a_load_that_began_later)
{
	struct told told = {0};

	core = fake_core();
	int a = fake_route("q", "a");
	routes_fresh(core->routes, on_ensured, &told);
	cr_expect_eq(told.calls, 0);
	fake_turn(core);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.code, STATUS(OK));
	cr_expect_eq(routes_find(core->routes, "q", "a"), a);
	fake_end(core);
}
