/* Heartbeats: what a manager requeues because, by its worker's heartbeat, it never arrived. */
#include "manager/core/leases.h"

#include "manager/core/dispatch.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>

static struct core *core;

static int answered;
static bool answered_lost;

static void on_heartbeat(struct store_op *op, const struct reeve_error *error)
{
	answered++;
	answered_lost = !error && ((struct store_heartbeat *)op)->lost;
}

/* What is closed stays closed; a query of all assignments now and then finds those that were committed late. */
static void expect_full_check_at_the_fifth(int lease_ms, int pass_ms)
{
	struct store_heartbeat op;
	int64_t waiting[] = {3}, from[8];
	const struct store_holding holding = {
	    .incarnation = 5, .highest_fetch = 90, .waiting_count = 1, .waiting = waiting};

	core = fake_core_with_worker();
	core->base.options.lease_ms = lease_ms;
	for (int i = 0; i < 8; i++) {
		op = (struct store_heartbeat){.op.done = on_heartbeat, .incarnation = 5, .seq = i + 2};
		leases_heartbeat(core->leases, &op, &holding);
		struct store_heartbeat *given = fake_take(FAKE_HEARTBEAT);
		given->renewed = true;
		fake_ok(given);
		struct store_requeue *taken = fake_take(FAKE_REQUEUE);
		cr_assert_not_null(taken);
		from[i] = taken->lowest_fetch;
		taken->count = 0;
		taken->lowest_open = 80;
		fake_ok(taken);
		fake_pass(core, pass_ms);
	}
	cr_expect_eq(from[0], 0);
	cr_expect_eq(from[1], 80);
	cr_expect_eq(from[2], 80);
	cr_expect_eq(from[4], 0);
	cr_expect_eq(from[5], 80);
	fake_end(core);
}

Test(requeue, a_query_begins_where_the_last_one_found_something_open)
{
	expect_full_check_at_the_fifth(60000, 4000); /* 15 s later */
}

/* So a task that an old Fetch got late is executed within the time in which an interrupted one is. */
Test(requeue, late_claims_are_found_within_a_lease)
{
	expect_full_check_at_the_fifth(1600, 400);
}

/* Sends a heartbeat of incarnation 5, which holds task 7 and waits for Fetch 3 of 4. */
static struct store_heartbeat *beat(struct store_heartbeat *op, int64_t seq)
{
	int64_t waiting[] = {3}, ids[] = {7}, tokens[] = {70};
	const struct store_holding holding = {.incarnation = 5,
	    .highest_fetch = 4,
	    .waiting_count = 1,
	    .waiting = waiting,
	    .held_count = 1,
	    .held_ids = ids,
	    .held_tokens = tokens};

	*op = (struct store_heartbeat){.op.done = on_heartbeat, .op.origin = 9, .incarnation = 5, .seq = seq};
	leases_heartbeat(core->leases, op, &holding);
	struct store_heartbeat *given = fake_take(FAKE_HEARTBEAT);
	cr_assert_not_null(given);
	cr_expect_eq(given->seq, seq);
	return given;
}

Test(requeue, a_newer_heartbeat_requeues_what_it_does_not_name)
{
	struct store_heartbeat op;

	core = fake_core_with_worker();
	struct store_heartbeat *given = beat(&op, 2);
	cr_expect_null(fake_take(FAKE_REQUEUE), "not before it is committed");
	given->renewed = true;
	fake_ok(given);
	cr_expect_eq(answered, 1, "the worker does not wait for that");
	struct store_requeue *taken = fake_take(FAKE_REQUEUE);
	cr_assert_not_null(taken);
	cr_expect_eq(taken->holding.incarnation, 5);
	cr_expect_eq(taken->holding.highest_fetch, 4);
	cr_expect_eq(taken->holding.waiting[0], 3);
	cr_expect_eq(taken->holding.held_ids[0], 7);
	cr_expect_eq(taken->holding.held_tokens[0], 70);
	struct store_result results[] = {
	    {.id = 8, .token = 80, .outcome = STORE_REQUEUED, .becomes = "queued", .version = 1, .due_us = 1}};
	taken->results = results;
	taken->count = 1;
	fake_ok(taken);
	cr_expect_eq(core->base.counters.requeued, 1);
	cr_expect_eq(core->base.counters.returned, 0);
	fake_end(core);
}

/* Late and duplicate heartbeats have old information. */
Test(requeue, an_older_heartbeat_requeues_nothing)
{
	struct store_heartbeat op;

	core = fake_core_with_worker();
	struct store_heartbeat *given = beat(&op, 2);
	given->renewed = false;
	fake_ok(given);
	cr_expect_eq(answered, 1);
	cr_expect_null(fake_take(FAKE_REQUEUE));
	given = beat(&op, 3);
	fake_fail(given, STATUS(UNAVAILABLE));
	cr_expect_eq(answered, 2);
	cr_expect_null(fake_take(FAKE_REQUEUE));
	fake_end(core);
}

Test(requeue, one_requeuing_at_a_time)
{
	struct store_heartbeat op;

	core = fake_core_with_worker();
	struct store_heartbeat *given = beat(&op, 2);
	given->renewed = true;
	fake_ok(given);
	given = beat(&op, 3);
	given->renewed = true;
	fake_ok(given);
	cr_expect_eq(fake_count(FAKE_REQUEUE), 1);
	struct store_requeue *taken = fake_take(FAKE_REQUEUE);
	taken->count = 0;
	fake_fail(taken, STATUS(UNAVAILABLE));
	given = beat(&op, 4);
	given->renewed = true;
	fake_ok(given);
	cr_expect_eq(fake_count(FAKE_REQUEUE), 1);
	fake_end(core);
}

/* So the limits of what waits apply to it, like to the heartbeat itself. What was refused comes with the next one. */
Test(requeue, a_requeuing_is_its_callers_and_is_given_up_for_the_next_one)
{
	struct store_heartbeat op;

	core = fake_core_with_worker();
	for (int seq = 2; seq < 5; seq++) {
		struct store_heartbeat *given = beat(&op, seq);
		given->renewed = true;
		fake_ok(given);
		struct store_requeue *taken = fake_take(FAKE_REQUEUE);
		cr_assert_not_null(taken);
		cr_expect_eq(taken->op.origin, 9);
		cr_expect_eq(taken->op.deadline_ms, fake.now_ms + core->base.options.heartbeat_ms);
		cr_expect_eq(taken->lowest_fetch, 0, "what was refused has checked nothing");
		taken->count = 0;
		fake_fail(taken, seq % 2 ? STATUS(RESOURCE_EXHAUSTED) : STATUS(UNAVAILABLE));
	}
	fake_end(core);
}

/* What the worker waits for is never requeued: if nothing else is open, there is nothing to query. */
Test(requeue, an_idle_worker_is_checked_rarely)
{
	struct store_heartbeat op;
	int64_t seq = 1;

	core = fake_core_with_worker();
	for (int round = 0; round < 3; round++) {
		struct store_heartbeat *given = beat(&op, ++seq);
		given->renewed = true;
		fake_ok(given);
		struct store_requeue *taken = fake_take(FAKE_REQUEUE);
		cr_assert_not_null(taken, "late claims of older Fetches are looked for so often");
		cr_expect_eq(taken->lowest_fetch, 0);
		taken->count = 0;
		taken->lowest_open = 3; /* the worker waits for 3; it does not wait for 4, which may have something */
		fake_ok(taken);
		given = beat(&op, ++seq);
		given->renewed = true;
		fake_ok(given);
		taken = fake_take(FAKE_REQUEUE);
		cr_assert_not_null(taken);
		cr_expect_eq(taken->lowest_fetch, 3);
		taken->count = 0;
		taken->lowest_open = 5; /* nothing is open */
		fake_ok(taken);
		for (int i = 0; i < 3; i++) {
			given = beat(&op, ++seq);
			given->renewed = true;
			fake_ok(given);
			cr_expect_eq(fake_count(FAKE_REQUEUE), 0);
		}
		fake_pass(core, 15000);
	}
	fake_end(core);
}

Test(requeue, lost_workers_are_notified)
{
	struct fake_fetch fetch;
	struct store_heartbeat op;

	core = fake_core_with_worker();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 5, .fetch_id = 1, .wait_ms = 15000});
	struct store_heartbeat *given = beat(&op, 2);
	given->lost = true;
	fake_ok(given);
	cr_expect(answered_lost);
	cr_expect_eq(fetch.code, STATUS(FAILED_PRECONDITION));
	fake_end(core);
}
