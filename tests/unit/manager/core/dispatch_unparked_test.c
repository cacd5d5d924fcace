/* The dispatcher: Fetches that do not park, and time limits. */
#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/dispatch_internal.h"
#include "manager/core/ready.h"

#include <criterion/criterion.h>
#include <stdio.h>

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
	ready_rewind(core->cache, route, 5, STORE_TIME_BEGIN);
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
	ready_shard(core->cache, 2, 0);
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
	cr_expect_eq(page->shards, 1);
	fake_page_of(page, 5, 1, fake_db_us());
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 5);

	request.fetch_id = 4;
	fake_fetch(core, &fetch, request);
	cr_expect_eq(fetch.answered, 1, "nothing is left");
	cr_expect_eq(fetch.retry_after_ms, 0);
	fake_end(core);
}

/* The same with tasks that were left to another manager. */
Test(dispatch, one_that_does_not_park_gets_the_tasks_of_all_managers)
{
	struct fake_fetch fetch;

	begin(0);
	ready_shard(core->cache, 2, 0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 1});
	fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 2, 1, fake_db_us());
	fake_claim(fake_claim_taken(), 0);
	note(4, route, 0, 10);
	note(5, route, 0, 10); /* of the other manager's shard */
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .wait_ms = -1, .slots = 2});
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	struct store_page *page = fake_page_taken(route, 0);
	cr_expect_eq(page->shards, 1);
	fake_page_of(page, 5, 1, fake_db_us());
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 2);
	fake_claim(claim, 0);
	cr_expect_eq(fetch.count, 2);
	fake_end(core);
}

/* A pull client gets all its tasks in one answer, in order, although those of a lower priority must be read first. */
Test(dispatch, one_that_does_not_park_gets_the_tasks_of_all_priorities)
{
	struct fake_fetch fetch;

	begin(0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 1});
	note(1, route, 9, 10);
	base_dispatch(&core->base);
	fake_claim(fake_claim_taken(), 0);
	note(2, route, 9, 10);
	ready_rewind(core->cache, route, 5, STORE_TIME_BEGIN);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .wait_ms = -1, .slots = 10});
	cr_expect_eq(fake_count(FAKE_CLAIM), 0, "those of priority 5 are being read");
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));)
		fake_page_of(page, 7, page->priority == 5, fake_db_us() - 1000);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_eq(claim->count, 2);
	fake_claim(claim, 0);
	cr_expect_eq(fetch.count, 2);
	cr_expect_eq(fetch.ids[0], 2);
	cr_expect_eq(fetch.ids[1], 7);
	fake_end(core);
}

/* A worker reports and asks for more after each task; its queue has a thousand types, and none has a task now. */
Test(dispatch, one_that_does_not_park_is_not_compared_with_all_the_routes_it_accepts)
{
	static char types[1000][16];
	struct fake_fetch fetch;
	struct fetch_request request = {
	    .incarnation = 1, .fetch_id = 1, .wait_ms = -1, .queue_count = 1, .queues = (const char *[]){"q"}};

	for (int i = 0; i < 1000; i++) {
		snprintf(types[i], sizeof types[i], "many%d", i);
		fake_route("q", types[i]);
	}
	begin(0);
	while (fake_count(FAKE_STREAMS))
		fake_streams(0, NULL);
	fake_fetch(core, &fetch, request);
	cr_assert_eq(fetch.answered, 1);
	int64_t before = demand_compared(core->dispatch->demand);
	for (int i = 0; i < 100; i++) {
		request.fetch_id++;
		fake_fetch(core, &fetch, request);
		cr_assert_eq(fetch.answered, 1);
	}
	cr_expect_leq(demand_compared(core->dispatch->demand) - before, 1000);
	fake_end(core);
}

/* Tasks that were left to another manager are read once for all Fetches that accept them, and for no others. */
Test(dispatch, those_that_do_not_park_wait_together_for_what_was_left_to_another_manager)
{
	struct fake_fetch first, second, other;
	struct fetch_request request = {.incarnation = 1, .wait_ms = -1, .slots = 1};

	begin(0);
	ready_shard(core->cache, 2, 0);
	request.fetch_id = 1;
	fake_fetch(core, &first, request);
	fake_stream(route, 0);
	fake_page_of(fake_page_taken(route, 0), 2, 1, fake_db_us());
	fake_claim(fake_claim_taken(), 0);
	note(4, route, 0, 10);
	note(5, route, 0, 10); /* of the other manager's shard */
	request.fetch_id = 5;
	fake_fetch(core, &first, request);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(first.ids[0], 4);

	fake.dispatch_later = true;
	request.fetch_id = 6;
	fake_fetch(core, &first, request);
	request.fetch_id = 7;
	fake_fetch(core, &second, request);
	request.fetch_id = 8;
	request.type_count = 1;
	request.types = (const char *[]){"other"};
	fake_fetch(core, &other, request);
	dispatch_run(core->dispatch);
	cr_expect_eq(other.answered, 1);
	cr_expect_eq(first.answered, 0);
	cr_expect_eq(second.answered, 0);
	fake_page_of(fake_page_taken(route, 0), 5, 3, fake_db_us() - 10);
	dispatch_run(core->dispatch);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(first.count, 1);
	cr_expect_eq(second.count, 1);
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
