/* The dispatcher: which Fetch gets which candidates, how large claims and answers are, commands, and the end. */
#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/dispatch_internal.h"
#include "manager/core/ready.h"

#include <criterion/criterion.h>

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

Test(dispatch, one_claim_at_a_time_and_what_arrives_is_the_next)
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

	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .type_count = 1, .types = u});
	fake_page(fake_page_taken(other_type, 0), 1, &(struct store_candidate){2, fake_db_us(), fake_db_us() - 1, 10}, 0);
	claim = fake_claim_taken();
	cr_expect_eq(claim->count, 1);
	cr_expect_neq(fake_tries(claim, 2), 0);
	fake_claim(claim, 0);
	fake_end(core);
}

/* --- Worker commands ---------------------------------------------------------------------------------------------- */

Test(dispatch, a_worker_command_answers_a_parked_fetch)
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
