/* The job that moves batches through their phases: when it queries, and what it does with the results. */
#include "manager/core/batches.h"

#include "manager/core/waits.h"
#include "tests/unit/manager/core/fake_store.h"

#include <criterion/criterion.h>

static struct store_batch_move *move_taken(int64_t id, enum store_batch_work work)
{
	struct store_batch_move *move = fake_take(FAKE_BATCH_MOVE);
	cr_assert_not_null(move);
	cr_expect_eq(move->due.id, id);
	cr_expect_eq(move->due.work, work);
	move->steps = move->name = move->queue = "";
	return move;
}

Test(batches, are_queried_once_a_second)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	fake.batch_polls = 0;
	fake_pass(core, 10000);
	cr_expect_eq(fake.batch_polls, 10);
	cr_expect_eq(fake_count(FAKE_BATCH_MOVE), 0);
	fake_end(core);
}

Test(batches, a_wake_acts_at_once_and_many_in_a_row_do_not)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	fake.batch_polls = 0;
	jobs_ask(core->base.jobs, JOB_BATCHES);
	fake_pass(core, 1);
	cr_expect_eq(fake.batch_polls, 1);
	for (int i = 0; i < 100; i++) {
		jobs_ask(core->base.jobs, JOB_BATCHES);
		fake_pass(core, 1);
	}
	cr_expect(fake.batch_polls > 5 && fake.batch_polls < 15, "%d looks", fake.batch_polls);
	fake_end(core);
}

Test(batches, a_wake_during_a_query_causes_another_query)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	fake.batches[0] = (struct store_batch_due){1, STORE_BATCH_STEP};
	fake.batch_count = 1;
	jobs_ask(core->base.jobs, JOB_BATCHES);
	fake_pass(core, 20);
	fake.batch_polls = fake.batch_count = 0;
	struct store_batch_move *move = move_taken(1, STORE_BATCH_STEP);
	jobs_ask(core->base.jobs, JOB_BATCHES);
	fake_pass(core, 50);
	cr_expect_eq(fake.batch_polls, 0);
	fake_ok(move);
	fake_pass(core, 20);
	cr_expect_eq(fake.batch_polls, 1);
	fake_end(core);
}

Test(batches, are_moved_one_by_one_and_queried_again_after_a_change)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	fake.batches[0] = (struct store_batch_due){1, STORE_BATCH_STEP};
	fake.batches[1] = (struct store_batch_due){2, STORE_BATCH_RELEASE};
	fake.batch_count = 2;
	jobs_ask(core->base.jobs, JOB_BATCHES);
	fake_pass(core, 20);
	struct store_batch_move *move = move_taken(1, STORE_BATCH_STEP);
	cr_expect_eq(fake_count(FAKE_BATCH_MOVE), 0);
	fake_fail(move, STATUS(UNAVAILABLE)); /* another session has locked it; the next one runs nevertheless */
	move = move_taken(2, STORE_BATCH_RELEASE);
	move->tasks = 1000;
	fake.batch_polls = fake.batch_count = 0;
	fake_ok(move);
	fake_pass(core, 50);
	cr_expect_eq(fake.batch_polls, 1);
	fake_end(core);
}

Test(batches, when_several_are_locked_the_others_are_queried_without_them)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	for (int i = 0; i < 4; i++)
		fake.batches[i] = (struct store_batch_due){1 + i, STORE_BATCH_STEP};
	fake.batch_count = 4;
	jobs_ask(core->base.jobs, JOB_BATCHES);
	fake_pass(core, 20);
	fake.batch_polls = fake.batch_count = 0;
	fake_fail(move_taken(1, STORE_BATCH_STEP), STATUS(UNAVAILABLE));
	fake_fail(move_taken(2, STORE_BATCH_STEP), STATUS(UNAVAILABLE));
	cr_expect_eq(fake_count(FAKE_BATCH_MOVE), 0, "the rest of the page is not tried");
	fake_pass(core, 20);
	cr_expect_eq(fake.batch_polls, 1, "but looked for, at once");
	cr_expect_eq(fake.batches_due.after, 2);
	cr_expect(fake.batches_due.free_only);
	fake_pass(core, 1000);
	cr_expect_eq(fake.batch_polls, 2);
	cr_expect_eq(fake.batches_due.after, 0, "then from the beginning again");
	fake_end(core);
}

Test(batches, what_nothing_was_done_for_waits_for_the_next_second)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	fake.batches[0] = (struct store_batch_due){1, STORE_BATCH_STEP};
	fake.batch_count = 1;
	jobs_ask(core->base.jobs, JOB_BATCHES);
	fake_pass(core, 20);
	fake.batch_polls = 0;
	fake_ok(move_taken(1, STORE_BATCH_STEP));
	fake_pass(core, 900);
	cr_expect_eq(fake.batch_polls, 0);
	fake_pass(core, 200);
	cr_expect_eq(fake.batch_polls, 1);
	fake_end(core);
}

static void on_ended(void *arg, int asked, const int64_t *ended, int count, const struct reeve_error *error)
{
	cr_expect_null(error);
	cr_expect_eq(asked, 1);
	cr_expect_eq(count, 1);
	*(int64_t *)arg = count ? ended[0] : 0;
}

Test(batches, waiters_for_a_blocked_task_are_notified_of_its_end)
{
	struct core *core = fake_core();
	int64_t id = 17, told = 0;
	fake_pass(core, 500);
	waits_add(core->waits, &id, 1, 60000, 0, on_ended, &told, NULL);
	fake_pass(core, 1);
	struct store_ended *look = fake_take(FAKE_ENDED);
	cr_assert_not_null(look);
	look->live = &id;
	look->live_count = 1;
	fake_ok(look);
	fake.batches[0] = (struct store_batch_due){1, STORE_BATCH_FAIL};
	fake.batch_count = 1;
	jobs_ask(core->base.jobs, JOB_BATCHES);
	fake_pass(core, 20);
	fake.batch_count = 0;
	struct store_batch_move *move = move_taken(1, STORE_BATCH_FAIL);
	move->tasks = 1;
	move->ended = &id;
	fake_ok(move);
	fake_pass(core, 50);
	cr_expect_eq(told, id);
	fake_end(core);
}
