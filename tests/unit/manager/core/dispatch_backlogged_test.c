/* The dispatcher: Fetches of callers that do not read their answers. */
#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/dispatch_internal.h"
#include "manager/core/sessions.h"

#include <criterion/criterion.h>
#include <reeve/v1/worker.pb-c.h>
#include <string.h>

static bool unread;

static bool is_unread(const void *caller, int64_t max)
{
	cr_assert_eq(max, 4 << 20);
	return *(const bool *)caller;
}

static struct fetch_request request_of(int64_t incarnation, int slots)
{
	return (struct fetch_request){
	    .incarnation = incarnation, .fetch_id = 1, .slots = slots, .backlogged = is_unread, .caller = &unread};
}

static void read_all(void)
{
	unread = false;
	dispatch_eased(core->dispatch);
	dispatch_run(core->dispatch);
}

Test(dispatch, a_backlogged_caller_gets_no_tasks_until_it_has_read_its_answers)
{
	struct fake_fetch mute[3], other;

	begin(0);
	for (int i = 0; i < 3; i++)
		fake_fetch(core, &mute[i], request_of(i + 1, 1));
	fake_fetch(core, &other, (struct fetch_request){.incarnation = 9, .fetch_id = 1, .slots = 1});
	unread = true;
	for (int64_t id = 20; id < 25; id++)
		note(id, route, 0, 10);
	dispatch_run(core->dispatch);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(other.count, 1);
	cr_expect_eq(other.ids[0], 20, "the first one: nobody else got any");
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	cr_expect_eq(core->dispatch->capacity, 0);
	dispatch_eased(core->dispatch); /* of another connection */
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	read_all();
	fake_claim(fake_claim_taken(), 0);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(mute[i].count, 1);
		cr_expect_eq(mute[i].ids[0], 21 + i);
	}
	fake_end(core);
}

Test(dispatch, a_backlogged_caller_is_answered_at_the_end_of_its_wait_and_by_commands)
{
	struct fake_fetch mute[3];

	begin(0);
	for (int i = 0; i < 3; i++)
		fake_fetch(core, &mute[i], request_of(i + 1, 1));
	unread = true;
	note(20, route, 0, 10);
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_count(FAKE_CLAIM), 0);
	dispatch_commands(core->dispatch, 2, &(struct store_worker_command){0}, 1);
	cr_expect_eq(mute[1].commands, 1);
	sessions_lost(core->sessions, 3);
	cr_expect_eq(mute[2].code, STATUS(FAILED_PRECONDITION));
	fake_pass(core, 10000);
	cr_expect_eq(mute[0].answered, 1);
	cr_expect_eq(mute[0].code, STATUS(OK));
	cr_expect_eq(mute[0].count, 0);
	fake_end(core);
}

/* What it was assigned before stays with its Fetch: it must not hear that there is nothing. */
Test(dispatch, a_resent_fetch_of_a_backlogged_caller_is_not_queried)
{
	struct fake_fetch mute[2];
	struct fetch_request request = request_of(1, 1);

	begin(0);
	request.again = unread = true;
	for (int i = 0; i < 2; i++) {
		request.fetch_id = i + 1;
		request.wait_ms = i ? 20000 : 10000;
		fake_fetch_only(core, &mute[i], request);
	}
	cr_expect_eq(fake_count(FAKE_REDELIVER), 0);
	fake_pass(core, 10000);
	cr_expect_eq(mute[0].code, STATUS(UNAVAILABLE));
	cr_expect(strstr(mute[0].message, "too many unread answers"), "%s", mute[0].message);
	read_all();
	fake_redeliver(1, (const int64_t[]){7});
	cr_expect_eq(mute[1].count, 1);
	cr_expect_eq(mute[1].ids[0], 7);
	fake_end(core);
}

/* It is the only one of an incarnation that this manager has not seen before: nothing is kept of that without it. */
Test(dispatch, a_held_fetch_is_resent_before_its_incarnation_is_known)
{
	struct fake_fetch mute, again;

	begin(0);
	unread = true;
	fake_fetch_only(core, &mute, request_of(50, 1));
	fake_fetch_only(core, &again, request_of(50, 1));
	cr_expect_eq(mute.code, STATUS(ABORTED));
	cr_expect_eq(fake_count(FAKE_REDELIVER), 0);
	read_all();
	fake_redeliver(1, (const int64_t[]){7});
	cr_expect_eq(again.count, 1);
	fake_end(core);
}

/* The claim of an earlier copy ends while this one is held, the only one of its caller. */
Test(dispatch, a_held_fetch_queries_again_when_the_claim_has_ended)
{
	struct fake_fetch first, again;
	struct fetch_request request = request_of(1, 1);

	begin(1);
	fake_fetch(core, &first, request);
	struct store_claim *claim = fake_claim_taken();
	unread = request.again = true;
	fake_fetch_only(core, &again, request);
	cr_expect_eq(first.code, STATUS(ABORTED));
	fake_claim(claim, 0);
	cr_expect_eq(fake_count(FAKE_REDELIVER), 0, "the caller is backlogged");
	read_all();
	fake_redeliver(1, (const int64_t[]){1});
	cr_expect_eq(again.count, 1);
	cr_expect_null(core->dispatch->readers);
	fake_end(core);
}

/* As many as share a statement, and the others when it has ended. */
Test(dispatch, a_caller_has_a_hundred_queries_of_the_journal_at_a_time)
{
	enum { FETCHES = 130 };
	struct fake_fetch fetches[FETCHES], other;
	struct fetch_request request = {.slots = 1, .fetch_id = 1, .origin = 77};

	begin(0);
	for (int i = 0; i < FETCHES; i++) {
		request.incarnation = i + 1;
		fake_fetch_only(core, &fetches[i], request);
	}
	cr_expect_eq(fake_count(FAKE_REDELIVER), 100);
	fake_fetch_only(core, &other, (struct fetch_request){.incarnation = 999, .fetch_id = 1, .slots = 1, .origin = 78});
	cr_expect_eq(fake_count(FAKE_REDELIVER), 101);
	for (int i = 0; i < 50; i++)
		fake_redeliver(1, (const int64_t[]){i + 1});
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_count(FAKE_REDELIVER), 51 + 30);
	while (fake_count(FAKE_REDELIVER))
		fake_redeliver(1, (const int64_t[]){1});
	for (int i = 0; i < FETCHES; i++)
		cr_expect_eq(fetches[i].count, 1);
	cr_expect_null(core->dispatch->readers);
	fake_end(core);
}

/* Each filtered Fetch has a claim of its own. */
Test(dispatch, a_caller_has_four_filtered_fetches_at_a_time)
{
	struct fake_fetch fetches[6];
	Reeve__V1__FetchRequest where = REEVE__V1__FETCH_REQUEST__INIT;
	struct fetch_request request = {.incarnation = 1, .slots = 1, .wait_ms = -1, .origin = 77, .where = &where.base};

	begin(0);
	for (int i = 0; i < 6; i++) {
		request.fetch_id = i + 1;
		fake_fetch(core, &fetches[i], request);
	}
	cr_expect_eq(fake_count(FAKE_PICK), 4);
	fake_ok(fake_take(FAKE_PICK)); /* it finds nothing */
	cr_expect_eq(fetches[0].answered, 1);
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_count(FAKE_PICK), 4);
	for (int i = 1; i < 6; i++) {
		fake_ok(fake_take(FAKE_PICK));
		dispatch_run(core->dispatch);
		for (int j = 0; j < 6; j++)
			cr_expect_eq(fetches[j].answered, j <= i, "Fetch %d after %d", j + 1, i + 1);
	}
	cr_expect_null(core->dispatch->readers);
	fake_end(core);
}

/* One that needs less does not go before one that is held. */
Test(dispatch, held_fetches_go_on_in_the_order_in_which_they_came)
{
	struct fake_fetch fetches[4], small, last;
	Reeve__V1__FetchRequest where = REEVE__V1__FETCH_REQUEST__INIT;
	struct fetch_request request = {.incarnation = 1, .slots = 1, .wait_ms = -1, .origin = 77, .where = &where.base};

	begin(0);
	for (int i = 0; i < 3; i++) {
		request.fetch_id = i + 1;
		fake_fetch(core, &fetches[i], request);
	}
	fake_fetch_only(core, &small, (struct fetch_request){.incarnation = 2, .fetch_id = 1, .slots = 1, .origin = 77});
	request.fetch_id = 4;
	fake_fetch(core, &fetches[3], request);
	fake_fetch_only(core, &last, (struct fetch_request){.incarnation = 3, .fetch_id = 1, .slots = 1, .origin = 77});
	cr_expect_eq(fake_count(FAKE_PICK), 3);
	cr_expect_eq(fake_count(FAKE_REDELIVER), 1, "the last one waits");
	fake_ok(fake_take(FAKE_PICK));
	dispatch_run(core->dispatch);
	cr_expect_eq(fake_count(FAKE_PICK), 3);
	cr_expect_eq(fake_count(FAKE_REDELIVER), 2);
	while (fake_count(FAKE_PICK))
		fake_ok(fake_take(FAKE_PICK));
	fake_redeliver(1, (const int64_t[]){7});
	fake_redeliver(1, (const int64_t[]){8});
	cr_expect_null(core->dispatch->readers);
	fake_end(core);
}

/* Not the text about unread answers: its caller reads them. */
Test(dispatch, a_held_fetch_that_is_not_served_in_time_hears_why)
{
	struct fake_fetch fetches[5];
	Reeve__V1__FetchRequest where = REEVE__V1__FETCH_REQUEST__INIT;
	struct fetch_request request = {.incarnation = 1, .slots = 1, .wait_ms = -1, .origin = 77, .where = &where.base};

	begin(0);
	for (int i = 0; i < 5; i++) {
		request.fetch_id = i + 1;
		fake_fetch(core, &fetches[i], request);
	}
	fake_pass(core, UNPARKED_LIMIT_MS);
	cr_expect_eq(fetches[4].code, STATUS(UNAVAILABLE));
	cr_expect(strstr(fetches[4].message, "earlier Fetches of the connection"), "%s", fetches[4].message);
	while (fake_count(FAKE_PICK))
		fake_ok(fake_take(FAKE_PICK));
	cr_expect_null(core->dispatch->readers);
	fake_end(core);
}
