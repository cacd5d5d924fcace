/* The ready cache: what it reads, and when. It must find tasks that appear before its cursors, or while a page is
 * read. */
#include "tests/unit/manager/core/ready_fixture.h"

#include <criterion/criterion.h>

#define BEGIN STORE_TIME_BEGIN

Test(ready_cache, a_stream_is_read_from_its_beginning_and_on)
{
	begin();
	struct store_page *page = fake_page_taken(route, 0);
	int64_t due = fake_db_us() - 1000;

	cr_expect_eq(page->after_run_at_us, BEGIN);
	cr_expect_leq(page->due_us, fake_db_us());
	cr_expect_geq(page->limit, 20, "a page holds more than the Fetch's slots");
	int limit = page->limit;
	fake_page_of(page, 1, limit, due);
	claim_all();
	cr_expect_eq(fetch.count, 10);
	for (int i = 0; i < 10; i++)
		cr_expect_eq(fetch.ids[i], i + 1, "in their order");

	/* The other rows are in memory; the next page follows the last row. */
	for (int64_t id = 2; fake_count(FAKE_PAGE) == 0; id++) {
		cr_assert_lt(id, 100);
		fetch_again(id);
		claim_all();
	}
	page = fake_page_taken(route, 0);
	cr_expect_eq(page->after_run_at_us, due + limit - 1);
	cr_expect_eq(page->after_id, limit);
	fake_page(page, 0, NULL, 0);
	fake_end(core);
}

Test(ready_cache, a_page_that_ends_is_not_asked_for_again)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 10, fake_db_us());
	claim_all();
	fetch_again(2);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	cr_expect_eq(fetch.answered, 0);
	fake_end(core);
}

Test(ready_cache, rows_that_come_twice_are_candidates_once)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 30, due);
	struct store_claim *claim = fake_claim_taken();
	ready_rewind(core->cache, route, 0, due);
	fake_claim(claim, 0);
	cr_expect_eq(ready_size(core->cache), 20);
	fetch_again(2);
	claim_all();
	fetch_again(3);
	struct store_page *page = fake_page_taken(route, 0);

	cr_expect_eq(page->after_run_at_us, due);
	fake_page_of(page, 21, 10, due + 20); /* they are being claimed */
	claim_all();
	cr_expect_eq(fetch.count, 10);
	cr_expect_eq(ready_size(core->cache), 0);
	fake_end(core);
}

Test(ready_cache, a_task_of_our_own_needs_no_page)
{
	begin();
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	ready_note(core->cache, route, 0, 5, fake_db_us(), fake_db_us(), 10);
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	claim_all();
	cr_expect_eq(fetch.count, 1);
	cr_expect_eq(fetch.ids[0], 5);
	fake_end(core);
}

Test(ready_cache, one_behind_the_cursor_is_a_candidate_too)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 10, 10, fake_db_us());
	claim_all();
	ready_note(core->cache, route, 0, 3, fake_db_us(), fake_db_us() - 1000000, 10);
	fetch_again(2);
	claim_all();
	cr_expect_eq(fetch.count, 1);
	cr_expect_eq(fetch.ids[0], 3);
	fake_end(core);
}

/* The row was committed after the page had been read, and its place is among the page's rows. */
static void expect_read_again(int64_t due)
{
	fake_page_of(fake_page_taken(route, 0), 1, 100, due);
	claim_all();
	for (int64_t id = 2; fake_count(FAKE_PAGE) == 0; id++) {
		cr_assert_lt(id, 20, "no page is read that would show it");
		fetch_again(id);
		if (fake_count(FAKE_CLAIM))
			claim_all();
	}
	struct store_page *page = fake_page_taken(route, 0);

	cr_expect_leq(page->after_run_at_us, due + 50, "the page begins behind it");
	fake_page(page, 1, &(struct store_candidate){1000, due + 60000000, due + 50, 10}, 0);
	if (fetch.answered)
		fetch_again(30);
	cr_expect_neq(fake_tries(fake_claim_taken(), 1000), 0);
}

Test(ready_cache, a_task_noted_while_a_page_is_read_is_found)
{
	begin();
	int64_t due = fake_db_us() - 60000000;

	ready_note(core->cache, route, 0, 1000, fake_db_us(), due + 50, -1);
	expect_read_again(due);
	fake_end(core);
}

Test(ready_cache, what_another_manager_notifies_while_a_page_is_read_is_found)
{
	begin();
	int64_t due = fake_db_us() - 60000000;
	char wake[96];

	snprintf(wake, sizeof wake, "%d %d 0 %lld", FAKE_MANAGER + 1, route, (long long)due + 50);
	core_notified(core, wake);
	expect_read_again(due);
	fake_end(core);
}

/* A page has a task that waits again, while its old version is still being claimed: that claim loses it. */
Test(ready_cache, a_newer_version_of_one_that_is_being_claimed_is_not_lost)
{
	begin();
	int64_t due = fake_db_us() - 60000000;

	fake_page_of(fake_page_taken(route, 0), 1, 10, due);
	struct store_claim *claim = fake_claim_taken();
	struct fake_fetch other;

	fake_fetch(core, &other, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	char wake[96];
	snprintf(wake, sizeof wake, "%d %d 0 %lld", FAKE_MANAGER + 1, route, (long long)due);
	core_notified(core, wake);
	fake_pass(core, 1);
	ready_read_ahead(core->cache, ready_first(core->cache), 100);
	fake_page(fake_page_taken(route, 0), 1, &(struct store_candidate){7, due + 1000, due + 6, 10}, 0);
	fake_claim(claim, 7);
	cr_expect_eq(fetch.count, 9);
	if (fake_count(FAKE_PAGE))
		fake_page(fake_page_taken(route, 0), 1, &(struct store_candidate){7, due + 1000, due + 6, 10}, 0);
	cr_expect_eq(fake_tries(fake_claim_taken(), 7), due + 1000);
	fake_end(core);
}

/* A page that was read before a claim was committed has rows that no longer wait. */
Test(ready_cache, rows_claimed_while_a_page_is_read_are_not_claimed_again)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 10, due);
	struct store_claim *claim = fake_claim_taken();

	ready_rewind(core->cache, route, 0, due);
	ready_read_ahead(core->cache, ready_first(core->cache), 100);
	struct store_page *page = fake_page_taken(route, 0);

	fake_claim(claim, 0);
	fetch_again(2);
	fake_page_of(page, 1, 10, due);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	cr_expect_eq(ready_size(core->cache), 0);
	fake_end(core);
}

Test(ready_cache, future_tasks_are_read_when_they_are_due)
{
	begin();
	int64_t due = fake_db_us() + 3000000;

	fake_page(fake_page_taken(route, 0), 0, NULL, due);
	pass_quietly(2995, due);
	fake_pass(core, 10);
	struct store_page *page = fake_page_taken(route, 0);
	if (page->due_us < due) { /* a rescan of the last seconds, just before */
		fake_page(page, 0, NULL, due);
		page = fake_page_taken(route, 0);
	}

	cr_expect_geq(page->due_us, due);
	fake_page_of(page, 1, 1, due);
	claim_all();
	cr_expect_eq(fetch.ids[0], 1);
	fake_end(core);
}

Test(ready_cache, the_first_of_several_future_tasks_counts)
{
	begin();
	struct store_page *page = fake_page_taken(route, 0);
	int64_t soon = fake_db_us() + 200000, late = fake_db_us() + 3600000000;

	ready_note(core->cache, route, 0, 1, fake_db_us(), soon, 10); /* committed after the page was read */
	fake_page(page, 0, NULL, late);
	pass_quietly(195, soon);
	fake_pass(core, 10);
	page = fake_page_taken(route, 0);
	cr_expect_geq(page->due_us, soon);
	fake_page_of(page, 1, 1, soon);
	claim_all();
	cr_expect_eq(fetch.ids[0], 1);
	fake_end(core);
}

Test(ready_cache, its_size_is_bounded)
{
	begin_with(&(struct core_options){.ready_limit = 200});
	int64_t due = fake_db_us() - 1000000;
	struct store_page *page = fake_page_taken(route, 0);

	cr_assert_leq(page->limit, 200);
	fake_page_of(page, 1, page->limit, due);
	struct store_claim *claim = fake_claim_taken();
	for (int i = 0; i < 1000; i++)
		ready_note(core->cache, route, 0, 10000 + i, fake_db_us(), due + 1000 + i, 10);
	cr_expect_leq(ready_size(core->cache), 200);
	fake_claim(claim, 0);
	/* The tasks that were dropped are read. */
	int64_t last = 0;
	for (int64_t id = 2; id < 400 && last < 10999; id++) {
		if (fetch.answered)
			fetch_again(id);
		for (void *p; (p = fake_take(FAKE_PAGE));) {
			page = p;
			int64_t from = page->after_run_at_us < due + 1000 ? 0 : page->after_run_at_us - due - 1000 + 1;
			int left = from > 999 ? 0 : 1000 - (int)from;
			fake_page_of(page, 10000 + from, left < page->limit ? left : page->limit, due + 1000 + from);
			cr_expect_leq(ready_size(core->cache), 200);
		}
		if (!fake_count(FAKE_CLAIM))
			continue;
		claim_all();
		for (int i = 0; i < fetch.count; i++)
			last = fetch.ids[i] > last ? fetch.ids[i] : last;
	}
	cr_expect_eq(last, 10999);
	fake_end(core);
}

Test(ready_cache, one_that_was_cancelled_is_dropped)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 20, due);
	claim_all();
	ready_drop(core->cache, 15);
	fetch_again(2);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(claim->count, 9);
	cr_expect_eq(fake_tries(claim, 15), 0);
	ready_drop(core->cache, 16); /* too late: the claim will find out */
	fake_claim(claim, 16);
	fake_end(core);
}

Test(ready_cache, a_new_priority_moves_a_candidate)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 20, due);
	claim_all();
	ready_note(core->cache, route, 9, 15, due + 500, due + 14, 10);
	fetch_again(2);
	fake_page(fake_page_taken(route, 9), 1, &(struct store_candidate){15, due + 500, due + 14, 10}, 0);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(fake_tries(claim, 15), due + 500);
	fake_claim(claim, 0);
	cr_expect_eq(ready_size(core->cache), 0);
	fake_end(core);
}

Test(ready_cache, what_is_too_long_to_be_sent_is_passed_over)
{
	begin_with(&(struct core_options){.max_sent_bytes = 1000});
	int64_t due = fake_db_us() - 1000;

	fake_page(fake_page_taken(route, 0), 3,
	    (struct store_candidate[]){{1, due, due, 1001}, {2, due, due + 1, 1000}, {3, due, due + 2, 5000}}, 0);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 2), 0);
	fake_claim(claim, 0);
	fetch_again(2);
	ready_note(core->cache, route, 0, 4, fake_db_us(), fake_db_us(), 1001);
	cr_expect_null(fake_take(FAKE_CLAIM));
	fake_end(core);
}

Test(ready_cache, an_unwanted_route_costs_nothing)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 30, fake_db_us() - 1000000);
	claim_all();
	cr_expect_eq(ready_size(core->cache), 20);
	ready_route_wanted(core->cache, route, false);
	cr_expect_null(ready_first(core->cache));
	cr_expect_eq(ready_size(core->cache), 0, "its candidates make room for others'");

	ready_note(core->cache, route, 0, 50, fake_db_us(), fake_db_us(), 10);
	cr_expect_eq(ready_size(core->cache), 0);
	fake_pass(core, 3000);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "it is not looked at either");
	cr_expect_null(ready_first(core->cache));

	cr_expect_eq(ready_streams(core->cache), 0);

	/* When the route is wanted again, its streams are discovered. */
	ready_route_wanted(core->cache, route, true);
	fetch_again(2);
	fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 11, 21, fake_db_us() - 4000000 + 10);
	claim_all();
	cr_expect_eq(fetch.ids[0], 11);
	fake_end(core);
}

Test(ready_cache, a_page_that_is_no_longer_wanted_is_dropped)
{
	begin();
	struct store_page *page = fake_page_taken(route, 0);
	ready_route_wanted(core->cache, route, false);
	fake_page_of(page, 1, 30, fake_db_us());
	cr_expect_eq(ready_size(core->cache), 0);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	ready_route_wanted(core->cache, route, true);
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_page_taken(route, 0)->after_id, 0);
	fake_end(core);
}
