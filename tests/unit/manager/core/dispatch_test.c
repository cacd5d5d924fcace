/* The dispatcher: which Fetch gets which candidates, claims with an unknown outcome, and repeated Fetches. */
#include "manager/core/dispatch.h"

#include "manager/core/dispatch_internal.h"
#include "manager/core/sessions.h"
#include "manager/core/window.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct core *core;
static int route;

/* Creates a core that knows one route with one stream, whose first page has `count` tasks. */
static void begin_with(const struct core_options *options, int count)
{
	struct fake_fetch fetch;

	route = fake_route("q", "t");
	core = fake_core_with(options);
	/* A first Fetch makes the ready cache read; its wait is over before the test goes on. */
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 100, .fetch_id = 1, .wait_ms = 1});
	fake_stream(route, 0);
	fake_pass(core, 2);
	cr_assert_eq(fetch.answered, 1);
	fake_page_of(fake_page_taken(route, 0), 1, count, fake_db_us() - 1000000);
	cr_assert_eq(fake_count(FAKE_CLAIM), 0);
}

static void begin(int count)
{
	begin_with(&(struct core_options){0}, count);
}

static void note(int64_t id, int route_id, int32_t priority, int32_t bytes)
{
	window_note(core->window, route_id, priority, id, fake_db_us(), fake_db_us(), bytes);
}

Test(dispatch, a_parked_fetch_gets_what_comes)
{
	struct fake_fetch fetch;

	begin(0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_pass(core, 300);
	while (fake_count(FAKE_PAGE)) /* a trailing rescan */
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	note(5, route, 0, 10);
	dispatch_run(core->dispatch);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(claim->count, 1);
	cr_expect_eq(claim->fetch_count, 1);
	cr_expect_eq(claim->fetches[0].incarnation, 1);
	cr_expect_eq(claim->fetches[0].fetch_id, 1);
	cr_expect_eq(fetch.answered, 0, "not before it is committed");
	fake_claim(claim, 0);
	cr_expect_eq(fetch.count, 1);
	cr_expect_eq(fetch.ids[0], 5);
	cr_expect_eq(fetch.parked_ms, 300);
	fake_end(core);
}

Test(dispatch, candidates_are_shared_out)
{
	struct fake_fetch a, b, c;

	begin(10);
	fake_fetch_only(core, &a, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fetch_only(core, &b, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	fake_fetch_only(core, &c, (struct fetch_request){.incarnation = 3, .fetch_id = 1, .slots = 2});
	/* The first waiting Fetch starts a claim of its own; the others get what it leaves. */
	for (int i = 0; i < 3; i++)
		fake_redeliver(0, NULL);
	fake_claim(fake_claim_taken(), 0);
	while (fake_count(FAKE_CLAIM))
		fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(a.count, 10);

	for (int64_t id = 20; id < 32; id++)
		note(id, route, 0, 10);
	dispatch_run(core->dispatch);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(claim->count, 12);
	cr_expect_eq(claim->fetch_count, 2);
	for (int i = 1; i < claim->count; i++)
		cr_expect_lt(claim->tries[i - 1].id, claim->tries[i].id, "in the order of their ids");
	fake_claim(claim, 0);
	cr_expect_eq(b.count, 10);
	cr_expect_eq(c.count, 2);
	fake_end(core);
}

Test(dispatch, few_candidates_are_shared_out_evenly)
{
	struct fake_fetch fetches[4];

	begin(0);
	for (int i = 0; i < 4; i++)
		fake_fetch(core, &fetches[i], (struct fetch_request){.incarnation = i + 1, .fetch_id = 1});
	for (int64_t id = 20; id < 28; id++)
		note(id, route, 0, 10);
	dispatch_run(core->dispatch);
	fake_claim(fake_claim_taken(), 0);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(fetches[i].count, 2);
	fake_end(core);
}

Test(dispatch, one_claim_at_a_time_and_what_gathers_is_the_next)
{
	struct fake_fetch fetches[5];

	begin(50);
	fake_fetch(core, &fetches[0], (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 5});
	struct store_claim *claim = fake_claim_taken();

	for (int i = 1; i < 5; i++)
		fake_fetch(core, &fetches[i], (struct fetch_request){.incarnation = i + 1, .fetch_id = 1, .slots = 5});
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_claim(claim, 0);
	cr_expect_eq(fetches[0].count, 5);
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 20);
	cr_expect_eq(claim->fetch_count, 4);
	fake_claim(claim, 0);
	for (int i = 1; i < 5; i++)
		cr_expect_eq(fetches[i].count, 5);
	fake_end(core);
}

Test(dispatch, a_claim_is_bounded)
{
	struct fake_fetch fetches[3];

	begin_with(&(struct core_options){.claim_limit = 25}, 80);
	fake_fetch(core, &fetches[0], (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 20});
	struct store_claim *claim = fake_claim_taken();

	fake_fetch(core, &fetches[1], (struct fetch_request){.incarnation = 2, .fetch_id = 1, .slots = 20});
	fake_fetch(core, &fetches[2], (struct fetch_request){.incarnation = 3, .fetch_id = 1, .slots = 20});
	fake_claim(claim, 0);
	while (fake_count(FAKE_CLAIM)) {
		claim = fake_claim_taken();
		cr_expect_leq(claim->count, 25);
		fake_claim(claim, 0);
	}
	cr_expect(fetches[1].count > 0 && fetches[2].count > 0);
	fake_end(core);
}

Test(dispatch, answers_are_bounded_in_bytes_but_one_always_fits)
{
	struct fake_fetch fetch;

	begin(0);
	for (int64_t id = 1; id <= 5; id++)
		note(id, route, 0, 1000000);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .max_bytes = 2500000});
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(claim->count, 2);
	fake_claim(claim, 0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .max_bytes = 1000});
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	fake_claim(claim, 0);
	fake_end(core);
}

/* A claim's rows are in the manager's memory all at once, whatever the number of workers that wait. */
Test(dispatch, a_claim_is_bounded_in_bytes)
{
	enum { FETCHES = 20, CLAIMED = 8 };
	struct fake_fetch fetches[FETCHES];
	int given = 0;

	begin_with(&(struct core_options){.max_answer_bytes = 2500000}, 0);
	for (int i = 0; i < FETCHES; i++)
		fake_fetch(core, &fetches[i], (struct fetch_request){.incarnation = i + 1, .fetch_id = 1});
	for (int64_t id = 1; id <= FETCHES; id++)
		note(id, route, 0, 1200000);
	dispatch_run(core->dispatch);
	while (given < FETCHES) {
		struct store_claim *claim = fake_claim_taken();
		cr_assert(claim->count <= CLAIMED, "%d tasks of 1.2 MB, with 10 MB for a claim", claim->count);
		given += claim->count;
		fake_claim(claim, 0);
	}
	for (int i = 0; i < FETCHES; i++)
		cr_expect_eq(fetches[i].count, 1);
	fake_end(core);
}

Test(dispatch, queues_types_and_ids_are_chosen)
{
	struct fake_fetch fetch;
	const char *mail[] = {"mail"}, *u[] = {"u"};

	int other_type, other_queue;
	begin(0);
	other_type = fake_route("q", "u");
	other_queue = fake_route("mail", "t");
	fake_pass(core, 1500); /* the heartbeat reports them */
	note(1, route, 0, 10);
	static const int64_t excluded[] = {9, 3, 1};
	fake_fetch(core, &fetch,
	    (struct fetch_request){.incarnation = 1,
	        .fetch_id = 1,
	        .queue_count = 1,
	        .queues = mail,
	        .exclude_count = 3,
	        .exclude = excluded});
	fake_streams(2, (struct store_stream[]){{other_type, 0, STORE_TIME_BEGIN}, {other_queue, 0, STORE_TIME_BEGIN}});
	struct store_candidate rows[] = {{3, fake_db_us(), fake_db_us() - 2, 10}, {4, fake_db_us(), fake_db_us() - 1, 10}};
	fake_page(fake_page_taken(other_queue, 0), 2, rows, 0);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 4), 0);
	fake_claim(claim, 0);

	fake_fetch(core, &fetch,
	    (struct fetch_request){.incarnation = 1, .fetch_id = 2, .type_count = 1, .types = u});
	fake_page(fake_page_taken(other_type, 0), 1, &(struct store_candidate){2, fake_db_us(), fake_db_us() - 1, 10}, 0);
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 2), 0);
	fake_claim(claim, 0);
	fake_end(core);
}

/* --- Order -------------------------------------------------------------------------------------------------------- */

Test(dispatch, higher_priorities_go_first)
{
	struct fake_fetch fetch;

	begin(20);
	window_rewind(core->window, route, 5, STORE_TIME_BEGIN); /* it may have tasks */
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "nothing overtakes what has not been read yet");
	struct store_candidate rows[] = {{101, fake_db_us(), fake_db_us() - 2, 10}, {102, fake_db_us(), fake_db_us() - 1, 10}};
	fake_page(fake_page_taken(route, 5), 2, rows, 0);
	struct store_claim *claim = fake_claim_taken();

	cr_expect_eq(claim->count, 10);
	cr_expect(fake_tries(claim, 101) && fake_tries(claim, 102));
	fake_claim(claim, 0);
	fake_end(core);
}

Test(dispatch, what_cannot_be_read_just_now_keeps_nobody_waiting)
{
	struct fake_fetch fetch;

	begin(20);
	window_rewind(core->window, route, 5, STORE_TIME_BEGIN);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fail(fake_page_taken(route, 5), STATUS(UNAVAILABLE));
	fake_pass(core, 500);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 10);
	fake_end(core);
}

Test(dispatch, what_nobody_here_can_take_keeps_nobody_waiting)
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
	window_rewind(core->window, route, 0, STORE_TIME_BEGIN);
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

/* Parks a Fetch and makes the streams of two routes read and empty. Returns the second route. */
static int begin_with_two_empty_streams(struct fake_fetch *fetch)
{
	begin(0);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	fake_fetch(core, fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 4});
	for (int i = 0; i < 2; i++) {
		int read = i ? other : route;
		window_rewind(core->window, read, 0, STORE_TIME_BEGIN);
		fake_page(fake_page_taken(read, 0), 0, NULL, 0);
	}
	return other;
}

/* Another manager announces a task: tasks that were due before it need not wait until it has been read. */
Test(dispatch, what_was_due_before_the_rows_that_are_being_read_goes_first)
{
	struct fake_fetch fetch, next;
	int other;

	other = begin_with_two_empty_streams(&fetch);
	int64_t now = fake_db_us(), told = now - 3000000;
	window_rewind(core->window, other, 0, told);
	window_note(core->window, route, 0, 1, now, told - 1000000, 10);
	window_note(core->window, route, 0, 2, now, told + 1000000, 10);
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
	window_rewind(core->window, other, 0, told);
	window_note(core->window, route, 0, 1, now, told + 50000, 10);
	window_note(core->window, route, 0, 2, now, told + 150000, 10);
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
	window_rewind(core->window, route, 0, STORE_TIME_BEGIN);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	return other;
}

/* Notes two tasks, a second before and after this time. Expects that the earlier one is claimed alone. */
static void expect_only_earlier_goes(int64_t than)
{
	window_note(core->window, route, 0, 1, fake_db_us(), than - 1000000, 10);
	window_note(core->window, route, 0, 2, fake_db_us(), than + 1000000, 10);
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

	window_rewind(core->window, other, 0, told);
	expect_only_earlier_goes(told);
	fake_end(core);
}

/* All its tasks are blocked: none of them is due or will be due at a known time. */
Test(dispatch, a_new_stream_whose_tasks_are_all_held_keeps_nobody_waiting)
{
	struct fake_fetch fetch;

	begin(0);
	int other = fake_route("q", "u");
	fake_pass(core, 1500);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 4});
	fake_streams(1, &(struct store_stream){other, 7, STORE_TIME_NEVER});
	int64_t now = fake_db_us();
	window_note(core->window, route, 0, 1, now, now, 10);
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
	window_rewind(core->window, route, 0, STORE_TIME_BEGIN);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	window_rewind(core->window, other, 0, STORE_TIME_BEGIN);
	struct store_page *page = fake_page_taken(other, 0);
	int64_t now = fake_db_us(), due = now - 3000000;
	int count = page->limit;
	fake_page_of(page, 1, count, due);
	struct store_claim *claim = fake_claim_taken();
	cr_assert_eq(claim->count, count);
	fake_claim(claim, 0);
	fake_fetch(core, &next, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 4});
	window_note(core->window, route, 0, 100000, now, due + 50000, 10);
	base_dispatch(&core->base);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "its rows go first");
	fake_page(fake_page_taken(other, 0), 0, NULL, 0);
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	fake_claim(claim, 0);
	fake_end(core);
}

/* --- Fetches that do not park, and time limits -------------------------------------------------------------------- */

Test(dispatch, one_that_does_not_park_gets_what_is_at_hand)
{
	struct fake_fetch fetch;

	begin(5);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = -1});
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 5);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .wait_ms = -1});
	cr_expect_eq(fetch.answered, 1);
	cr_expect_eq(fetch.code, STATUS(OK));
	cr_expect_eq(fetch.count, 0);
	cr_expect_eq(fetch.retry_after_ms, 0, "nothing is left");
	fake_end(core);
}

Test(dispatch, one_that_does_not_park_is_answered_when_its_claim_wins_nothing)
{
	struct fake_fetch fetch;

	begin(1);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = -1});
	fake_claim(fake_claim_taken(), 1);
	cr_expect_eq(fetch.answered, 1);
	cr_expect_eq(fetch.code, STATUS(OK));
	cr_expect_gt(fetch.retry_after_ms, 0, "there may be more than what was lost");
	fake_end(core);
}

Test(dispatch, one_that_does_not_park_waits_for_a_page_but_not_for_long)
{
	struct fake_fetch fetch;

	begin(0);
	window_rewind(core->window, route, 5, STORE_TIME_BEGIN);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = -1});
	cr_expect_eq(fetch.answered, 0);
	fake_pass(core, 1000);
	cr_expect_eq(fetch.answered, 1);
	cr_expect_eq(fetch.count, 0);
	cr_expect_gt(fetch.retry_after_ms, 0, "what could not be read may be something");
	fake_end(core);
}

/* Another manager seems to be alive, and shares the tasks. */
Test(dispatch, one_that_does_not_park_gets_what_was_left_to_another_manager)
{
	struct fake_fetch fetch;
	struct fetch_request request = {.incarnation = 1, .fetch_id = 1, .wait_ms = -1, .slots = 1};

	begin(0);
	window_shard(core->window, 2, 0);
	fake_fetch(core, &fetch, request);
	cr_expect_eq(fetch.answered, 0, "which streams there are is being looked for");
	fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 2, 1, fake_db_us());
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 1);

	note(4, route, 0, 10);
	note(5, route, 0, 10); /* of the other manager's shard */
	request.fetch_id = 2;
	fake_fetch(core, &fetch, request);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 4);
	request.fetch_id = 3;
	fake_fetch(core, &fetch, request);
	cr_expect_eq(fetch.answered, 0);
	struct store_page *page = fake_page_taken(route, 0);
	cr_expect_eq(page->slices, 1);
	fake_page_of(page, 5, 1, fake_db_us());
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 5);

	request.fetch_id = 4;
	fake_fetch(core, &fetch, request);
	cr_expect_eq(fetch.answered, 1, "nothing is left");
	cr_expect_eq(fetch.retry_after_ms, 0);
	fake_end(core);
}

Test(dispatch, a_parked_one_is_answered_when_its_time_is_over)
{
	struct fake_fetch short_one, long_one;

	begin_with(&(struct core_options){.fetch_wait_ms = 8000}, 0);
	fake_fetch(core, &short_one, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = 3000});
	fake_fetch(core, &long_one, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .wait_ms = 3600000});
	fake_pass(core, 2990);
	cr_expect_eq(short_one.answered, 0);
	fake_pass(core, 15);
	cr_expect_eq(short_one.answered, 1);
	cr_expect_eq(short_one.code, STATUS(OK));
	cr_expect_eq(short_one.count, 0);
	fake_pass(core, 4900);
	cr_expect_eq(long_one.answered, 0);
	fake_pass(core, 100);
	cr_expect_eq(long_one.answered, 1);
	fake_end(core);
}

/* Hundreds of Fetches query the journal at once; afterwards each is answered at its own time. */
Test(dispatch, hundreds_are_asked_about_at_a_time)
{
	static struct fake_fetch fetches[300];

	begin(0);
	for (int i = 0; i < 300; i++)
		fake_fetch_only(core, &fetches[i],
		    (struct fetch_request){.incarnation = i + 1, .fetch_id = 1, .wait_ms = 1000 + 10 * ((i * 7) % 300)});
	while (fake_count(FAKE_REDELIVER))
		fake_redeliver(0, NULL);
	for (int i = 0; i < 300; i++)
		cr_expect_eq(fetches[i].answered, 0);
	fake_pass(core, 2000);
	for (int i = 0; i < 300; i++)
		cr_expect_eq(fetches[i].answered, 10 * ((i * 7) % 300) <= 1000, "each at its own time");
	fake_end(core);
}

Test(dispatch, a_claim_that_takes_too_long_is_not_waited_for)
{
	struct fake_fetch fetch;

	begin(5);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = 1000});
	struct store_claim *claim = fake_claim_taken();

	fake_pass(core, 5000);
	cr_expect_eq(fetch.answered, 1);
	cr_expect_eq(fetch.code, STATUS(UNAVAILABLE));
	fake_claim(claim, 0); /* the won tasks stay with this fetch id */
	fake_fetch_only(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .again = true});
	fake_redeliver(2, (const int64_t[]){1, 2});
	cr_expect_eq(fetch.count, 2);
	fake_end(core);
}

/* --- Unknown outcomes and repeated Fetches ------------------------------------------------------------------------ */

Test(dispatch, an_unknown_outcome_is_asked_about)
{
	struct fake_fetch won, nothing;

	begin(8);
	fake_fetch(core, &won, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 4});
	struct store_claim *claim = fake_claim_taken();
	fake_fetch(core, &nothing, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .slots = 4});
	fake_claim(claim, 1); /* so that both are in the next claim */
	cr_expect_eq(won.count, 3);
	fake_fetch(core, &won, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 4});
	claim = fake_claim_taken();
	int tried = claim->count;
	fake_fail(claim, STATUS(UNKNOWN));
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "nothing is claimed for them before they know what they have");
	int asked = fake_count(FAKE_REDELIVER);
	cr_expect_geq(asked, 1);
	static const int64_t theirs[] = {5, 6};
	fake_redeliver(2, theirs);
	cr_expect_eq(nothing.count, 2);

	/* The other tasks that were tried are read again. */
	while (fake_count(FAKE_REDELIVER))
		fake_redeliver(0, NULL);
	fake_pass(core, 200);
	struct store_page *page = fake_page_taken(route, 0);
	int64_t due = fake_db_us() - 1000000;
	struct store_candidate rows[] = {{7, due, due, 10}, {8, due, due + 1, 10}};
	fake_page(page, 2, rows, 0);
	claim = fake_claim_taken();
	cr_expect(fake_tries(claim, 7) && fake_tries(claim, 8));
	fake_claim(claim, 0);
	cr_expect_eq(won.count, 2);
	cr_expect_gt(tried, 0);
	fake_end(core);
}

Test(dispatch, one_that_comes_again_is_given_the_same_again)
{
	struct fake_fetch first, again;

	begin(5);
	fake_fetch(core, &first, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(first.count, 5);
	fake_fetch_only(core, &again, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .again = true});
	fake_redeliver(3, (const int64_t[]){1, 2, 3});
	cr_expect_eq(again.count, 3);
	cr_expect_eq(again.ids[2], 3);

	/* The same for a Fetch whose id is not new even if `again` is not set, and for one of an incarnation that is not
	 * known here. */
	fake_fetch_only(core, &again, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_redeliver(1, (const int64_t[]){1});
	cr_expect_eq(again.count, 1);
	fake_fetch_only(core, &again, (struct fetch_request){.incarnation = 50, .fetch_id = 77});
	fake_redeliver(1, (const int64_t[]){9});
	cr_expect_eq(again.count, 1);
	fake_end(core);
}

/* The details of other Fetches left no room for its own. */
Test(dispatch, one_that_comes_again_asks_until_there_is_room)
{
	struct fake_fetch again;

	begin(0);
	fake_fetch_only(core, &again, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .again = true});
	for (int i = 0; i < 3; i++) {
		struct store_redeliver *ask = fake_take(FAKE_REDELIVER);

		cr_assert_not_null(ask);
		cr_expect_eq(ask->max_batch_bytes, 4 * ask->max_answer_bytes);
		ask->life = STORE_LIFE_LIVES;
		ask->later = true;
		fake_ok(ask);
		cr_expect_eq(again.answered, 0);
	}
	fake_redeliver(2, (const int64_t[]){1, 2});
	cr_expect_eq(again.count, 2);
	fake_end(core);
}

Test(dispatch, an_earlier_copy_is_answered_when_another_comes)
{
	struct fake_fetch parked, again, third;

	begin(0);
	fake_fetch(core, &parked, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fetch_only(core, &again, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .again = true});
	cr_expect_eq(parked.code, STATUS(ABORTED));
	/* The same while the query of the journal is in flight. */
	fake_fetch_only(core, &third, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .again = true});
	cr_expect_eq(again.code, STATUS(ABORTED));
	fake_redeliver(1, (const int64_t[]){9});
	fake_redeliver(0, NULL);
	cr_expect_eq(again.count, 0);
	cr_expect_eq(third.answered, 0);
	note(10, route, 0, 10);
	dispatch_run(core->dispatch);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(third.count, 1);
	fake_end(core);
}

Test(dispatch, one_that_comes_again_while_it_is_being_claimed_for)
{
	struct fake_fetch first, again;

	begin(5);
	fake_fetch(core, &first, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	struct store_claim *claim = fake_claim_taken();

	fake_fetch_only(core, &again, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .again = true});
	cr_expect_eq(first.code, STATUS(ABORTED));
	fake_claim(claim, 0);
	cr_expect_eq(again.answered, 0);
	fake_redeliver(5, (const int64_t[]){1, 2, 3, 4, 5});
	cr_expect_eq(again.count, 5);
	fake_end(core);
}

/* The query of the journal uses another connection, and does not see the claim yet. */
Test(dispatch, one_that_comes_again_asks_again_when_the_claim_has_ended)
{
	struct fake_fetch first, again;

	for (int early = 0; early < 2; early++) {
		begin(5);
		fake_fetch(core, &first, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
		struct store_claim *claim = fake_claim_taken();
		fake_fetch_only(core, &again, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .again = true});
		if (early)
			fake_redeliver(0, NULL);
		fake_claim(claim, 0);
		if (!early)
			fake_redeliver(0, NULL);
		cr_expect_eq(again.answered, 0);
		fake_redeliver(5, (const int64_t[]){1, 2, 3, 4, 5});
		cr_expect_eq(again.count, 5);
		fake_end(core);
	}
}

Test(dispatch, one_whose_caller_is_gone_takes_nothing_more)
{
	struct fake_fetch gone, other;

	begin(0);
	fake_fetch(core, &gone, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fetch(core, &other, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	dispatch_gone(core->dispatch, 1, 1, &gone);
	cr_expect_eq(gone.answered, 1);
	note(5, route, 0, 10);
	dispatch_run(core->dispatch);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->fetches[0].incarnation, 2);
	fake_claim(claim, 0);
	cr_expect_eq(other.count, 1);
	fake_end(core);
}

/* --- Lost claims and lost workers --------------------------------------------------------------------------------- */

Test(dispatch, what_others_won_is_left_to_them)
{
	struct fake_fetch fetch;

	begin(5);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_claim(fake_claim_taken(), 2);
	cr_expect_eq(fetch.count, 4);
	cr_expect_eq(window_size(core->window), 0);
	fake_end(core);
}

Test(dispatch, a_worker_whose_claim_won_nothing_is_looked_at)
{
	struct fake_fetch lost, other;

	begin(1);
	fake_fetch(core, &lost, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_claim(fake_claim_taken(), 1);
	cr_expect_eq(lost.answered, 0);
	struct store_poll *look = fake_take(FAKE_POLL);
	cr_assert_not_null(look);
	cr_expect_eq(look->incarnation, 1);
	look->lost = true;
	fake_ok(look);
	cr_expect_eq(lost.code, STATUS(FAILED_PRECONDITION));

	/* The task still waits and goes to another worker; further Fetches of the lost one are refused. */
	fake_fetch(core, &other, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	int64_t due = fake_db_us() - 1000000;
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		fake_page(page, 1, &(struct store_candidate){1, due, due, 10}, 0);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(other.count, 1);
	fake_fetch_only(core, &lost, (struct fetch_request){.incarnation = 1, .fetch_id = 2});
	cr_expect_eq(lost.code, STATUS(FAILED_PRECONDITION));
	fake_end(core);
}

Test(dispatch, a_worker_that_lives_goes_on_waiting)
{
	struct fake_fetch fetch;

	begin(1);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_claim(fake_claim_taken(), 1);
	struct store_poll *look = fake_take(FAKE_POLL);
	look->lost = false;
	fake_ok(look);
	cr_expect_eq(fetch.answered, 0);
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	note(9, route, 0, 10);
	dispatch_run(core->dispatch);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 9);
	fake_end(core);
}

/* Answers the query of the journal with the state of the Fetch's incarnation. */
static void answer_life(enum store_life life)
{
	struct store_redeliver *ask = fake_take(FAKE_REDELIVER);

	cr_assert_not_null(ask, "nothing was asked");
	ask->life = life;
	ask->won_count = 0;
	fake_ok(ask);
}

Test(dispatch, an_incarnation_that_never_was_takes_part_in_no_claim)
{
	struct fake_fetch invented, honest;

	begin(5);
	fake_fetch_only(core, &invented, (struct fetch_request){.incarnation = 666, .fetch_id = 1});
	fake_pass(core, 1000);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "not before it is known to live");
	struct store_redeliver *ask = fake_take(FAKE_REDELIVER);
	fake_fetch(core, &honest, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->fetch_count, 1);
	cr_expect_eq(claim->count, 5, "nothing is kept for the other");
	ask->life = STORE_LIFE_NEVER;
	fake_ok(ask);
	cr_expect_eq(invented.code, STATUS(FAILED_PRECONDITION));
	cr_expect_eq(fake_count(FAKE_POLL), 0);
	cr_expect_null(sessions_find(core->sessions, 666), "nothing is kept of it");
	fake_claim(claim, 0);
	cr_expect_eq(honest.count, 5);

	/* A worker may get this number later. */
	fake_fetch_only(core, &invented, (struct fetch_request){.incarnation = 666, .fetch_id = 2});
	answer_life(STORE_LIFE_LIVES);
	cr_expect_eq(invented.answered, 0);
	fake_end(core);
}

Test(dispatch, one_that_comes_back_after_its_lease_is_refused_without_a_claim)
{
	struct fake_fetch fetches[3];

	begin(5);
	for (int i = 0; i < 3; i++)
		fake_fetch_only(core, &fetches[i], (struct fetch_request){.incarnation = 5, .fetch_id = i + 1, .again = true});
	answer_life(STORE_LIFE_OVER);
	cr_expect_eq(fetches[0].code, STATUS(FAILED_PRECONDITION));
	answer_life(STORE_LIFE_LIVES); /* this answer is older */
	answer_life(STORE_LIFE_OVER);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(fetches[i].code, STATUS(FAILED_PRECONDITION));
	fake_fetch_only(core, &fetches[0], (struct fetch_request){.incarnation = 5, .fetch_id = 9, .again = true});
	cr_expect_eq(fetches[0].code, STATUS(FAILED_PRECONDITION), "at once");
	cr_expect_eq(fake_count(FAKE_REDELIVER), 0);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_end(core);
}

/* Queries about a Fetch take turns with the other operations of its caller: a flood of Fetches delays only its
 * caller. */
Test(dispatch, questions_about_a_fetch_are_its_callers)
{
	struct fake_fetch fetch;

	begin(1);
	fake_fetch_only(core, &fetch, (struct fetch_request){.incarnation = 5, .fetch_id = 1, .origin = 77});
	struct store_redeliver *ask = fake_take(FAKE_REDELIVER);
	cr_assert_not_null(ask);
	cr_expect_eq(ask->op.origin, 77);
	ask->life = STORE_LIFE_LIVES;
	fake_ok(ask);
	fake_claim(fake_claim_taken(), 1);
	struct store_poll *look = fake_take(FAKE_POLL);
	cr_assert_not_null(look);
	cr_expect_eq(look->op.origin, 77);
	fake_ok(look);
	fake_end(core);
}

Test(dispatch, one_look_at_a_worker_at_a_time_and_no_claim_meanwhile)
{
	struct fake_fetch fetches[3];

	begin(0);
	for (int i = 0; i < 3; i++)
		fake_fetch(core, &fetches[i], (struct fetch_request){.incarnation = 1, .fetch_id = i + 1, .slots = 1});
	note(21, route, 0, 10);
	note(22, route, 0, 10);
	dispatch_run(core->dispatch);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->fetch_count, 2);
	claim->won_count = 0;
	fake_ok(claim); /* both have won nothing */
	struct store_poll *look = fake_take(FAKE_POLL);
	cr_expect_eq(look->incarnation, 1);
	cr_expect_eq(fake_count(FAKE_POLL), 0, "one question for both");

	/* The two are in no claim while that query is in flight. */
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		fake_page(page, 0, NULL, 0);
	for (int id = 31; id < 34; id++)
		note(id, route, 0, 10);
	dispatch_run(core->dispatch);
	while (fake_count(FAKE_CLAIM)) {
		claim = fake_claim_taken();
		cr_expect_eq(claim->fetch_count, 1);
		cr_expect_eq(claim->fetches[0].fetch_id, 3);
		fake_claim(claim, 0);
	}
	cr_expect_eq(fetches[2].count, 1);
	look->lost = false;
	fake_ok(look);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetches[0].count + fetches[1].count, 2);
	fake_end(core);
}

Test(dispatch, one_that_is_lost_while_it_is_being_claimed_for_ends_with_the_claim)
{
	struct fake_fetch lost, winner;

	begin(1);
	fake_fetch(core, &lost, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	struct store_claim *claim = fake_claim_taken();
	sessions_lost(core->sessions, 1);
	cr_expect_eq(lost.answered, 0, "it may have won");
	claim->won_count = 0;
	fake_ok(claim);
	cr_expect_eq(lost.code, STATUS(FAILED_PRECONDITION));
	cr_expect_eq(fake_count(FAKE_POLL), 0, "there is nothing to ask");
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);

	/* An answer has the tasks that were won before the worker was lost. */
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		fake_page(page, 0, NULL, 0);
	fake_fetch(core, &winner, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		fake_page(page, 0, NULL, 0);
	note(7, route, 0, 10);
	dispatch_run(core->dispatch);
	claim = fake_claim_taken();
	sessions_lost(core->sessions, 2);
	fake_claim(claim, 0);
	cr_expect_eq(winner.count, 1);
	fake_end(core);
}

/* --- Worker commands ---------------------------------------------------------------------------------------------- */

Test(dispatch, an_order_goes_with_a_parked_fetch)
{
	struct fake_fetch mine, other;
	struct store_worker_command order = {.kind = "cancel", .task_id = 3, .token = 4};

	begin(0);
	fake_fetch(core, &mine, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fetch(core, &other, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	dispatch_commands(core->dispatch, 1, &order, 1);
	cr_expect_eq(mine.commands, 1);
	cr_expect_eq(mine.code, STATUS(OK));
	cr_expect_eq(other.answered, 0);
	dispatch_commands(core->dispatch, 1, &order, 1); /* no Fetch is parked: the next heartbeat has the command */
	fake_end(core);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

Test(dispatch, all_are_answered_at_the_end)
{
	struct fake_fetch claiming, waiting, asking, replaced;

	begin(5);
	fake_fetch(core, &claiming, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fetch(core, &waiting, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	fake_fetch_only(core, &replaced, (struct fetch_request){.incarnation = 3, .fetch_id = 1});
	fake_fetch_only(core, &asking, (struct fetch_request){.incarnation = 3, .fetch_id = 1, .again = true});
	fake_end(core);
	cr_expect_eq(claiming.code, STATUS(UNAVAILABLE));
	cr_expect_eq(waiting.code, STATUS(UNAVAILABLE));
	cr_expect_eq(asking.code, STATUS(UNAVAILABLE));
	cr_expect_eq(replaced.code, STATUS(ABORTED));
}

/* However long its caller would wait. */
Test(dispatch, a_fetch_is_parked_no_longer_than_the_manager_parks)
{
	struct fake_fetch fetch;
	struct core *parking = fake_core();

	fake_fetch(parking, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = 600000});
	fake_pass(parking, 14900);
	cr_expect_eq(fetch.answered, 0);
	fake_pass(parking, 200);
	cr_expect_eq(fetch.answered, 1);
	cr_expect_eq(fetch.code, STATUS(OK));
	cr_expect_eq(fetch.count, 0);
	fake_end(parking);
}

/* Changes the settings of the queue "q" and waits until a heartbeat has reported them. */
static void set_queue(struct store_queue settings)
{
	settings.name = "q";
	fake.queues[0] = settings;
	fake.queue_count = 1;
	fake.queue_changes++;
	fake_pass(core, 1100);
}

Test(dispatch, a_queue_that_is_halted_gives_nothing)
{
	struct fake_fetch fetch;

	begin(3);
	set_queue((struct store_queue){.state = STORE_QUEUE_PAUSED});
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_pass(core, 3000);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	cr_expect_eq(fetch.answered, 0);

	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING});
	fake_stream(route, 0);
	while (fake_count(FAKE_PAGE))
		fake_page_of(fake_take(FAKE_PAGE), 1, 3, fake_db_us() - 1000000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 3);
	fake_end(core);
}

Test(dispatch, a_worker_waits_before_its_first_task)
{
	struct fake_fetch fresh, busy, unparked;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000});
	fake_fetch(core, &fresh, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .idle_ms = 2000});
	fake_stream(route, 0);
	fake_pass(core, 2900);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "the queue gives its tasks to no worker yet");
	fake_fetch(core, &unparked,
	    (struct fetch_request){.incarnation = 3, .fetch_id = 1, .wait_ms = -1, .idle_ms = 1000});
	cr_expect_eq(unparked.answered, 1);
	cr_expect_eq(unparked.retry_after_ms, 4000);
	/* A worker that has had a task does not wait. */
	fake_fetch(core, &busy, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .slots = 1});
	fake_page_of(fake_page_taken(route, 0), 1, 2, fake_db_us() - 1000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(busy.count, 1);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_pass(core, 200);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fresh.count, 1);
	fake_end(core);
}

Test(dispatch, the_worker_that_has_waited_longest_is_let_first)
{
	struct fake_fetch young, old;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000});
	fake_fetch(core, &young, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 1, .idle_ms = 1000});
	fake_fetch(core, &old, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .slots = 1, .idle_ms = 3000});
	fake_stream(route, 0);
	fake_pass(core, 1900);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "the queue gives its tasks to no worker yet");
	fake_pass(core, 200);
	fake_page_of(fake_page_taken(route, 0), 1, 2, fake_db_us() - 1000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(old.count, 1);
	cr_expect_eq(young.answered, 0);
	fake_pass(core, 1700);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_pass(core, 300);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(young.count, 1);
	fake_end(core);
}

/* Returns how many Fetches were checked for the end of their waiting period since the last call, each once. */
static int checked(void)
{
	int count = 0;

	for (struct fetch *f = core->dispatch->fetches; f; f = f->next) {
		count += f->let_from_ms != 0;
		f->let_from_ms = 0;
	}
	return count;
}

/* A thousand Fetches of twenty profiles, of which the workers started 3 ms apart. While all are in the waiting period, a
 * new task checks one Fetch of each profile, however many there are. Then each gets a task when its own period ends. */
Test(dispatch, many_workers_of_many_profiles_wait_before_their_first_task)
{
	enum { FETCHES = 1000, PROFILES = 20, APART_MS = 3 };
	static struct fake_fetch fetches[FETCHES];
	int place[FETCHES]; /* in the order in which their periods end */
	char other[16];
	const char *const types[] = {"t", other};
	int64_t begun_ms;

	begin(0);
	set_queue((struct store_queue){.state = STORE_QUEUE_RUNNING, .waiting_ms = 5000});
	begun_ms = fake.now_ms;
	for (int i = 0; i < FETCHES; i++) {
		place[i] = i * 617 % FETCHES;
		snprintf(other, sizeof other, "other%d", i % PROFILES);
		fake_fetch(core, &fetches[i],
		    (struct fetch_request){.incarnation = 1000 + i,
		        .fetch_id = 1,
		        .slots = 1,
		        .type_count = 2,
		        .types = types,
		        .idle_ms = 4000 - place[i] * APART_MS});
	}
	for (int id = 1; id <= FETCHES; id++) {
		int64_t before = demand_compared(core->dispatch->demand);

		checked();
		note(id, route, 0, 10);
		dispatch_run(core->dispatch);
		int seen = checked();
		cr_assert(seen > 0 && seen <= PROFILES, "%d Fetches were checked", seen);
		cr_assert_leq(demand_compared(core->dispatch->demand) - before, 4 * PROFILES);
	}
	cr_assert_eq(fake_count(FAKE_CLAIM), 0);
	for (int at = 0; at < FETCHES; at++) {
		fake_pass(core, begun_ms + 1000 + at * APART_MS - fake.now_ms);
		while (fake_count(FAKE_PAGE))
			fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
		while (fake_count(FAKE_CLAIM))
			fake_claim(fake_claim_taken(), 0);
		for (int i = 0; i < FETCHES; i++)
			cr_assert(place[i] <= at ? fetches[i].count == 1 && fetches[i].ids[0] == place[i] + 1 : !fetches[i].answered,
			    "%d at %d", place[i], at);
	}
	fake_end(core);
}
