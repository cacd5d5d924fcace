/* Discovery: which searches others wait for. */
#include "manager/core/window.h"
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

/* A Fetch of another type comes `ms` after the first one. Returns the number of claims while its type is still searched. */
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

/* After a start the routes of Fetches that come at about the same time are all searched first, so that higher priorities go
 * first. */
Test(window, routes_that_are_wanted_at_about_the_same_time_count_as_first)
{
	cr_expect_eq(claims_before_the_second_is_found(50), 0);
}

Test(window, routes_that_are_wanted_later_delay_no_other)
{
	cr_expect_eq(claims_before_the_second_is_found(150), 1);
}

/* Returns how often a Fetch that does not park is answered while so many routes that it does not accept are searched. */
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

Test(window, an_empty_answer_waits_for_no_search_of_other_routes)
{
	cr_expect_eq(answered_while_searched(16), 1);
}

/* With more routes than a manager compares, it waits until some have been searched. */
Test(window, an_empty_answer_waits_while_very_many_routes_are_searched)
{
	cr_expect_eq(answered_while_searched(17), 0);
}
