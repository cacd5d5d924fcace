/* What the Fetches accept: profiles, the routes that they make wanted, and how few comparisons that takes. */
#include "manager/core/demand.h"

#include "manager/core/dispatch_internal.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct core *core;
static struct demand *demand;

static void begin(void)
{
	core = fake_core();
	demand = core->dispatch->demand;
}

static struct profile *take(int queue_count, const char *const *queues, int type_count, const char *const *types)
{
	return demand_take(demand, queues, queue_count, types, type_count);
}

static int accepting(int route)
{
	struct demand_walk walk;
	int count = 0;

	for (struct profile *p = demand_first(&walk, demand, route); p; p = demand_next(&walk))
		count++;
	return count;
}

Test(demand, the_same_names_in_whatever_order_are_one_profile)
{
	begin();
	struct profile *a = take(2, (const char *const[]){"x", "y"}, 1, (const char *const[]){"t"});
	struct profile *b = take(3, (const char *const[]){"y", "x", "y"}, 2, (const char *const[]){"t", "t"});
	struct profile *c = take(1, (const char *const[]){"t"}, 2, (const char *const[]){"x", "y"});
	struct profile *d = take(0, NULL, 3, (const char *const[]){"t", "x", "y"});

	cr_expect_eq(a, b);
	cr_expect_neq(a, c, "queues are not types");
	cr_expect_neq(c, d);
	demand_give_back(a);
	demand_give_back(b);
	demand_give_back(c);
	demand_give_back(d);
	fake_end(core);
}

Test(demand, who_accepts_a_route)
{
	int ax = fake_route("a", "x"), ay = fake_route("a", "y"), bx = fake_route("b", "x");
	begin();
	struct profile *profiles[] = {
	    take(1, (const char *const[]){"a"}, 0, NULL),
	    take(0, NULL, 1, (const char *const[]){"x"}),
	    take(1, (const char *const[]){"b"}, 1, (const char *const[]){"x"}),
	    take(1, (const char *const[]){"b"}, 1, (const char *const[]){"y"}),
	    take(2, (const char *const[]){"a", "b"}, 2, (const char *const[]){"y", "z"}),
	    take(0, NULL, 0, NULL),
	};
	static const bool accepts[][3] = {{1, 1, 0}, {1, 0, 1}, {0, 0, 1}, {0, 0, 0}, {0, 1, 0}, {1, 1, 1}};
	const int routes[] = {ax, ay, bx};
	int want[3] = {0};

	for (int k = 0; k < 6; k++) {
		for (int r = 0; r < 3; r++)
			cr_expect_eq(accepting(routes[r]), want[r], "%d before %d", r, k);
		demand_wait(profiles[k]); /* known from here on */
		for (int r = 0; r < 3; r++)
			want[r] += accepts[k][r];
	}
	for (int r = 0; r < 3; r++)
		cr_expect_eq(accepting(routes[r]), want[r]);
	cr_expect_eq(accepting(0), 0);
	cr_expect_eq(accepting(1000), 0);
	for (int k = 0; k < 6; k++)
		demand_give_back(profiles[k]);
	fake_pass(core, 6000);
	for (int r = 0; r < 3; r++)
		cr_expect_eq(accepting(routes[r]), 0, "they have been forgotten");
	fake_end(core);
}

/* Returns true if the ready cache lists the route's stream, which may have tasks. */
static bool listed(int route)
{
	for (struct stream *s = ready_first(core->cache); s; s = ready_next(s))
		if (stream_route(s) == route)
			return true;
	return false;
}

Test(demand, streams_of_routes_without_fetches_are_not_listed)
{
	int ax = fake_route("a", "x"), bx = fake_route("b", "x");
	begin();
	ready_rewind(core->cache, ax, 0, STORE_TIME_BEGIN);
	ready_rewind(core->cache, bx, 0, STORE_TIME_BEGIN);
	cr_expect(!listed(ax) && !listed(bx));
	struct profile *a = take(1, (const char *const[]){"a"}, 0, NULL);
	cr_expect(!listed(ax), "nobody waits with it");
	demand_wait(a);
	ready_discovered(core->cache);
	fake_stream(ax, 0);
	cr_expect(listed(ax) && !listed(bx));

	/* For a worker that returns within seconds, everything is as before. */
	demand_give_back(a);
	fake_pass(core, 3000);
	cr_expect(listed(ax));
	cr_expect_eq(take(1, (const char *const[]){"a"}, 0, NULL), a);
	fake_pass(core, 8000);
	cr_expect(listed(ax));
	demand_give_back(a);
	fake_pass(core, 6000);
	cr_expect(!listed(ax));
	fake_end(core);
}

Test(demand, a_route_that_is_new_is_compared_with_those_who_wait)
{
	begin();
	struct profile *all = take(0, NULL, 0, NULL),
	               *b = take(1, (const char *const[]){"b"}, 1, (const char *const[]){"x"});
	demand_wait(b);
	int ax = fake_route("a", "x"), bx = fake_route("b", "x");
	fake_pass(core, 2000); /* the heartbeat reports them */
	cr_expect_eq(accepting(ax), 0);
	cr_expect_eq(accepting(bx), 1);
	demand_wait(all);
	cr_expect_eq(accepting(ax), 1);
	cr_expect_eq(accepting(bx), 2);
	demand_give_back(all);
	demand_give_back(b);
	fake_end(core);
}

Test(demand, profiles_without_a_fetch_are_bounded)
{
	char name[16];
	const char *names[] = {name};
	int route = fake_route("a", "t0"), kept = fake_route("a", "t9999");

	begin();
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof name, "t%d", i);
		struct profile *p = take(0, NULL, 1, names);
		demand_wait(p);
		demand_give_back(p);
	}
	cr_expect_eq(accepting(route), 0, "the oldest has gone before its time");
	cr_expect_eq(accepting(kept), 1);
	fake_end(core);
}

/* Thousands of Fetches, and streams that none of them accepts: nothing is compared. */
Test(demand, idle_fetches_cost_nothing)
{
	enum { FETCHES = 2000, ROUTES = 30 };
	static struct fake_fetch fetches[FETCHES];
	const char *const mine[] = {"mine"};
	char names[ROUTES][16];

	for (int i = 0; i < ROUTES; i++) {
		snprintf(names[i], sizeof names[i], "other%d", i);
		fake_route("q", names[i]);
	}
	int wanted = fake_route("q", "mine");
	begin();
	for (int i = 1; i <= wanted; i++)
		ready_rewind(core->cache, i, 0, STORE_TIME_BEGIN);
	for (int i = 0; i < FETCHES; i++)
		fake_fetch(core, &fetches[i],
		    (struct fetch_request){.incarnation = i + 1, .fetch_id = 1, .slots = 1, .type_count = 1, .types = mine});
	while (fake_count(FAKE_STREAMS))
		fake_streams(0, NULL);
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	int64_t before = demand_compared(demand);
	for (int i = 0; i < 100; i++) {
		ready_note(core->cache, 1 + i % ROUTES, 0, 1000 + i, fake_db_us(), fake_db_us(), 10);
		dispatch_run(core->dispatch);
	}
	cr_expect_eq(demand_compared(demand), before);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);

	/* One task that they accept: a few comparisons with one profile. */
	ready_note(core->cache, wanted, 0, 5, fake_db_us(), fake_db_us(), 10);
	dispatch_run(core->dispatch);
	cr_expect_leq(demand_compared(demand) - before, 5);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetches[0].count, 1, "the first that came");
	cr_expect_leq(demand_compared(demand) - before, 5);
	fake_end(core);
}

/* 300 Fetches, each with its own list of 300 types, and a task of each of 30,000 types: each type is compared with the
 * three Fetches that name it, never with all. */
Test(demand, fetches_of_many_different_names_are_not_compared_with_every_route)
{
	enum { FETCHES = 300, NAMES = 300, ROUTES = 30000, EACH = FETCHES * NAMES / ROUTES };
	static struct fake_fetch fetches[FETCHES];
	static struct store_stream streams[ROUTES];
	static char names[ROUTES][16];
	const char *mine[NAMES];

	for (int i = 0; i < ROUTES; i++) {
		snprintf(names[i], sizeof names[i], "type%d", i);
		fake_route("q", names[i]);
	}
	core = fake_core_with(
	    &(struct core_options){.ready_limit = 2 * ROUTES, .claim_limit = ROUTES, .max_answer_bytes = 8 << 20});
	demand = core->dispatch->demand;
	fake.dispatch_later = true;
	for (int i = 0; i < FETCHES; i++) {
		for (int k = 0; k < NAMES; k++) /* successive Fetches share types; no two have the same list */
			mine[k] = names[(i * (NAMES / EACH) + k) % ROUTES];
		fake_fetch(core, &fetches[i],
		    (struct fetch_request){
		        .incarnation = i + 1, .fetch_id = 1, .slots = NAMES, .type_count = NAMES, .types = mine});
	}
	int64_t before = demand_compared(demand);
	dispatch_run(core->dispatch);
	for (struct store_streams *look; (look = fake_take(FAKE_STREAMS));) { /* one stream of each requested route */
		for (int i = 0; i < look->count; i++)
			streams[i] = (struct store_stream){look->routes[i], 0, STORE_TIME_BEGIN};
		look->streams = streams;
		look->found = look->count;
		fake_ok(look);
	}
	while (ready_discovered(core->cache) && fake_count(FAKE_PAGE)) /* a few are read at a time */
		for (struct store_page *page; (page = fake_take(FAKE_PAGE));) {
			page->more_follow = true;
			fake_page_of(page, 1000 + page->route, 1, fake_db_us());
		}
	cr_assert_eq(ready_size(core->cache), ROUTES);
	cr_expect_leq(demand_compared(demand) - before, 4 * EACH * ROUTES, "reading: %lld",
	    (long long)(demand_compared(demand) - before));
	before = demand_compared(demand);
	dispatch_run(core->dispatch);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, ROUTES);
	cr_expect_leq(demand_compared(demand) - before, 4 * EACH * ROUTES, "matching: %lld",
	    (long long)(demand_compared(demand) - before));
	fake_fail(claim, STATUS(UNAVAILABLE));
	fake_end(core);
}

/* Fetches of different profiles are served in order of arrival. */
Test(demand, the_first_that_came_is_first_whatever_else_it_accepts)
{
	const char *const types[] = {"t", "a", "b"};
	struct fake_fetch fetches[6];
	int route = fake_route("q", "t");

	begin();
	for (int i = 0; i < 6; i++) {
		struct fetch_request request = {.incarnation = i + 1, .fetch_id = 1, .slots = 1, .types = types};
		request.type_count = i % 3 + 1;
		fake_fetch(core, &fetches[i], request);
	}
	fake_stream(route, 0);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	for (int i = 0; i < 6; i++) {
		ready_note(core->cache, route, 0, 10 + i, fake_db_us(), fake_db_us(), 10);
		dispatch_run(core->dispatch);
		fake_claim(fake_claim_taken(), 0);
		cr_expect_eq(fetches[i].count, 1, "the %d-th", i);
	}
	fake_end(core);
}

/* Tasks are divided among the Fetches that accept them, however many others wait. */
Test(demand, a_share_is_among_those_who_accept_the_task)
{
	const char *const mine[] = {"mine"}, *const other[] = {"other"};
	static struct fake_fetch others[50];
	struct fake_fetch two[2];
	int route = fake_route("q", "mine");

	begin();
	for (int i = 0; i < 50; i++)
		fake_fetch(core, &others[i],
		    (struct fetch_request){.incarnation = i + 10, .fetch_id = 1, .type_count = 1, .types = other});
	for (int i = 0; i < 2; i++)
		fake_fetch(
		    core, &two[i], (struct fetch_request){.incarnation = i + 1, .fetch_id = 1, .type_count = 1, .types = mine});
	fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 1, 8, fake_db_us());
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(two[0].count, 4);
	cr_expect_eq(two[1].count, 4);
	fake_end(core);
}

/* No profile accepts the route any more, neither an earlier nor a later one. When it is added again, all is as
 * before. */
Test(demand, a_forgotten_route_has_no_profile)
{
	int ax = fake_route("a", "x"), ay = fake_route("a", "y"), bx = fake_route("b", "x");
	begin();
	struct profile *queue = take(1, (const char *const[]){"a"}, 0, NULL),
	               *type = take(0, NULL, 1, (const char *const[]){"x"}), *all = take(0, NULL, 0, NULL);

	demand_wait(queue);
	demand_wait(all);
	cr_expect_eq(accepting(ax), 2);
	demand_forget_route(demand, ax);
	cr_expect_eq(accepting(ax), 0);
	cr_expect_eq(accepting(ay), 2);
	demand_wait(type);
	cr_expect_eq(accepting(bx), 2);
	demand_give_back(queue);
	demand_give_back(all);
	fake_pass(core, 10000); /* the profiles are forgotten, and no longer want routes */
	cr_expect_eq(accepting(ay), 0);
	demand_route(demand, ax);
	cr_expect_eq(accepting(ax), 1);
	demand_give_back(type);
	fake_end(core);
}
