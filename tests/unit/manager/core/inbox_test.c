/* The inbox: when the tasks that were submitted by SQL are ingested. */
#include "manager/core/inbox.h"

#include "manager/core/waits.h"
#include "tests/unit/manager/core/fake_store.h"

#include <criterion/criterion.h>

static struct core *begin(void)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	fake.ingest_polls = 0;
	return core;
}

Test(inbox, the_inbox_is_not_queried_without_a_notification)
{
	struct core *core = begin();
	fake_pass(core, 10000);
	cr_expect_eq(fake.ingest_polls, 0);
	fake_end(core);
}

Test(inbox, a_notification_or_a_heartbeat_ingests_them_at_once)
{
	struct core *core = begin();
	core_notified(core, "inbox");
	fake_pass(core, 1);
	cr_expect_eq(fake.ingest_polls, 1);
	core_listening(core);
	fake_pass(core, 1);
	cr_expect_eq(fake.ingest_polls, 2);
	fake.inbox = true;
	fake_pass(core, 5000);
	cr_expect_eq(fake.ingest_polls, 7);
	fake_end(core);
}

/* More tasks may have arrived before the walk's position. */
Test(inbox, a_notification_during_a_scan_causes_another)
{
	struct core *core = begin();
	fake.ingesting = true;
	core_notified(core, "inbox");
	fake_pass(core, 1);
	struct store_ingest *op = fake_take(FAKE_INGEST);
	cr_assert_not_null(op);
	cr_expect_eq(op->beyond, 0);
	core_notified(core, "inbox");
	fake_pass(core, 10);
	cr_expect_eq(fake_count(FAKE_INGEST), 0);
	op->walked = 7;
	op->ingested = 3;
	fake_ok(op);
	op = fake_take(FAKE_INGEST);
	cr_assert_not_null(op);
	cr_expect_eq(op->beyond, 7);
	op->walked = 0;
	op->ingested = 0;
	fake_ok(op);
	fake_pass(core, 100);
	op = fake_take(FAKE_INGEST);
	cr_assert_not_null(op);
	cr_expect_eq(op->beyond, 0);
	op->walked = 0;
	fake_ok(op);
	fake_pass(core, 100);
	cr_expect_eq(fake_count(FAKE_INGEST), 0);
	fake_end(core);
}

Test(inbox, as_many_as_fit_are_not_all_and_the_same_are_asked_for_again)
{
	struct core *core = begin();
	fake.ingesting = true;
	core_notified(core, "inbox");
	fake_pass(core, 1);
	struct store_ingest *op = fake_take(FAKE_INGEST);
	op->walked = 7;
	op->ingested = op->limit;
	fake_ok(op);
	op = fake_take(FAKE_INGEST);
	cr_assert_not_null(op);
	cr_expect_eq(op->beyond, 6);
	fake_end(core);
}

Test(inbox, what_fails_is_retried_with_the_next_heartbeat)
{
	struct core *core = begin();
	fake.ingesting = true;
	core_notified(core, "inbox");
	fake_pass(core, 1);
	fake_fail(fake_take(FAKE_INGEST), STATUS(UNAVAILABLE));
	fake_pass(core, 5);
	cr_expect_eq(fake_count(FAKE_INGEST), 0);
	fake.inbox = true;
	fake_pass(core, 1000);
	cr_expect_eq(fake_count(FAKE_INGEST), 1);
	fake_end(core);
}

/* Each step finds tasks that were submitted since the one before. */
Test(inbox, a_walk_without_an_end_begins_again)
{
	struct core *core = begin();
	fake.ingesting = true;
	core_notified(core, "inbox");
	fake_pass(core, 1);
	int from_the_start = 0;
	for (int64_t until = fake.now_ms + 5000; fake.now_ms < until; fake_pass(core, 10)) {
		struct store_ingest *op = fake_take(FAKE_INGEST);
		if (!op)
			continue;
		from_the_start += !op->beyond;
		op->walked = op->beyond + 1;
		op->ingested = 1;
		fake_ok(op);
	}
	cr_expect_geq(from_the_start, 5);
	cr_expect_leq(from_the_start, 11);
	fake_end(core);
}

/* Each step waits for a batch that another transaction has locked. */
Test(inbox, tasks_of_locked_batches_do_not_keep_a_walk_from_later_tasks)
{
	struct core *core = begin();
	fake.ingesting = true;
	core_notified(core, "inbox");
	fake_pass(core, 1);
	int64_t reached = 0;
	for (int64_t until = fake.now_ms + 5000; fake.now_ms < until && reached < 40; fake_pass(core, 20)) {
		struct store_ingest *op = fake_take(FAKE_INGEST);
		cr_assert_not_null(op);
		op->walked = reached = op->beyond + 1;
		op->ingested = 0;
		fake_ok(op);
	}
	cr_expect_eq(reached, 40);
	fake_end(core);
}
