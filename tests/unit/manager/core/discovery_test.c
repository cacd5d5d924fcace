/* Discovery: which searches others wait for. */
#include "manager/core/ready.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { ROUTES = 20 };

static struct core *core;
static char names[ROUTES][16];
static const char *types[ROUTES];
static int routes[ROUTES];

static void begin(void)
{
	for (int i = 0; i < ROUTES; i++) {
		snprintf(names[i], sizeof names[i], "t%d", i);
		types[i] = names[i];
		routes[i] = fake_route("q", names[i]);
	}
	core = fake_core();
}

/* A Fetch of another type comes `ms` after the first one. Returns the number of claims while its type is still
 * searched. */
static int claims_before_the_second_is_found(int ms)
{
	struct fake_fetch first, second;

	begin();
	fake_fetch(core, &first, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .type_count = 1, .types = types});
	fake_pass(core, ms);
	fake_fetch(
	    core, &second, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .type_count = 1, .types = types + 1});
	fake_stream(routes[0], 0);
	fake_page_of(fake_page_taken(routes[0], 0), 1, 1, fake_db_us());
	int claims = fake_count(FAKE_CLAIM);
	fake_streams(0, NULL);
	fake_pass(core, 1);
	cr_expect_eq(fake_count(FAKE_CLAIM), 1);
	fake_end(core);
	return claims;
}

/* After a start the routes of Fetches that come at about the same time are all searched first, so that higher
 * priorities go first. */
Test(ready_cache, routes_that_are_wanted_at_about_the_same_time_count_as_first)
{
	cr_expect_eq(claims_before_the_second_is_found(50), 0);
}

Test(ready_cache, routes_that_are_wanted_later_delay_no_other)
{
	cr_expect_eq(claims_before_the_second_is_found(150), 1);
}

/* Returns how often a Fetch that does not park is answered while so many routes that it does not accept are searched.
 */
static int answered_while_searched(int count)
{
	struct fake_fetch parked, others, another;
	struct fetch_request request = {.incarnation = 2, .fetch_id = 1, .type_count = 1, .types = types + ROUTES - 1};

	begin();
	fake_fetch(core, &parked, request);
	fake_streams(0, NULL);
	fake_pass(core, 200);
	fake_fetch(
	    core, &others, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .type_count = count, .types = types});
	fake_pass(core, 1);
	cr_assert_eq(fake_count(FAKE_STREAMS), 1);
	request.fetch_id = 2;
	request.wait_ms = -1;
	fake_fetch(core, &another, request);
	fake_pass(core, 1);
	int answered = another.answered;
	fake_streams(0, NULL);
	fake_pass(core, 1);
	cr_expect_eq(another.answered, 1);
	fake_end(core);
	return answered;
}

Test(ready_cache, an_empty_answer_waits_for_no_search_of_other_routes)
{
	cr_expect_eq(answered_while_searched(16), 1);
}

/* With more routes than a manager compares, it waits until some have been searched. */
Test(ready_cache, an_empty_answer_waits_while_very_many_routes_are_searched)
{
	cr_expect_eq(answered_while_searched(17), 0);
}

/* Answers each search that has the first route with an error after `took_ms`, and each other with a task of the second
 * one. Lets this time pass, or until a task is claimed. Returns the number of failed searches. */
static int search_in_vain(int ms, int took_ms)
{
	struct store_stream found = {routes[1], 0, 0};
	int failed = 0;

	for (int64_t until = fake.now_ms + ms; fake.now_ms < until && !fake_count(FAKE_CLAIM);) {
		fake_pass(core, 10);
		struct store_streams *find = fake_take(FAKE_STREAMS);
		if (find) {
			bool wrong = false, right = false;
			for (int i = 0; i < find->count; i++) {
				wrong |= find->routes[i] == routes[0];
				right |= find->routes[i] == routes[1];
			}
			failed += wrong;
			if (wrong) {
				fake_pass(core, took_ms);
				fake_fail(find, STATUS(DEADLINE_EXCEEDED));
				continue;
			}
			found.first_us = fake_db_us();
			find->streams = &found;
			find->found = right;
			fake_ok(find);
		}
		for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
			fake_page_of(page, 1, 1, fake_db_us());
	}
	return failed;
}

Test(ready_cache, a_route_whose_search_always_fails_delays_no_other)
{
	struct fake_fetch all;

	begin();
	fake_fetch(core, &all,
	    (struct fetch_request){
	        .incarnation = 1, .fetch_id = 1, .type_count = ROUTES, .types = types, .wait_ms = 60000});
	cr_expect_leq(search_in_vain(11000, 5000), 2);
	cr_expect_eq(fake_count(FAKE_CLAIM), 1);
	fake_end(core);
}

Test(ready_cache, a_search_that_fails_again_and_again_is_repeated_less_often)
{
	struct fake_fetch first;

	begin();
	fake_fetch(core, &first, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .type_count = 1, .types = types});
	cr_expect_leq(search_in_vain(9000, 0), 7);
	cr_expect_geq(search_in_vain(5000, 0), 1);
	fake_end(core);
}
