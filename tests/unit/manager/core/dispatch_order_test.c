/* The dispatcher: the order in which candidates go to Fetches. */
#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/dispatch_internal.h"
#include "manager/core/ready.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(dispatch, higher_priorities_go_first)
{
	struct fake_fetch fetch;

	begin(20);
	ready_rewind(core->cache, route, 5, STORE_TIME_BEGIN); /* it may have tasks */
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "nothing overtakes what has not been read yet");
	struct store_candidate rows[] = {
	    {101, fake_db_us(), fake_db_us() - 2, 10}, {102, fake_db_us(), fake_db_us() - 1, 10}};
	fake_page(fake_page_taken(route, 5), 2, rows, 0);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(claim->count, 10);
	cr_expect(fake_tries(claim, 101) && fake_tries(claim, 102));
	fake_claim(claim, 0);
	fake_end(core);
}

Test(dispatch, what_cannot_be_read_now_delays_no_other)
{
	struct fake_fetch fetch;

	begin(20);
	ready_rewind(core->cache, route, 5, STORE_TIME_BEGIN);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fail(fake_page_taken(route, 5), STATUS(UNAVAILABLE));
	fake_pass(core, 500);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 10);
	fake_end(core);
}

Test(dispatch, tasks_without_a_worker_here_delay_no_other)
{
	struct fake_fetch fetch;
	const char *t[] = {"t"};

	begin(20);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .type_count = 1, .types = t});
	fake_stream(other, 1000);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "nobody asks for them");
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 10);
	fake_end(core);
}

Test(dispatch, of_one_priority_what_is_due_first_goes_first_whatever_its_type)
{
	struct fake_fetch fetch;

	begin(0);
	int other = fake_route("q", "u");
	int64_t t = fake_db_us() - 5000000;
	fake_pass(core, 1500);
	ready_rewind(core->cache, route, 0, STORE_TIME_BEGIN);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 4});
	fake_stream(other, 0);
	struct store_candidate odd[] = {{1, t, t, 10}, {3, t, t + 2, 10}, {5, t, t + 4, 10}};
	struct store_candidate even[] = {{2, t, t + 1, 10}, {4, t, t + 3, 10}, {6, t, t + 5, 10}};
	for (int i = 0; i < 2; i++) {
		struct store_page *page = fake_take(FAKE_PAGE);

		cr_assert_not_null(page);
		fake_page(page, 3, page->route == route ? odd : even, 0);
	}
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 4);
	for (int64_t id = 1; id <= 4; id++)
		cr_expect_neq(fake_tries(claim, id), 0, "task %d", (int)id);
	fake_claim(claim, 0);
	fake_end(core);
}

/* Parks a Fetch that excludes these tasks, and makes the streams of two routes read and empty. Returns the second
 * route. */
static int begin_excluding(struct fake_fetch *fetch, int exclude_count, const int64_t *exclude)
{
	begin(0);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	fake_fetch(core, fetch,
	    (struct fetch_request){
	        .incarnation = 1, .fetch_id = 1, .slots = 4, .exclude_count = exclude_count, .exclude = exclude});
	for (int i = 0; i < 2; i++) {
		int read = i ? other : route;
		ready_rewind(core->cache, read, 0, STORE_TIME_BEGIN);
		fake_page(fake_page_taken(read, 0), 0, NULL, 0);
	}
	return other;
}

static int begin_with_two_empty_streams(struct fake_fetch *fetch)
{
	return begin_excluding(fetch, 0, NULL);
}

Test(dispatch, excluded_tasks_of_two_types_hide_no_later_task)
{
	static const int64_t excluded[] = {1, 2};
	struct fake_fetch fetch;
	int other = begin_excluding(&fetch, 2, excluded);
	int64_t now = fake_db_us();

	ready_note(core->cache, route, 0, 1, now, now - 4000, 10);
	ready_note(core->cache, other, 0, 2, now, now - 3000, 10);
	ready_note(core->cache, route, 0, 3, now, now - 2000, 10);
	ready_note(core->cache, other, 0, 4, now, now - 1000, 10);
	base_dispatch(&core->base);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 2);
	cr_expect(fake_tries(claim, 3) && fake_tries(claim, 4));
	fake_claim(claim, 0);
	fake_end(core);
}

/* Another manager announces a task: tasks that were due before it need not wait until it has been read. */
Test(dispatch, what_was_due_before_the_rows_that_are_being_read_goes_first)
{
	struct fake_fetch fetch, next;
	int other;

	other = begin_with_two_empty_streams(&fetch);
	int64_t now = fake_db_us(), told = now - 3000000;
	ready_rewind(core->cache, other, 0, told);
	ready_note(core->cache, route, 0, 1, now, told - 1000000, 10);
	ready_note(core->cache, route, 0, 2, now, told + 1000000, 10);
	base_dispatch(&core->base);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 1), 0);
	fake_claim(claim, 0);
	fake_fetch(core, &next, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 4});
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "what was told of is due before it");
	struct store_candidate row = {3, now, told, 10};
	fake_page(fake_page_taken(other, 0), 1, &row, 0);
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 2);
	fake_claim(claim, 0);
	fake_end(core);
}

/* Otherwise several managers would wait for each other's tasks all the time. */
Test(dispatch, what_is_due_at_almost_the_same_time_waits_for_nothing)
{
	struct fake_fetch fetch;
	int other;

	other = begin_with_two_empty_streams(&fetch);
	int64_t now = fake_db_us(), told = now - 3000000;
	ready_rewind(core->cache, other, 0, told);
	ready_note(core->cache, route, 0, 1, now, told + 50000, 10);
	ready_note(core->cache, route, 0, 2, now, told + 150000, 10);
	base_dispatch(&core->base);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 1), 0);
	fake_claim(claim, 0);
	fake_end(core);
}

/* Parks a Fetch, makes the route's stream read and empty, and learns of another route. Returns that. */
static int begin_with_new_type(struct fake_fetch *fetch)
{
	begin(0);
	fake_pass(core, 1500);
	fake_fetch(core, fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 4});
	ready_rewind(core->cache, route, 0, STORE_TIME_BEGIN);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	return other;
}

/* Notes two tasks, a second before and after this time. Expects that the earlier one is claimed alone. */
static void expect_only_earlier_goes(int64_t than)
{
	ready_note(core->cache, route, 0, 1, fake_db_us(), than - 1000000, 10);
	ready_note(core->cache, route, 0, 2, fake_db_us(), than + 1000000, 10);
	base_dispatch(&core->base);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 1), 0);
	fake_claim(claim, 0);
}

/* Another manager has created a type and a task of it: older tasks in memory do not wait until that has been read. */
Test(dispatch, what_was_due_before_the_first_task_of_a_new_type_goes_first)
{
	struct fake_fetch fetch;
	int other = begin_with_new_type(&fetch);
	int64_t first = fake_db_us() - 3000000;

	fake_streams(1, &(struct store_stream){other, 0, first});
	expect_only_earlier_goes(first);
	fake_end(core);
}

/* The same if the task is announced before the streams of the type have been listed. */
Test(dispatch, what_was_due_before_an_announced_task_of_a_new_type_goes_first)
{
	struct fake_fetch fetch;
	int other = begin_with_new_type(&fetch);
	int64_t told = fake_db_us() - 3000000;

	ready_rewind(core->cache, other, 0, told);
	expect_only_earlier_goes(told);
	fake_end(core);
}

/* All its tasks are blocked: none of them is due or will be due at a known time. */
Test(dispatch, a_new_stream_whose_tasks_are_all_reserved_delays_no_other)
{
	struct fake_fetch fetch;

	begin(0);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 4});
	fake_streams(1, &(struct store_stream){other, 7, STORE_TIME_NEVER});
	int64_t now = fake_db_us();
	ready_note(core->cache, route, 0, 1, now, now, 10);
	base_dispatch(&core->base);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	fake_claim(claim, 0);
	fake_end(core);
}

/* Otherwise tasks that are due that little later would overtake it at every page. */
Test(dispatch, a_backlog_is_not_overtaken_by_what_is_due_a_little_later)
{
	struct fake_fetch fetch, next;

	begin(0);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 1000});
	ready_rewind(core->cache, route, 0, STORE_TIME_BEGIN);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	ready_rewind(core->cache, other, 0, STORE_TIME_BEGIN);
	struct store_page *page = fake_page_taken(other, 0);
	int64_t now = fake_db_us(), due = now - 3000000;
	int count = page->limit;
	fake_page_of(page, 1, count, due);
	struct store_claim *claim = fake_claim_taken();
	cr_assert_eq(claim->count, count);
	fake_claim(claim, 0);
	fake_fetch(core, &next, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 4});
	ready_note(core->cache, route, 0, 100000, now, due + 50000, 10);
	base_dispatch(&core->base);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "its rows go first");
	fake_page(fake_page_taken(other, 0), 0, NULL, 0);
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	fake_claim(claim, 0);
	fake_end(core);
}

enum { TYPES = 200, EACH = 4 };
static int type_routes[TYPES];

/* Answers pages of types that have EACH tasks, submitted in turns. */
static void answer_types(int64_t due_us)
{
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));) {
		int first = page->route - type_routes[0];
		struct store_candidate rows[EACH];

		for (int i = 0; i < EACH; i++)
			rows[i] = (struct store_candidate){1 + i * TYPES + first, due_us, due_us + i * TYPES + first, 10};
		fake_page(page, first < 0 ? 0 : EACH, rows, 0);
	}
}

/* With more streams than a matching looks at, a task waits until its stream's turn comes, here for one other task. */
Test(dispatch, each_of_many_types_of_one_priority_has_its_turn)
{
	static char types[TYPES][8];
	static bool claimed[TYPES * EACH + 2];
	struct fake_fetch fetch;
	int oldest = 1;
	bool passed = false; /* the last claim passed the oldest task */
	int64_t due_us;

	begin(0);
	due_us = fake_db_us() - INT64_C(3600000000);
	for (int i = 0; i < TYPES; i++) {
		snprintf(types[i], sizeof types[i], "t%d", i);
		type_routes[i] = fake_route("q", types[i]);
	}
	fake_pass(core, 1500);
	for (int i = 0; i < TYPES * EACH; i++) {
		fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = i + 1, .slots = 1});
		for (int k = TYPES - 1; !i && k >= 0; k--) /* the oldest are listed last */
			ready_rewind(core->cache, type_routes[k], 0, STORE_TIME_BEGIN);
		base_dispatch(&core->base);
		answer_types(due_us);
		fake_claim(fake_claim_taken(), 0);
		cr_assert_eq(fetch.count, 1);
		cr_assert(fetch.ids[0] == oldest || !passed, "task %d waits", oldest);
		passed = fetch.ids[0] != oldest;
		claimed[fetch.ids[0]] = true;
		while (claimed[oldest])
			oldest++;
	}
	fake_end(core);
}
