/* The limit of streams, with a database in which a route has thousands of priorities, each with one task. */
#include "manager/core/ready.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRIORITIES = 10000, LIMIT = 1024 };

static struct core *core;
static int route, other;
static int64_t due_us;   /* of the tasks of `route` */
static int64_t later_us; /* of those of priorities from `later_from` up */
static int later_from = PRIORITIES;
static int64_t spread_us;      /* each priority's task is due so much later than that of the priority below it */
static bool waits[PRIORITIES]; /* by priority: its task, whose id is greater by one */
static int queries;            /* of discovery */
static struct fake_fetch fetch;

static int64_t due_of(int priority)
{
	return (priority >= later_from ? later_us : due_us) + priority * spread_us;
}

/* Answers with the highest priorities of `route`, and priority 0 of `other`. */
static void answer_streams(struct store_streams *look)
{
	struct store_stream *found = calloc((size_t)look->count * (size_t)look->max, sizeof *found);

	queries++;
	look->found = 0;
	for (int i = 0; i < look->count; i++) {
		int begin = look->found;
		if (look->routes[i] == other && look->below[i] > 0)
			found[look->found++] = (struct store_stream){other, 0, STORE_TIME_BEGIN};
		for (int p = look->below[i] < PRIORITIES ? look->below[i] - 1 : PRIORITIES - 1;
		     look->routes[i] == route && p >= 0 && look->found - begin < look->max; p--)
			if (waits[p])
				found[look->found++] = (struct store_stream){route, p, due_of(p)};
	}
	look->streams = found;
	fake_ok(look);
	free(found);
}

static void answer_page(struct store_page *page)
{
	int64_t at_us = due_of(page->priority);
	struct store_candidate task = {page->priority + 1, at_us, at_us, 10};
	bool is = page->route == route && waits[page->priority];

	page->more_follow = fake_count(FAKE_PAGE) > 0;
	if (page->route == other)
		fake_page_of(page, PRIORITIES + 1, 1, fake_db_us() - 1000);
	else if (is && at_us > page->due_us)
		fake_page(page, 0, NULL, at_us);
	else
		fake_page(page,
		    is && (at_us > page->after_run_at_us || (at_us == page->after_run_at_us && task.id > page->after_id)),
		    &task, 0);
}

/* Answers all reads. */
static void serve(void)
{
	void *op;

	while (fake_count(FAKE_STREAMS) || fake_count(FAKE_PAGE)) {
		while ((op = fake_take(FAKE_STREAMS)))
			answer_streams(op);
		while ((op = fake_take(FAKE_PAGE)))
			answer_page(op);
	}
}

static void begin_with(const struct core_options *options)
{
	route = fake_route("q", "t");
	other = fake_route("q", "u");
	core = fake_core_with(options);
	due_us = fake_db_us() - 1000000;
}

static void begin(void)
{
	begin_with(&(struct core_options){0});
}

static void fetch_again(int slots, int exclude_count, const int64_t *exclude)
{
	static int64_t id;
	const char *const types[] = {"t"};

	fake_fetch(core, &fetch,
	    (struct fetch_request){.incarnation = 1,
	        .fetch_id = ++id,
	        .slots = slots,
	        .type_count = 1,
	        .types = types,
	        .exclude_count = exclude_count,
	        .exclude = exclude});
	serve();
}

/* Claims what the Fetch gets. Returns the number of tasks; their priorities must be below *below, which becomes the
 * lowest. */
static int claim(int *below)
{
	int lowest = *below;

	fake_claim(fake_claim_taken(), 0);
	for (int i = 0; i < fetch.count; i++) {
		int priority = (int)fetch.ids[i] - 1;
		cr_assert_lt(priority, *below);
		cr_assert(waits[priority]);
		waits[priority] = false;
		lowest = priority < lowest ? priority : lowest;
	}
	*below = lowest;
	return fetch.count;
}

/* Expects that Fetches get so many tasks, which are all, from the highest priority down. */
static void expect_all_in_order(int count)
{
	int below = PRIORITIES;

	while (count > 0) {
		fetch_again(100, 0, NULL);
		count -= claim(&below);
		fake_pass(core, 1);
		cr_assert_leq(ready_streams(core->cache), 2 * LIMIT);
	}
}

Test(ready_cache, the_streams_of_a_route_are_bounded)
{
	begin();
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	expect_all_in_order(PRIORITIES);
	fake_end(core);
}

Test(ready_cache, noted_tasks_of_thousands_of_priorities_are_claimed_in_order)
{
	int below = PRIORITIES;

	begin();
	waits[5000] = true;
	fetch_again(1, 0, NULL);
	claim(&below);
	for (int n = 0; n < PRIORITIES; n++) {
		int p = n * 7 % PRIORITIES;
		waits[p] = true;
		ready_note(core->cache, route, p, p + 1, fake_db_us(), due_us, 10);
	}
	fake_pass(core, 1);
	cr_expect_leq(ready_streams(core->cache), 2 * LIMIT);
	expect_all_in_order(PRIORITIES);
	fake_end(core);
}

Test(ready_cache, announced_priorities_are_bounded)
{
	begin();
	fetch_again(1, 0, NULL);
	for (int p = 0; p < PRIORITIES; p++)
		ready_rewind(core->cache, route, p, due_us);
	serve();
	fake_pass(core, 1);
	cr_expect_leq(ready_streams(core->cache), 3 * LIMIT, "%d", ready_streams(core->cache));
	fake_end(core);
}

Test(ready_cache, excluded_tasks_of_a_thousand_priorities_do_not_hide_others)
{
	static int64_t exclude[1000];
	int below = PRIORITIES;

	begin();
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	for (int i = 0; i < 1000; i++)
		exclude[i] = PRIORITIES - i;
	fetch_again(10, 1000, exclude);
	cr_expect_eq(claim(&below), 10);
	cr_expect_eq(below, PRIORITIES - 1010);
	fake_end(core);
}

Test(ready_cache, tasks_that_are_due_later_in_thousands_of_priorities_hide_no_lower_one)
{
	int below = PRIORITIES;

	begin();
	due_us = fake_db_us() + 5000000;
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	fetch_again(1, 0, NULL);
	fake_pass(core, 100);
	serve();
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	cr_expect_leq(ready_streams(core->cache), 2 * LIMIT);
	/* All are due now, of which most have no stream. */
	while (fake_db_us() < due_us + 2000) {
		fake_pass(core, 1);
		serve();
	}
	claim(&below);
	expect_all_in_order(PRIORITIES - 1);
	fake_end(core);
}

Test(ready_cache, one_route_of_many_priorities_delays_no_other_after_a_restart)
{
	struct fake_fetch another;
	const char *const types[] = {"u"};

	begin();
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	fake.dispatch_later = true;
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fetch(
	    core, &another, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .type_count = 1, .types = types});
	dispatch_run(core->dispatch);
	answer_streams(fake_take(FAKE_STREAMS));
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		answer_page(page);
	dispatch_run(core->dispatch);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(another.count, 1);
	cr_expect_eq(queries, 1);
	fake_end(core);
}

Test(ready_cache, streams_of_unwanted_routes_are_not_kept)
{
	begin();
	for (int p = 0; p < PRIORITIES; p++) {
		ready_note(core->cache, route, p, p + 1, fake_db_us(), due_us, 10);
		ready_rewind(core->cache, route, p, due_us);
	}
	cr_expect_eq(ready_streams(core->cache), 0);
	fake_end(core);
}

/* Lets time pass until then, and answers all reads. */
static void pass_until(int64_t us)
{
	while (fake_db_us() < us) {
		fake_pass(core, 10);
		serve();
	}
}

Test(ready_cache, what_becomes_due_above_as_many_priorities_as_are_kept_goes_first)
{
	int below = PRIORITIES;

	begin();
	later_from = PRIORITIES - 2000;
	later_us = fake_db_us() + 2000000;
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	fetch_again(100, 0, NULL);
	claim(&below);
	cr_expect_eq(below, later_from - 100);
	pass_until(later_us + 1500000); /* the route stays wanted for 5 s */
	below = PRIORITIES;
	for (int left = PRIORITIES - 100; left > 0; fake_pass(core, 1)) {
		fetch_again(100, 0, NULL);
		left -= claim(&below);
	}
	fake_end(core);
}

Test(ready_cache, a_clock_set_back_hides_no_priority)
{
	begin();
	fetch_again(1, 0, NULL);
	due_us = fake_db_us() - 1000000;
	fake.clock_us -= 3600 * INT64_C(1000000);
	pass_until(fake_db_us() + 2500000);
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	ready_rewind_all(core->cache);
	serve();
	for (int below = PRIORITIES, count = 1; below > 0 && count; fake_pass(core, 1)) {
		count = claim(&below);
		cr_expect_gt(count, 0, "a task of priority %d waits", below - 1);
		fetch_again(100, 0, NULL);
	}
	fake_end(core);
}

Test(ready_cache, a_failed_search_is_repeated_if_another_route_is_wanted_in_that_time)
{
	struct fake_fetch another;
	const char *const types[] = {"t"}, *const others[] = {"u"};

	begin();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .type_count = 1, .types = types});
	fake_fail(fake_take(FAKE_STREAMS), STATUS(UNAVAILABLE));
	fake_pass(core, 100);
	fake_fetch(
	    core, &another, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .type_count = 1, .types = others});
	fake_pass(core, 150);
	cr_expect_eq(fake_count(FAKE_STREAMS), 1);
	fake_end(core);
}

/* The search goes through all priorities of tasks that are due later. */
Test(ready_cache, a_long_search_in_one_route_delays_no_empty_answer_of_another)
{
	struct fake_fetch parked, another;
	const char *const types[] = {"u"};
	const int64_t exclude[] = {PRIORITIES + 1};

	begin();
	due_us = fake_db_us() + 10000000;
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	fetch_again(1, 0, NULL);
	struct fetch_request request = {
	    .incarnation = 2, .fetch_id = 1, .type_count = 1, .types = types, .exclude_count = 1, .exclude = exclude};
	fake_fetch(core, &parked, request);
	fake_pass(core, 1);
	serve();
	ready_rewind_all(core->cache);
	answer_streams(fake_take(FAKE_STREAMS));
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		answer_page(page);
	cr_expect_eq(fake_count(FAKE_STREAMS), 1);
	request.fetch_id = 2;
	request.wait_ms = -1;
	fake_fetch(core, &another, request);
	fake_pass(core, 1);
	cr_expect_eq(another.answered, 1);
	fake_end(core);
}

/* What is due is below all priorities of tasks that are due later, and searching through these takes 16 s. */
Test(ready_cache, searches_from_the_top_do_not_keep_those_in_progress_from_an_end)
{
	struct fake_fetch fetches[5];
	const char *const types[] = {"t"};
	void *op;

	begin();
	later_from = 1;
	later_us = fake_db_us() + 3600 * INT64_C(1000000);
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	for (int i = 0; i < 250 && !fake_count(FAKE_CLAIM); i++) {
		if (i % 50 == 0)
			fake_fetch(core, &fetches[i / 50],
			    (struct fetch_request){
			        .incarnation = 1, .fetch_id = i + 1, .slots = 1, .wait_ms = 5500, .type_count = 1, .types = types});
		if (i % 10 == 9)
			ready_poll_again(core->cache, later_us);
		fake_pass(core, 100);
		while ((op = fake_take(FAKE_PAGE)))
			answer_page(op);
		if ((op = fake_take(FAKE_STREAMS)))
			answer_streams(op);
	}
	struct store_claim *claim = fake_claim_taken();
	cr_expect_neq(fake_tries(claim, 1), 0);
	fake_end(core);
}

/* Tasks become due all the time, most of them of priorities that are not kept: searching for these takes at most a part
 * of the time. A query takes 5 ms. */
Test(ready_cache, long_searches_pause)
{
	enum { MS = 30000, QUERY_MS = 5 };
	int claimed = 0;
	int64_t begun_ms = 0, busy_ms = 0;

	begin();
	due_us = fake_db_us();
	spread_us = 10000;
	for (int p = 0; p < PRIORITIES; p++)
		waits[p] = true;
	fetch_again(100, 0, NULL);
	for (int ms = 0; ms < MS; ms++) {
		void *op;

		fake_pass(core, 1);
		while ((op = fake_take(FAKE_PAGE)))
			answer_page(op);
		busy_ms += fake_count(FAKE_STREAMS);
		if (!fake_count(FAKE_STREAMS))
			begun_ms = 0;
		else if (!begun_ms)
			begun_ms = fake.now_ms;
		else if (fake.now_ms >= begun_ms + QUERY_MS) {
			answer_streams(fake_take(FAKE_STREAMS));
			begun_ms = 0;
		}
		if (fake_count(FAKE_CLAIM)) {
			int below = PRIORITIES;
			claimed += claim(&below);
		}
		if (fetch.answered) {
			static int64_t id = 1000;
			const char *const types[] = {"t"};
			fake_fetch(core, &fetch,
			    (struct fetch_request){
			        .incarnation = 1, .fetch_id = ++id, .slots = 100, .type_count = 1, .types = types});
		}
	}
	cr_expect_lt(busy_ms, MS / 3, "%lld ms", (long long)busy_ms);
	cr_expect_gt(claimed, MS * 1000 / spread_us / 2, "%d", claimed);
	fake_end(core);
}

/* When a route is trimmed while pages of some of its streams are read, it has more than the limit afterwards. That
 * permits it no more streams later. */
Test(ready_cache, streams_in_use_do_not_raise_the_limit)
{
	int priority = 0;

	begin();
	fetch_again(1, 0, NULL);
	while (priority < 3000)
		ready_rewind(core->cache, route, priority++, due_us);
	fake_pass(core, 1);
	cr_expect_gt(ready_streams(core->cache), LIMIT);
	serve();
	while (ready_streams(core->cache) <= 2 * LIMIT)
		ready_rewind(core->cache, route, priority++, due_us);
	serve();
	fake_pass(core, 100);
	cr_expect_leq(ready_streams(core->cache), 2 * LIMIT, "%d", ready_streams(core->cache));
	fake_end(core);
}

/* With more streams in all than their limit, each route keeps its share, but not less than four. */
static void expect_shares(int routes, int most)
{
	enum { STREAMS = 200, ROUTES = 100 };
	static char names[ROUTES][16];
	static int numbers[ROUTES];
	static const char *types[ROUTES];

	for (int i = 0; i < routes; i++) {
		snprintf(names[i], sizeof names[i], "t%d", i);
		types[i] = names[i];
		numbers[i] = fake_route("q", names[i]);
	}
	begin_with(&(struct core_options){.streams_limit = STREAMS});
	fake_fetch(
	    core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .type_count = routes, .types = types});
	serve();
	for (int p = 0; p < 50; p++)
		for (int i = 0; i < routes; i++)
			ready_rewind(core->cache, numbers[i], p, due_us);
	serve();
	fake_pass(core, 200);
	cr_expect_leq(ready_streams(core->cache), most, "%d streams of %d routes", ready_streams(core->cache), routes);
	cr_expect_geq(ready_streams(core->cache), most / 4, "%d streams of %d routes", ready_streams(core->cache), routes);
	fake_end(core);
}

Test(ready_cache, the_streams_of_all_routes_are_bounded)
{
	expect_shares(20, 400);
}

Test(ready_cache, each_of_very_many_routes_keeps_some_streams)
{
	expect_shares(100, 800);
}
