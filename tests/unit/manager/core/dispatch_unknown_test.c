/* The dispatcher: claims with an unknown outcome, repeated Fetches, lost claims and lost workers. */
#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/dispatch_internal.h"
#include "manager/core/ready.h"
#include "manager/core/sessions.h"

#include <criterion/criterion.h>
#include <reeve/v1/worker.pb-c.h>

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

Test(dispatch, a_resent_fetch_gets_the_same_answer)
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

static Reeve__V1__FetchRequest where = REEVE__V1__FETCH_REQUEST__INIT;
static const struct fetch_request filtered = {.incarnation = 1, .fetch_id = 1, .wait_ms = -1, .where = &where.base};

/* Answers the query of a filtered Fetch with a task. Returns the claim that follows. */
static struct store_claim *pick_one(void)
{
	struct store_pick *pick = fake_take(FAKE_PICK);

	cr_assert_not_null(pick);
	pick->picked = &(struct store_picked){.id = 1, .version = 5, .bytes = 10, .route = route};
	pick->count = 1;
	fake_ok(pick);
	return fake_claim_taken();
}

/* It is sent again while the claim of the first copy is in flight, and the journal is queried before that is committed.
 */
Test(dispatch, a_resent_fetch_with_a_filter_gets_what_its_first_copy_claims)
{
	struct fetch_request request = filtered;
	struct fake_fetch first, again;

	begin(0);
	fake_fetch(core, &first, request);
	struct store_claim *claim = pick_one();
	request.again = true;
	fake_fetch_only(core, &again, request);
	cr_expect_eq(first.code, STATUS(ABORTED));
	fake_redeliver(0, NULL);
	struct store_pick *pick = fake_take(FAKE_PICK);
	cr_assert_not_null(pick);
	fake_claim(claim, 0);
	fake_ok(pick);
	fake_redeliver(1, (const int64_t[]){1});
	cr_expect_eq(again.count, 1);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	fake_end(core);
}

Test(dispatch, an_unknown_outcome_of_a_fetch_with_a_filter_is_asked_about)
{
	struct fake_fetch fetch;

	for (int committed = 0; committed < 2; committed++) {
		begin(0);
		fake_fetch(core, &fetch, filtered);
		fake_fail(pick_one(), STATUS(UNKNOWN));
		cr_assert_eq(fetch.answered, 0);
		if (committed) {
			fake_redeliver(1, (const int64_t[]){1});
		} else {
			fake_redeliver(0, NULL);
			fake_claim(pick_one(), 0);
		}
		cr_expect_eq(fetch.count, 1);
		cr_expect_eq(fetch.ids[0], 1);
		fake_end(core);
	}
}

/* The details of other Fetches left no room for its own. */
Test(dispatch, a_resent_fetch_queries_until_there_is_capacity)
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

Test(dispatch, a_fetch_is_resent_during_its_claim)
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
Test(dispatch, a_resent_fetch_queries_again_when_the_claim_has_ended)
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

/* A connection with thousands of Fetches of a few incarnations closes; one of them is sent again. */
Test(dispatch, those_whose_callers_are_gone_are_not_searched_for)
{
	enum { FETCHES = 5000, EACH = 1000, LAST = FETCHES / EACH };
	static struct fake_fetch fetches[FETCHES], again;

	begin(0);
	for (int i = 0; i < FETCHES; i++)
		fake_fetch(core, &fetches[i], (struct fetch_request){.incarnation = 1 + i / EACH, .fetch_id = i + 1});
	int64_t before = core->dispatch->searched;
	fake_fetch_only(core, &again, (struct fetch_request){.incarnation = LAST, .fetch_id = FETCHES, .again = true});
	cr_expect_eq(fetches[FETCHES - 1].code, STATUS(ABORTED), "the newer copy replaces it");
	dispatch_gone(core->dispatch, LAST, FETCHES, &fetches[FETCHES - 1]);
	cr_expect_eq(again.answered, 0, "that was the older copy's caller");
	dispatch_gone(core->dispatch, LAST, FETCHES, &again);
	cr_expect_eq(again.answered, 1);
	dispatch_gone(core->dispatch, LAST, FETCHES, &again);
	for (int i = FETCHES - 2; i >= 0; i--) {
		dispatch_gone(core->dispatch, 1 + i / EACH, i + 1, &fetches[i]);
		cr_assert_eq(fetches[i].answered, 1);
	}
	cr_expect_leq(core->dispatch->searched - before, FETCHES + 4);
	fake_redeliver(0, NULL);
	fake_end(core);
}

/* A worker may have a thousand that park. Others, and those that do not park, are served. */
Test(dispatch, an_incarnation_has_a_limited_number_of_fetches_that_park)
{
	enum { MOST = 1000 };
	static struct fake_fetch fetches[MOST], more, other, unparked;

	begin(0);
	for (int i = 0; i < MOST; i++)
		fake_fetch(core, &fetches[i], (struct fetch_request){.incarnation = 1, .fetch_id = i + 1});
	fake_fetch(core, &more, (struct fetch_request){.incarnation = 1, .fetch_id = MOST + 1});
	cr_expect_eq(more.code, STATUS(RESOURCE_EXHAUSTED));
	fake_fetch(core, &unparked, (struct fetch_request){.incarnation = 1, .fetch_id = MOST + 2, .wait_ms = -1});
	cr_expect_eq(unparked.code, STATUS(OK));
	fake_fetch(core, &other, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
	cr_expect_eq(other.answered, 0);
	dispatch_gone(core->dispatch, 1, 1, &fetches[0]);
	fake_fetch(core, &more, (struct fetch_request){.incarnation = 1, .fetch_id = MOST + 3});
	cr_expect_eq(more.answered, 0, "one of the others has ended");
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
	cr_expect_eq(ready_size(core->cache), 0);
	fake_end(core);
}

Test(dispatch, a_worker_whose_claim_won_nothing_is_checked)
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

Test(dispatch, a_worker_that_lives_continues_waiting)
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

Test(dispatch, one_check_of_a_worker_at_a_time_and_no_claim_during_it)
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
