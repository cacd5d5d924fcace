/* The ready cache: what it reads or tries a second time: the last seconds, failed pages, what became due after a jump
 * of the clock, locked tasks. */
#include "tests/unit/manager/core/ready_fixture.h"

#include <criterion/criterion.h>

#define BEGIN STORE_TIME_BEGIN

Test(ready_cache, the_last_seconds_are_read_again_while_a_fetch_waits)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 5, fake_db_us());
	claim_all();
	cr_expect_eq(pass_quietly(10000, 0), 0, "nobody waits");
	fetch_again(2);
	ready_note(core->cache, route, 0, 6, fake_db_us(), fake_db_us(), 10); /* the cursor moves to the present */
	dispatch_run(core->dispatch);
	claim_all();
	fetch_again(3);
	while (!fake_count(FAKE_PAGE))
		fake_pass(core, 1);
	struct store_page *page = fake_page_taken(route, 0);

	cr_expect_leq(page->after_run_at_us, fake_db_us() - 4000000);
	fake_page(page, 0, NULL, 0);
	int looks = pass_quietly(10000, 0);
	cr_expect_geq(looks, 18);
	cr_expect_leq(looks, 22);
	fake_end(core);
}

/* A rescan that waited for a database that hung has cost nothing; what was committed in that time is found, too. */
Test(ready_cache, a_delayed_query_does_not_delay_the_next)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 5, fake_db_us());
	claim_all();
	ready_note(core->cache, route, 0, 6, fake_db_us(), fake_db_us(), 10);
	fetch_again(2);
	claim_all();
	fetch_again(3);
	cr_expect_geq(pass_quietly(3000, 0), 4);
	while (!fake_count(FAKE_PAGE))
		fake_pass(core, 1);
	struct store_page *page = fake_page_taken(route, 0);
	int64_t began = fake_db_us();
	fake_pass(core, 1300);
	fake_page(page, 0, NULL, 0);
	for (int i = 0; i < 1600 && !fake_count(FAKE_PAGE); i++)
		fake_pass(core, 1);
	page = fake_page_taken(route, 0);
	cr_expect_leq(page->after_run_at_us, began - 4000000);
	fake_page(page, 0, NULL, 0);
	cr_expect_geq(pass_quietly(3000, 0), 4);
	fake_end(core);
}

/* A rescan is not read while no Fetch could take its tasks. */
Test(ready_cache, a_rescan_that_waits_for_a_fetch_does_not_delay_the_next)
{
	static const char *const others[] = {"other"};
	struct fake_fetch other;

	begin();
	fake_fetch(core, &other,
	    (struct fetch_request){.incarnation = 2, .fetch_id = 1, .type_count = 1, .types = others, .wait_ms = 60000});
	fake_page_of(fake_page_taken(route, 0), 1, 5, fake_db_us());
	claim_all();
	for (int id = 6; id < 9; id++) {
		fake_pass(core, 2500);
		cr_expect_eq(fake_count(FAKE_PAGE), 0);
		fetch_again(id);
		fake_page(fake_page_taken(route, 0), 0, NULL, 0);
		ready_note(core->cache, route, 0, id, fake_db_us(), fake_db_us(), 10);
		dispatch_run(core->dispatch);
		claim_all();
	}
	fetch_again(9);
	cr_expect_geq(pass_quietly(5000, 0), 8);
	fake_end(core);
}

Test(ready_cache, everything_is_read_again_each_minute)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 10, fake_db_us());
	claim_all();
	pass_quietly(55000, 0);
	fetch_again(2);
	pass_quietly(6000, 0);
	fake_stream(route, 0);
	cr_expect_eq(fake_page_taken(route, 0)->after_run_at_us, BEGIN);
	fake_end(core);
}

/* An old transaction keeps so many dead rows that no stream is found again. */
Test(ready_cache, a_delayed_task_starts_though_its_stream_is_not_found_again)
{
	begin();
	int64_t due_us = fake_db_us() + 90 * INT64_C(1000000);
	fake_page(fake_page_taken(route, 0), 0, NULL, due_us);
	for (int id = 2; fake_db_us() < due_us - 1000000;) {
		if (fetch.answered)
			fetch_again(id++);
		pass_quietly(100, due_us);
		for (struct store_streams *search; (search = fake_take(FAKE_STREAMS));)
			fake_fail(search, STATUS(DEADLINE_EXCEEDED));
	}
	fake_pass(core, 2000);
	fake_page_of(fake_page_taken(route, 0), 1, 1, due_us);
	fake_end(core);
}

Test(ready_cache, a_page_that_failed_is_asked_for_again)
{
	begin();
	fake_fail(fake_page_taken(route, 0), STATUS(UNAVAILABLE));
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	fake_pass(core, 400);
	struct store_page *page = fake_page_taken(route, 0);

	cr_expect_eq(page->after_run_at_us, BEGIN);
	fake_page_of(page, 1, 3, fake_db_us());
	claim_all();
	cr_expect_eq(fetch.count, 3);
	fake_end(core);
}

Test(ready_cache, a_page_that_fails_again_and_again_is_read_less_often_and_alone)
{
	int pages = 0;

	begin();
	for (int64_t until = fake.now_ms + 9000; fake.now_ms < until; fake_pass(core, 10))
		for (struct store_page *page; (page = fake_take(FAKE_PAGE)); fake_fail(page, STATUS(DEADLINE_EXCEEDED)))
			cr_expect_eq(page->alone, pages++ > 0);
	cr_expect_leq(pages, 7);
	cr_expect_geq(pages, 5);
	fake_end(core);
}

/* Fails all reads from the beginning for so long, and answers others with no rows. Returns the earliest time from which
 * one of these was. */
static int64_t fail_at_the_beginning(int64_t ms)
{
	int64_t earliest = INT64_MAX;

	for (int64_t until = fake.now_ms + ms; fake.now_ms < until; fake_pass(core, 10))
		for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
			if (page->after_run_at_us == BEGIN) {
				fake_fail(page, STATUS(DEADLINE_EXCEEDED));
			} else {
				earliest = page->after_run_at_us < earliest ? page->after_run_at_us : earliest;
				fake_page(page, 0, NULL, 0);
			}
	return earliest;
}

Test(ready_cache, after_a_full_rescan_that_fails_reading_goes_on_where_it_was)
{
	begin();
	int64_t due_us = fake_db_us() - 3600 * INT64_C(1000000);
	fake_page_of(fake_page_taken(route, 0), 1, 10, due_us);
	ready_rewind_all(core->cache);
	while (fake_count(FAKE_STREAMS))
		fake_stream(route, 0);
	claim_all();
	fetch_again(2);
	cr_expect_eq(fail_at_the_beginning(5000), due_us + 9);
	fake_end(core);
}

Test(ready_cache, without_its_beginning_the_last_minute_of_a_stream_is_read)
{
	begin();
	int64_t earliest = fail_at_the_beginning(5000);
	cr_expect_leq(earliest, fake_db_us() - 60 * INT64_C(1000000));
	cr_expect_geq(earliest, fake_db_us() - 70 * INT64_C(1000000));
	fake_end(core);
}

/* Earlier tasks follow the estimate; new ones follow the clock's actual time. */
Test(ready_cache, a_clock_set_back_neither_hides_what_is_due_nor_hurries_what_is_not)
{
	begin();
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	fake.clock_us -= 3600 * INT64_C(1000000);
	pass_quietly(2500, 0);
	while (fake_count(FAKE_STREAMS))
		fake_stream(route, 0);
	pass_quietly(1000, 0);
	int64_t clock = fake_db_us();
	ready_note(core->cache, route, 0, 7, clock, clock + 3000000, 10);
	cr_expect_null(fake_take(FAKE_CLAIM), "it is due in 3 s, though long past by the reckoning");
	struct store_page *page = NULL;
	for (int i = 0; i < 30 && !page; i++) {
		fake_pass(core, 200);
		while (fake_count(FAKE_PAGE)) {
			page = fake_take(FAKE_PAGE);
			if (fake_db_us() >= clock + 3000000)
				break;
			fake_page(page, 0, NULL, clock + 3000000);
			page = NULL;
		}
	}
	cr_assert_not_null(page);
	cr_expect_lt(fake_db_us(), clock + 4500000, "and read again when it is");
	fake_page(page, 1, (struct store_candidate[]){{7, clock, clock + 3000000, 10}}, 0);
	cr_expect_neq(fake_tries(fake_claim_taken(), 7), 0);
	fake_end(core);
}

/* A page is read just before a task becomes due by our estimate, and the database's clock is a little ahead of that.
 * The task is not in the page, because the cursor is an hour ahead. */
Test(ready_cache, what_becomes_due_behind_the_cursor_is_not_forgotten)
{
	const int64_t s = 1000000;
	struct store_page *page;

	begin();
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	int64_t ahead = fake_db_us();
	fake.clock_us -= 3600 * s;
	pass_quietly(2500, 0);
	while (fake_count(FAKE_STREAMS))
		fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 1, 1, ahead);
	claim_all();
	fetch_again(2);
	pass_quietly(100, 0);

	int64_t clock = fake_db_us(), due = clock + 3 * s;
	ready_note(core->cache, route, 0, 7, clock, due, 10);
	while (fake_db_us() < due - s)
		pass_quietly(100, due);
	for (page = NULL; !page; page = fake_take(FAKE_PAGE))
		fake_pass(core, 5);
	cr_assert_lt(fake_db_us(), due);
	cr_assert_gt(page->after_run_at_us, due);
	fake_page(page, 0, NULL, 0);
	bool found = false;
	while (!found && fake_db_us() < due + s) {
		fake_pass(core, 5);
		if ((page = fake_take(FAKE_PAGE))) {
			found = page->after_run_at_us <= due;
			fake_page(page, 0, NULL, 0);
		}
	}
	cr_expect(found, "it is read from there on when it is due");
	fake_end(core);
}

/* Answers the claim: it wins nothing, because another transaction has locked its tasks. */
static void claim_locked(struct store_claim *claim)
{
	for (int i = 0; i < claim->count; i++)
		claim->tries[i].locked = true;
	claim->won_count = 0;
	fake_ok(claim);
	for (struct store_poll *look; (look = fake_take(FAKE_POLL));) {
		look->lost = false;
		fake_ok(look);
	}
}

/* Lets a millisecond pass with no new rows in the tables. Returns the next claim, or NULL. */
static struct store_claim *claim_after_ms(void)
{
	fake_pass(core, 1);
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		fake_page(page, 0, NULL, 0);
	return fake_take(FAKE_CLAIM);
}

/* Locked tasks of one type are older than those of another type, and must not hold them back. */
Test(ready_cache, a_stream_of_locked_tasks_delays_no_other)
{
	enum { LOCKED = 50, OTHERS = 1000 };
	int other = fake_route("q", "other"), tried = 0, seen[LOCKED + 1] = {0};

	route = fake_route("q", "t");
	core = fake_core();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 1});
	fake_streams(2, (struct store_stream[]){{route, 0, STORE_TIME_BEGIN}, {other, 0, STORE_TIME_BEGIN}});
	int64_t due = fake_db_us() - 60000000;
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));) {
		bool locked = page->route == route;
		fake_page_of(page, locked ? 1 : OTHERS, locked ? LOCKED : 5, locked ? due : due + 1000000);
	}
	struct store_claim *claim = fake_claim_taken();
	cr_expect_leq(claim->tries[0].id, LOCKED, "the oldest first");
	cr_expect_not(claim->careful);
	claim_locked(claim);
	claim = fake_claim_taken();
	cr_expect_geq(claim->tries[0].id, OTHERS, "then the other type's, at once");
	fake_claim(claim, 0);
	cr_expect_eq(fetch.count, 1);

	/* The locked tasks are tried less and less often, each in its turn. */
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 1, .wait_ms = 60000});
	for (int ms = 0; ms < 8000; ms++) {
		claim = claim_after_ms();
		if (claim && claim->tries[0].id <= LOCKED) {
			tried++;
			cr_expect_eq(seen[claim->tries[0].id]++, 0);
			claim_locked(claim);
		} else if (claim) {
			fake_claim(claim, 0);
		}
		if (fetch.answered)
			fake_fetch(core, &fetch,
			    (struct fetch_request){.incarnation = 1, .fetch_id = 3 + ms, .slots = 1, .wait_ms = 60000});
	}
	cr_expect_geq(tried, 5, "%d", tried);
	cr_expect_leq(tried, 12, "%d", tried);

	/* When one is no longer locked, the others are tried at once. */
	for (int ms = 0; ms < 3000 && !fetch.answered; ms++)
		if ((claim = claim_after_ms()))
			fake_claim(claim, 0);
	cr_expect_eq(fetch.count, 1);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 90000, .slots = 40});
	cr_assert_not_null(claim = fake_take(FAKE_CLAIM));
	cr_expect_eq(fake_claim(claim, 0), 40);
	fake_end(core);
}
