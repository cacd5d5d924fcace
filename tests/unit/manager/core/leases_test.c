/* Leases: which workers a manager marks lost and when, and what it sweeps. */
#include "manager/core/leases.h"

#include "manager/core/dispatch.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>

static struct core *core;

static struct store_lose *lose_taken(void)
{
	return fake_take(FAKE_LOSE);
}

static void lose_ok(struct store_lose *op, int64_t incarnation)
{
	op->lost = &incarnation;
	op->lost_count = incarnation != 0;
	fake_ok(op);
}

Test(leases, a_worker_that_is_frozen_for_a_lease_is_lost)
{
	core = fake_core_with_worker();
	fake_pass(core, 13500);
	cr_expect_null(lose_taken(), "not before a whole lease has passed since it was first seen so");
	fake_pass(core, 1500);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op);
	cr_expect_eq(op->count, 1);
	cr_expect_eq(op->beats[0].incarnation, 5);
	cr_expect_eq(op->beats[0].seq, 1, "and only if it still stands there");
	lose_ok(op, 5);
	fake_end(core);
}

/* Thousands have registered and sent no heartbeat. One statement marks a thousand of them; the next comes at once, not
 * with the next regular poll, so that they do not delay the loss of others. */
Test(leases, thousands_that_freeze_are_lost_one_statement_after_the_other)
{
	core = fake_core();
	fake.workers = FAKE_WORKERS_MAX;
	for (int i = 0; i < FAKE_WORKERS_MAX; i++)
		fake.beats[i] = (struct store_beat){.incarnation = 5 + i, .seq = 1, .lease_ms = 15000};
	fake_pass(core, 16000);
	int64_t begun_ms = fake.now_ms;
	for (int lost = 0; lost < FAKE_WORKERS_MAX;) {
		struct store_lose *op = lose_taken();
		cr_assert_not_null(op, "after %d of %d, %d ms later", lost, FAKE_WORKERS_MAX, (int)(fake.now_ms - begun_ms));
		int64_t *ids = calloc((size_t)op->count, sizeof *ids);
		for (int i = 0; i < op->count; i++)
			ids[i] = op->beats[i].incarnation;
		lost += op->lost_count = op->count;
		op->lost = ids;
		fake.workers -= op->count;
		memmove(fake.beats, fake.beats + op->count, sizeof *fake.beats * (size_t)fake.workers);
		fake_ok(op);
		free(ids);
		fake_pass(core, 10);
	}
	fake_end(core);
}

/* The first thousand are locked. */
Test(leases, locked_ones_hide_no_others_and_are_retried_with_the_next_poll)
{
	int tries = 0, others = 0;

	core = fake_core();
	fake.workers = FAKE_WORKERS_MAX;
	for (int i = 0; i < FAKE_WORKERS_MAX; i++)
		fake.beats[i] = (struct store_beat){.incarnation = 5 + i, .seq = 1, .lease_ms = 15000};
	fake_pass(core, 16000);
	for (int64_t end_ms = fake.now_ms + 2000; fake.now_ms < end_ms; fake_pass(core, 10)) {
		struct store_lose *op = fake_take(FAKE_LOSE);
		if (!op)
			continue;
		tries += op->beats[0].incarnation == 5;
		others += op->beats[0].incarnation > 1000;
		fake_ok(op);
	}
	cr_expect_gt(others, 0);
	cr_expect_leq(tries, 6, "%d tries in 2 s", tries);
	fake_end(core);
}

Test(leases, one_that_moves_on_is_not)
{
	core = fake_core_with_worker();
	for (int i = 2; i < 20; i++) {
		fake_pass(core, 4000);
		fake.beats[0].seq = i;
	}
	cr_expect_null(lose_taken());
	fake_pass(core, 14000);
	cr_expect_null(lose_taken(), "its lease began with the last one");
	fake_pass(core, 2000);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op);
	lose_ok(op, 5);
	fake_end(core);
}

/* Another manager, with other options, may have given the worker another lease. */
Test(leases, the_lease_is_the_one_that_the_worker_received)
{
	core = fake_core_with_worker();
	fake.beats[0].lease_ms = 40000;
	fake_pass(core, 39000);
	cr_expect_null(lose_taken());
	fake_pass(core, 2000);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op);
	lose_ok(op, 5);
	fake_end(core);
}

/* The database's clock plays no part. */
Test(leases, the_databases_clock_may_jump)
{
	core = fake_core_with_worker();
	fake.clock_us += 3600 * INT64_C(1000000);
	fake_pass(core, 8000);
	cr_expect_null(lose_taken());
	fake.clock_us -= 7200 * INT64_C(1000000);
	fake_pass(core, 8000);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op, "nor does it keep a dead one");
	lose_ok(op, 5);
	fake_end(core);
}

/* In an outage, no worker's number changes. */
Test(leases, a_failed_query_restarts_the_watch)
{
	core = fake_core_with_worker();
	fake_pass(core, 12000);
	fake.down = true;
	fake_pass(core, 500);
	fake.down = false;
	fake_pass(core, 14000);
	cr_expect_null(lose_taken());
	fake_pass(core, 2000);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op);
	lose_ok(op, 5);
	fake_end(core);
}

Test(leases, so_does_a_gap_in_which_this_process_was_frozen)
{
	core = fake_core_with_worker();
	fake.now_ms += 60000; /* in one jump */
	fake_pass(core, 14000);
	cr_expect_null(lose_taken());
	fake_pass(core, 2000);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op);
	lose_ok(op, 5);
	fake_end(core);
}

/* The answer to a query that was in flight during the gap is old. */
Test(leases, so_does_a_query_that_took_too_long)
{
	core = fake_core_with_worker();
	fake_pass(core, 13000);
	for (int i = 0; i < 2000 && !fake_count(FAKE_WATCH); i++) {
		fake.now_ms++;
		if (fake.alarm_ms <= fake.now_ms) {
			fake.alarm_ms = INT64_MAX;
			core_turn(core);
		}
	}
	struct store_watch *look = fake_take(FAKE_WATCH);
	cr_assert_not_null(look);
	fake.now_ms += 9000;
	look->beats = fake.beats;
	look->count = 1;
	fake_ok(look);
	fake_pass(core, 3000);
	cr_expect_null(lose_taken());
	fake_end(core);
}

/* The first commit ends the worker's Fetches and starts the second at once. */
Test(leases, what_follows_from_a_loss)
{
	struct fake_fetch fetch;

	core = fake_core_with_worker();
	fake_pass(core, 5000);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 5, .fetch_id = 1, .wait_ms = 15000});
	fake_pass(core, 10000);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op);
	cr_expect_eq(fetch.answered, 0);
	int before = fake.sweeps;
	fake.workers = 0;
	lose_ok(op, 5);
	cr_expect_eq(fetch.code, STATUS(FAILED_PRECONDITION));
	cr_expect_eq(core->base.counters.lost, 1);
	fake_pass(core, 1);
	cr_expect_eq(fake.sweeps, before + 1, "its tasks are looked for at once");
	fake_end(core);
}

/* A heartbeat came in between: the worker is alive. */
Test(leases, who_was_not_lost_after_all_keeps_its_fetches)
{
	struct fake_fetch fetch;

	core = fake_core_with_worker();
	fake_pass(core, 5000);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 5, .fetch_id = 1, .wait_ms = 15000});
	fake_pass(core, 10000);
	struct store_lose *op = lose_taken();
	cr_assert_not_null(op);
	fake.beats[0].seq = 2;
	lose_ok(op, 0);
	cr_expect_eq(fetch.answered, 0);
	fake_pass(core, 400);
	cr_expect_null(lose_taken());
	fake_end(core);
}

/* A worker that another manager has marked is detected by its absence. */
Test(leases, who_was_lost_elsewhere_is_answered_here)
{
	struct fake_fetch fetch;

	core = fake_core_with_worker();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 5, .fetch_id = 1, .wait_ms = 15000});
	fake.workers = 0;
	fake_pass(core, 500);
	cr_expect_eq(fetch.code, STATUS(FAILED_PRECONDITION));
	fake_end(core);
}

/* A claim may be committed long after its worker was lost. */
Test(leases, the_scan_never_ends)
{
	core = fake_core_with_worker();
	fake.workers = 0;
	fake_pass(core, 1000);
	int before = fake.sweeps;
	fake_pass(core, 20000);
	cr_expect_geq(fake.sweeps, before + 35, "of one lost lately");
	fake_pass(core, 60000);
	before = fake.sweeps;
	fake_pass(core, 60000);
	cr_expect_geq(fake.sweeps, before + 11, "of whomever, for ever");
	cr_expect_leq(fake.sweeps, before + 13);
	fake_end(core);
}

Test(leases, a_scan_that_found_something_continues_at_once)
{
	core = fake_core_with_worker();
	fake.workers = 0;
	struct store_sweep *sweep = NULL;
	for (int i = 0; i < 2000 && !sweep; i++) {
		fake.now_ms++;
		if (fake.alarm_ms <= fake.now_ms) {
			fake.alarm_ms = INT64_MAX;
			core_turn(core);
		}
		sweep = fake_take(FAKE_SWEEP);
		if (!sweep)
			fake_turn(core);
	}
	cr_assert_not_null(sweep);
	cr_expect(sweep->all || sweep->of[0] == 5);
	struct store_result results[] = {
	    {.id = 8, .token = 80, .outcome = STORE_LOST, .becomes = "queued", .version = 1, .due_us = 1}};
	sweep->results = results;
	sweep->count = 1;
	sweep->more = true;
	int before = fake.sweeps;
	fake_ok(sweep);
	cr_expect_eq(core->base.counters.reclaimed, 1);
	fake_pass(core, 50);
	cr_expect_eq(fake.sweeps, before + 1);
	fake_end(core);
}
