/* Maintenance jobs: the estimate of the database's time, expired attempts, and counts. */
#include "manager/core/maintenance.h"

#include "common/uuid.h"
#include "manager/core/db_clock.h"
#include "manager/core/dispatch.h"
#include "manager/core/ready.h"
#include "manager/core/submit.h"
#include "manager/core/waits.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct core *core;

Test(maintenance, the_databases_time_goes_on_between_readings)
{
	core = fake_core();
	cr_expect_leq(core_database_us(core), fake_db_us(), "it is never ahead");
	cr_expect_geq(core_database_us(core), fake_db_us() - 1000);
	int64_t before = core_database_us(core);
	fake_pass(core, 12345);
	cr_expect_eq(core_database_us(core), before + 12345000);
	fake_end(core);
}

/* Tasks that were due stay due. */
Test(maintenance, a_clock_set_back_hides_nothing)
{
	core = fake_core();
	int64_t before = core_database_us(core);

	fake.clock_us -= 3600 * INT64_C(1000000);
	fake_pass(core, 5000);
	cr_expect_geq(core_database_us(core), before + 5000000);
	fake.clock_us += 7200 * INT64_C(1000000);
	fake_pass(core, 5000);
	cr_expect_leq(core_database_us(core), fake_db_us());
	cr_expect_geq(core_database_us(core), fake_db_us() - 1000, "forwards it is believed");
	fake_end(core);
}

/* As soon as the clock has caught up, the estimate follows it again. */
Test(maintenance, the_estimate_is_the_clock_again_when_that_has_caught_up)
{
	core = fake_core();
	fake.clock_us += 3600 * INT64_C(1000000);
	fake_pass(core, 5000);
	fake.clock_us -= 3600 * INT64_C(1000000);
	fake_pass(core, 3594000);
	cr_expect_geq(core_database_us(core), fake_db_us() + 3599 * INT64_C(1000000));
	fake_pass(core, 20000);
	cr_expect_leq(core_database_us(core), fake_db_us());
	cr_expect_geq(core_database_us(core), fake_db_us() - 1000);
	fake_end(core);
}

/* A manager that starts later uses the estimate of the earlier managers. */
Test(maintenance, another_manager_has_seen_the_clock_ahead)
{
	const int64_t s = 1000000;

	core = fake_core();
	fake.shown_us = fake_db_us() + 7200 * s;
	fake.estimate_us = fake_db_us() + 7300 * s;
	fake.set_back_us = fake_db_us() - 100 * s;
	fake_pass(core, 2000);
	cr_expect_geq(core_database_us(core), fake_db_us() + 7299 * s);
	cr_expect_eq(db_clock_set_back_us(core->clock), fake.set_back_us);
	int64_t before = core_database_us(core);
	fake_pass(core, 5000);
	cr_expect_geq(core_database_us(core), before + 5 * s);
	cr_expect_leq(core_clock_us(core), fake_db_us());
	fake_end(core);
}

static bool taken(int64_t at_us)
{
	uint8_t id[UUID_BYTES];
	struct reeve_error error;

	uuid7_make(at_us / 1000, id);
	return request_id_timely(core->clock, id, &error);
}

/* Ids with the actual time of the database's clock, or with this manager's estimate, are accepted, even if the clock
 * was set. An id from before the clock was set forward may have been forgotten since then. */
Test(maintenance, request_ids_are_accepted_by_the_clock_and_by_the_estimate)
{
	const int64_t s = 1000000, hour = 3600 * s;

	core = fake_core();
	int64_t before = core_clock_us(core);

	fake.clock_us += 26 * hour;
	fake_pass(core, 5000);
	cr_expect(taken(core_clock_us(core)), "while it is ahead");
	cr_expect_not(taken(before), "a day old by then");
	fake.clock_us -= 26 * hour;
	fake_pass(core, 5000);
	cr_expect(taken(core_clock_us(core)), "set back");
	cr_expect(taken(core_clock_us(core) + hour / 2));
	cr_expect(taken(core_clock_us(core) + 26 * hour), "told while it was ahead");
	cr_expect_not(taken(before), "made before it was set forward");
	cr_expect_not(taken(core_clock_us(core) + 28 * hour), "of no time that there was");
	fake_end(core);
}

Test(maintenance, nothing_expires_before_a_lease_has_passed)
{
	core = fake_core();
	fake_pass(core, 14000);
	cr_expect_eq(fake.expired_polls, 0);
	fake_pass(core, 3000);
	cr_expect_gt(fake.expired_polls, 0);
	fake_end(core);
}

/* A live worker may be about to report results from the time of the outage. */
Test(maintenance, nor_in_an_outage_or_in_the_lease_after_it)
{
	core = fake_core();
	fake_pass(core, 20000);
	fake.down = true;
	fake_pass(core, 30000);
	fake.down = false;
	fake.expired_polls = 0;
	fake_pass(core, 14000);
	cr_expect_eq(fake.expired_polls, 0);
	fake_pass(core, 3000);
	cr_expect_gt(fake.expired_polls, 0);
	fake_end(core);
}

Test(maintenance, nor_when_the_process_was_stopped)
{
	core = fake_core();
	fake_pass(core, 20000);
	fake.now_ms += 60000; /* in one jump */
	fake.expired_polls = 0;
	fake_pass(core, 14000);
	cr_expect_eq(fake.expired_polls, 0);
	fake_pass(core, 3000);
	cr_expect_gt(fake.expired_polls, 0);
	fake_end(core);
}

/* Short leases and heartbeats, as in other tests. */
Test(maintenance, short_leases_expire_too)
{
	core = fake_core_with(&(struct core_options){.lease_ms = 500, .heartbeat_ms = 100, .expiry_grace_ms = 600});
	fake_pass(core, 2000);
	cr_expect_gt(fake.expired_polls, 0);
	fake_end(core);
}

static void on_wait(void *arg, int asked, const int64_t *ended, int count, const struct reeve_error *error)
{
	(void)asked, (void)ended, (void)error;
	*(int *)arg = count;
}

/* Attempts that have expired: a task that waits again returns to the ready cache, and the end of a task is reported to
 * waiting calls. */
Test(maintenance, what_becomes_of_expired_attempts)
{
	struct fake_fetch fetch;
	int ended = -1, route = fake_route("q", "t");

	core = fake_core();
	fake_pass(core, 14900);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = 15000});
	fake_stream(route, 0);
	while (fake_count(FAKE_PAGE))
		fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	waits_add(core->waits, (int64_t[]){5}, 1, 60000, 0, on_wait, &ended, NULL);
	struct store_ended *look = fake_take(FAKE_ENDED);
	look->live = (int64_t[]){5};
	look->live_count = 1;
	look->ended_count = 0;
	fake_ok(look);

	struct store_expire *expire = NULL;
	for (int i = 0; i < 3000 && !expire; i++) {
		fake.now_ms++;
		if (fake.alarm_ms <= fake.now_ms) {
			fake.alarm_ms = INT64_MAX;
			core_turn(core);
		}
		expire = fake_take(FAKE_EXPIRE);
		fake_turn(core);
		while (fake_count(FAKE_PAGE))
			fake_page(fake_take(FAKE_PAGE), 0, NULL, 0);
	}
	cr_assert_not_null(expire);
	int64_t now = fake_db_us();
	struct store_result results[] = {
	    {.id = 4,
	        .token = 1,
	        .outcome = STORE_EXPIRED,
	        .becomes = "failed",
	        .route = route,
	        .version = now,
	        .due_us = now},
	    {.id = 5, .token = 1, .outcome = STORE_EXPIRED, .becomes = "dead", .ended = true},
	};
	expire->results = results;
	expire->count = 2;
	expire->more = false;
	fake_ok(expire);
	cr_expect_eq(ended, 1);
	fake_page(fake_page_taken(route, 0), 1, &(struct store_candidate){4, now, now, 10}, 0);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.ids[0], 4);
	fake_end(core);
}

/* Returns the next query for expired attempts; fails the test if there is none for a while. The caller answers it. */
static struct store_expire *expire_taken(void)
{
	struct store_expire *expire = NULL;

	for (int i = 0; i < 5000 && !expire; i++) {
		fake.now_ms++;
		if (fake.alarm_ms <= fake.now_ms) {
			fake.alarm_ms = INT64_MAX;
			core_turn(core);
		}
		expire = fake_take(FAKE_EXPIRE);
		fake_turn(core);
	}
	cr_assert_not_null(expire);
	return expire;
}

static void expire_nothing(struct store_expire *expire)
{
	expire->count = 0;
	expire->more = false;
	fake_ok(expire);
}

/* Rows that cannot be ended now stay at the head; the rows after them are processed nevertheless. */
Test(maintenance, a_full_page_of_the_journal_is_followed_by_the_next)
{
	core = fake_core();
	fake_pass(core, 20000);
	struct store_expire *expire = expire_taken();
	cr_expect_eq(expire->after.key, STORE_TIME_BEGIN);
	expire->more = true;
	expire->last = (struct store_place){77, 5};
	int64_t at_ms = fake.now_ms;
	fake_ok(expire);
	expire = expire_taken();
	cr_expect_leq(fake.now_ms - at_ms, 20, "at once");
	cr_expect_eq(expire->after.key, 77);
	cr_expect_eq(expire->after.id, 5);
	expire_nothing(expire);
	expire = expire_taken();
	cr_expect_eq(expire->after.key, STORE_TIME_BEGIN, "then from the beginning again");
	expire_nothing(expire);
	fake_end(core);
}

/* Every query of the counts scans what has not been added up yet. */
Test(maintenance, counts_are_added_up_every_second_and_at_once_after_a_full_page)
{
	core = fake_core();
	fake_pass(core, 5000);
	int before = fake.folds;
	fake_pass(core, 10000);
	cr_expect_geq(fake.folds - before, 9);
	cr_expect_leq(fake.folds - before, 11);
	fake.folds_more = 5;
	before = fake.folds;
	fake_pass(core, 1200);
	cr_expect_geq(fake.folds - before, 6);
	fake_end(core);
}

/* Attempts that were assigned before this manager started have been watched only since its start. */
Test(maintenance, earlier_attempts_are_watched_from_the_first_heartbeat_on)
{
	fake_route("q", "t");
	core = fake_core();
	fake_pass(core, 14900);
	fake.assignments = 9;
	struct store_expire *expire = expire_taken();
	cr_expect_eq(expire->before_assignment, 0);
	cr_expect_geq(expire->watched_ms, 14900);
	cr_expect_leq(expire->watched_ms, 17000);
	cr_expect_leq(expire->now_us - fake_db_us(), 1000);
	expire_nothing(expire);
	fake_end(core);
}

/* A jump of the clock ends no running attempt: its time is watched from the beginning again. */
Test(maintenance, a_jump_of_the_databases_clock_is_noticed_either_way)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		core = fake_core();
		fake_pass(core, 20000);
		fake.assignments = 42;
		fake_pass(core, 2000);
		int64_t before_us = fake_db_us();
		fake.clock_us += sign * 3600 * INT64_C(1000000);
		struct store_expire *expire = expire_taken();
		if (expire->before_assignment != 42) { /* not noticed yet: the time is not later than the old clock's */
			cr_expect_leq(expire->now_us - before_us, 2000000);
			expire_nothing(expire);
			fake_pass(core, 1500);
			expire = expire_taken();
		}
		cr_expect_eq(expire->before_assignment, 42);
		cr_expect_leq(expire->watched_ms, 3500);
		expire_nothing(expire);
		fake_pass(core, 10000);
		expire = expire_taken();
		cr_expect_eq(expire->before_assignment, 42, "and not a second time");
		cr_expect_geq(expire->watched_ms, 10000);
		expire_nothing(expire);
		fake_end(core);
	}
}

/* If the database's host vanishes, no connection breaks; only the missing answers show it. */
Test(maintenance, a_database_that_does_not_answer_is_distinguished_from_one_that_does)
{
	core = fake_core();
	fake_pass(core, 5000);
	cr_expect(core_database_fresh(core));
	fake.down = true;
	fake_pass(core, 1000);
	cr_expect(core_database_fresh(core), "not at once");
	fake_pass(core, 3000);
	cr_expect_not(core_database_fresh(core));
	fake.down = false;
	fake_pass(core, 1100);
	cr_expect(core_database_fresh(core));
	fake_end(core);
}
