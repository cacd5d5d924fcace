/* The ready cache: what it reads, and when. It must find tasks that appear before its cursors, or while a page is
 * read. */
#include "manager/core/window.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>

#define BEGIN STORE_TIME_BEGIN

static struct core *core;
static int route;
static struct fake_fetch fetch;

/* Creates a core that knows one route with one stream, of priority 0, and has a Fetch with 10 slots. */
static void begin_with(const struct core_options *options)
{
	route = fake_route("q", "t");
	core = fake_core_with(options);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
}

static void begin(void)
{
	begin_with(&(struct core_options){0});
}

/* Lets time pass and answers each page that is read with no rows and `next_due_us` (0: nothing becomes due later).
 * Returns the number of those pages. */
static int pass_quietly(int64_t ms, int64_t next_due_us)
{
	int pages = 0;

	for (int64_t until = fake.now_ms + ms; fake.now_ms < until;) {
		fake_pass(core, until - fake.now_ms < 5 ? until - fake.now_ms : 5);
		for (struct store_page *page; (page = fake_take(FAKE_PAGE)); pages++)
			fake_page(page, 0, NULL, next_due_us);
	}
	return pages;
}

/* Answers the claim: everything in it is won. */
static void claim_all(void)
{
	fake_claim(fake_claim_taken(), 0);
}

static void fetch_again(int64_t id)
{
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = id});
}

Test(window, a_stream_is_read_from_its_beginning_and_on)
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

Test(window, a_page_that_ends_is_not_asked_for_again)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 10, fake_db_us());
	claim_all();
	fetch_again(2);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	cr_expect_eq(fetch.answered, 0);
	fake_end(core);
}

Test(window, rows_that_come_twice_are_candidates_once)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 30, due);
	struct store_claim *claim = fake_claim_taken();
	window_rewind(core->window, route, 0, due);
	fake_claim(claim, 0);
	cr_expect_eq(window_size(core->window), 20);
	fetch_again(2);
	claim_all();
	fetch_again(3);
	struct store_page *page = fake_page_taken(route, 0);

	cr_expect_eq(page->after_run_at_us, due);
	fake_page_of(page, 21, 10, due + 20); /* they are being claimed */
	claim_all();
	cr_expect_eq(fetch.count, 10);
	cr_expect_eq(window_size(core->window), 0);
	fake_end(core);
}

Test(window, a_task_of_our_own_needs_no_page)
{
	begin();
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	window_note(core->window, route, 0, 5, fake_db_us(), fake_db_us(), 10);
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	claim_all();
	cr_expect_eq(fetch.count, 1);
	cr_expect_eq(fetch.ids[0], 5);
	fake_end(core);
}

Test(window, one_behind_the_cursor_is_a_candidate_too)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 10, 10, fake_db_us());
	claim_all();
	window_note(core->window, route, 0, 3, fake_db_us(), fake_db_us() - 1000000, 10);
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

Test(window, a_task_noted_while_a_page_is_read_is_found)
{
	begin();
	int64_t due = fake_db_us() - 60000000;

	window_note(core->window, route, 0, 1000, fake_db_us(), due + 50, -1);
	expect_read_again(due);
	fake_end(core);
}

Test(window, what_another_manager_tells_while_a_page_is_read_is_found)
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
Test(window, a_newer_version_of_one_that_is_being_claimed_is_not_lost)
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
	window_read_ahead(core->window, window_first(core->window), 100);
	fake_page(fake_page_taken(route, 0), 1, &(struct store_candidate){7, due + 1000, due + 6, 10}, 0);
	fake_claim(claim, 7);
	cr_expect_eq(fetch.count, 9);
	if (fake_count(FAKE_PAGE))
		fake_page(fake_page_taken(route, 0), 1, &(struct store_candidate){7, due + 1000, due + 6, 10}, 0);
	cr_expect_eq(fake_tries(fake_claim_taken(), 7), due + 1000);
	fake_end(core);
}

/* A page that was read before a claim was committed has rows that no longer wait. */
Test(window, rows_claimed_while_a_page_is_read_are_not_tried_again)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 10, due);
	struct store_claim *claim = fake_claim_taken();

	window_rewind(core->window, route, 0, due);
	window_read_ahead(core->window, window_first(core->window), 100);
	struct store_page *page = fake_page_taken(route, 0);

	fake_claim(claim, 0);
	fetch_again(2);
	fake_page_of(page, 1, 10, due);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	cr_expect_eq(window_size(core->window), 0);
	fake_end(core);
}

Test(window, future_tasks_are_read_when_they_are_due)
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

Test(window, the_first_of_several_future_tasks_counts)
{
	begin();
	struct store_page *page = fake_page_taken(route, 0);
	int64_t soon = fake_db_us() + 200000, late = fake_db_us() + 3600000000;

	window_note(core->window, route, 0, 1, fake_db_us(), soon, 10); /* committed after the page was read */
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

Test(window, its_size_is_bounded)
{
	begin_with(&(struct core_options){.window_limit = 200});
	int64_t due = fake_db_us() - 1000000;
	struct store_page *page = fake_page_taken(route, 0);

	cr_assert_leq(page->limit, 200);
	fake_page_of(page, 1, page->limit, due);
	struct store_claim *claim = fake_claim_taken();
	for (int i = 0; i < 1000; i++)
		window_note(core->window, route, 0, 10000 + i, fake_db_us(), due + 1000 + i, 10);
	cr_expect_leq(window_size(core->window), 200);
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
			cr_expect_leq(window_size(core->window), 200);
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

Test(window, one_that_was_cancelled_is_dropped)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 20, due);
	claim_all();
	window_drop(core->window, 15);
	fetch_again(2);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(claim->count, 9);
	cr_expect_eq(fake_tries(claim, 15), 0);
	window_drop(core->window, 16); /* too late: the claim will find out */
	fake_claim(claim, 16);
	fake_end(core);
}

Test(window, a_new_priority_moves_a_candidate)
{
	begin();
	int64_t due = fake_db_us() - 1000;

	fake_page_of(fake_page_taken(route, 0), 1, 20, due);
	claim_all();
	window_note(core->window, route, 9, 15, due + 500, due + 14, 10);
	fetch_again(2);
	fake_page(fake_page_taken(route, 9), 1, &(struct store_candidate){15, due + 500, due + 14, 10}, 0);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(fake_tries(claim, 15), due + 500);
	fake_claim(claim, 0);
	cr_expect_eq(window_size(core->window), 0);
	fake_end(core);
}

Test(window, the_last_seconds_are_looked_at_again_while_somebody_waits)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 5, fake_db_us());
	claim_all();
	cr_expect_eq(pass_quietly(10000, 0), 0, "nobody waits");
	fetch_again(2);
	window_note(core->window, route, 0, 6, fake_db_us(), fake_db_us(), 10); /* the cursor moves to the present */
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
Test(window, a_look_that_was_held_up_does_not_put_off_the_next)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 5, fake_db_us());
	claim_all();
	window_note(core->window, route, 0, 6, fake_db_us(), fake_db_us(), 10);
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

Test(window, everything_is_read_again_each_minute)
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

Test(window, a_page_that_failed_is_asked_for_again)
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

/* Earlier tasks follow the estimate; new ones follow the clock's actual time. */
Test(window, a_clock_set_back_neither_hides_what_is_due_nor_hurries_what_is_not)
{
	begin();
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	fake.clock_us -= 3600 * INT64_C(1000000);
	pass_quietly(2500, 0);
	while (fake_count(FAKE_STREAMS))
		fake_stream(route, 0);
	pass_quietly(1000, 0);
	int64_t clock = fake_db_us();
	window_note(core->window, route, 0, 7, clock, clock + 3000000, 10);
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
Test(window, what_becomes_due_behind_the_cursor_is_not_forgotten)
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
	window_note(core->window, route, 0, 7, clock, due, 10);
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

Test(window, what_is_too_long_to_be_sent_is_passed_over)
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
	window_note(core->window, route, 0, 4, fake_db_us(), fake_db_us(), 1001);
	cr_expect_null(fake_take(FAKE_CLAIM));
	fake_end(core);
}

Test(window, a_route_that_nobody_wants_costs_nothing)
{
	begin();
	fake_page_of(fake_page_taken(route, 0), 1, 30, fake_db_us() - 1000000);
	claim_all();
	cr_expect_eq(window_size(core->window), 20);
	window_route_wanted(core->window, route, false);
	cr_expect_null(window_first(core->window));
	cr_expect_eq(window_size(core->window), 0, "its candidates make room for others'");

	window_note(core->window, route, 0, 50, fake_db_us(), fake_db_us(), 10);
	cr_expect_eq(window_size(core->window), 0);
	fake_pass(core, 3000);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "it is not looked at either");
	cr_expect_null(window_first(core->window));

	cr_expect_eq(window_streams(core->window), 0);

	/* When the route is wanted again, its streams are discovered. */
	window_route_wanted(core->window, route, true);
	fetch_again(2);
	fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 11, 21, fake_db_us() - 4000000 + 10);
	claim_all();
	cr_expect_eq(fetch.ids[0], 11);
	fake_end(core);
}

Test(window, a_page_that_comes_when_nobody_wants_it_any_more_is_let_go)
{
	begin();
	struct store_page *page = fake_page_taken(route, 0);
	window_route_wanted(core->window, route, false);
	fake_page_of(page, 1, 30, fake_db_us());
	cr_expect_eq(window_size(core->window), 0);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	window_route_wanted(core->window, route, true);
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_page_taken(route, 0)->after_id, 0);
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
Test(window, a_stream_of_locked_tasks_holds_up_no_other)
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
