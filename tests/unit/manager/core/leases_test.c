/* Leases: which workers a manager marks lost and when, what it sweeps, and what it requeues after a heartbeat. */
#include "manager/core/leases.h"

#include "manager/core/dispatch.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>

static struct core *core;

/* Creates a core with a lease of 15 s and heartbeats of 4 s, and one worker, seen at once. */
static void begin(void)
{
	core = fake_core();
	fake.workers = 1;
	fake.beats[0] = (struct store_beat){.incarnation = 5, .seq = 1, .lease_ms = 15000};
	fake_pass(core, 1000);
}

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

static void on_nothing(struct store_op *op, const struct reeve_error *error)
{
	(void)op, (void)error;
}

Test(leases, a_worker_that_is_frozen_for_a_lease_is_lost)
{
	begin();
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

/* Thousands have registered and sent no heartbeat. One statement marks a thousand of them; the next comes at once, not with
 * the next regular poll, so that they do not delay the loss of others. */
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
	begin();
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
	begin();
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
	begin();
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
	begin();
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
	begin();
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
	begin();
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

	begin();
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

	begin();
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

	begin();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 5, .fetch_id = 1, .wait_ms = 15000});
	fake.workers = 0;
	fake_pass(core, 500);
	cr_expect_eq(fetch.code, STATUS(FAILED_PRECONDITION));
	fake_end(core);
}

/* A claim may be committed long after its worker was lost. */
Test(leases, the_scan_never_ends)
{
	begin();
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
	begin();
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
	struct store_result results[] = {{.id = 8, .token = 80, .outcome = STORE_LOST, .version = 1, .due_us = 1}};
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

/* What is closed stays closed; a query of all assignments now and then finds those that were committed late. */
Test(leases, a_query_begins_where_the_last_one_found_something_open)
{
	struct store_heartbeat op;
	int64_t waiting[] = {3}, from[8];
	const struct store_holding holding = {
	    .incarnation = 5, .highest_fetch = 90, .waiting_count = 1, .waiting = waiting};

	begin();
	for (int i = 0; i < 8; i++) {
		op = (struct store_heartbeat){.op.done = on_nothing, .incarnation = 5, .seq = i + 2};
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
		fake_pass(core, 4000);
	}
	cr_expect_eq(from[0], 0);
	cr_expect_eq(from[1], 80);
	cr_expect_eq(from[2], 80);
	cr_expect_eq(from[4], 0, "15 s later");
	cr_expect_eq(from[5], 80);
	fake_end(core);
}

/* --- Heartbeats --------------------------------------------------------------------------------------------------- */

static int answered;
static bool answered_lost;

static void on_heartbeat(struct store_op *op, const struct reeve_error *error)
{
	answered++;
	answered_lost = !error && ((struct store_heartbeat *)op)->lost;
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

Test(leases, a_newer_heartbeat_requeues_what_it_does_not_name)
{
	struct store_heartbeat op;

	begin();
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
	struct store_result results[] = {{.id = 8, .token = 80, .outcome = STORE_REQUEUED, .version = 1, .due_us = 1}};
	taken->results = results;
	taken->count = 1;
	fake_ok(taken);
	cr_expect_eq(core->base.counters.requeued, 1);
	cr_expect_eq(core->base.counters.returned, 0);
	fake_end(core);
}

/* Late and duplicate heartbeats have old information. */
Test(leases, an_older_heartbeat_requeues_nothing)
{
	struct store_heartbeat op;

	begin();
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

Test(leases, one_requeuing_at_a_time)
{
	struct store_heartbeat op;

	begin();
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
Test(leases, a_requeuing_is_its_callers_and_is_given_up_for_the_next_one)
{
	struct store_heartbeat op;

	begin();
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
Test(leases, an_idle_worker_is_checked_rarely)
{
	struct store_heartbeat op;
	int64_t seq = 1;

	begin();
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

Test(leases, lost_workers_are_notified)
{
	struct fake_fetch fetch;
	struct store_heartbeat op;

	begin();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 5, .fetch_id = 1, .wait_ms = 15000});
	struct store_heartbeat *given = beat(&op, 2);
	given->lost = true;
	fake_ok(given);
	cr_expect(answered_lost);
	cr_expect_eq(fetch.code, STATUS(FAILED_PRECONDITION));
	fake_end(core);
}
