/* Ending the tasks of queues: chunk by chunk, and stops until no task is left. */
#include "manager/core/queue_ends.h"

#include "tests/unit/manager/core/fake_store.h"

#include <criterion/criterion.h>

static int64_t purged;
static bool failed;

static void on_purged(void *arg, int64_t tasks, const struct reeve_error *error)
{
	(void)arg;
	purged = tasks;
	failed = error != NULL;
}

/* Answers a chunk in which this many waiting tasks ended. */
static void end_chunk(struct store_queue_end *op, int ended, bool more)
{
	struct store_edited tasks[4] = {{0}};
	for (int i = 0; i < ended; i++)
		tasks[i] = (struct store_edited){.id = i + 1, .ended = true};
	op->tasks = tasks;
	op->found = ended;
	op->more = more;
	fake_ok(op);
}

Test(queue_ends, a_purge_goes_on_until_there_is_no_more)
{
	struct core *core = fake_core();
	queue_purge(core->queue_stops, "q", 77, "me", 0, on_purged, NULL);
	struct store_queue_end *op = fake_take(FAKE_QUEUE_END);
	cr_assert_not_null(op);
	cr_expect_eq(op->up_to, 77);
	cr_expect_not(op->stopping);
	cr_expect_str_eq(op->reason, "queue \"q\" was purged");
	end_chunk(op, 3, true);
	op = fake_take(FAKE_QUEUE_END);
	cr_assert_not_null(op);
	end_chunk(op, 2, false);
	cr_expect_eq(purged, 5);
	cr_expect_not(failed);
	fake_end(core);
}

Test(queue_ends, stops_are_not_queried_while_no_queue_is_stopped)
{
	struct core *core = fake_core();
	fake_pass(core, 5000);
	cr_expect_eq(fake_count(FAKE_QUEUE_STOPS), 0);
	fake_end(core);
}

/* For example because a stopped queue has many callback tasks. */
Test(queue_ends, a_query_that_takes_long_is_repeated_after_a_multiple_of_its_time)
{
	struct core *core = fake_core();
	fake.queues[0] = (struct store_queue){.name = "q", .state = STORE_QUEUE_STOPPED};
	fake.queue_count = 1;
	fake.queue_changes++;
	fake_pass(core, 3000); /* it takes at least 1.5 s */
	fake_ok(fake_take(FAKE_QUEUE_STOPS));
	fake_pass(core, 9900);
	cr_expect_eq(fake_count(FAKE_QUEUE_STOPS), 0);
	fake_pass(core, 700);
	cr_expect_eq(fake_count(FAKE_QUEUE_STOPS), 1);
	fake_ok(fake_take(FAKE_QUEUE_STOPS));
	/* A stop that is requested does not wait, and a short query is repeated soon. */
	queue_stops_poll(core->queue_stops);
	fake_pass(core, 1);
	cr_expect_eq(fake_count(FAKE_QUEUE_STOPS), 1);
	fake_ok(fake_take(FAKE_QUEUE_STOPS));
	fake_pass(core, 600);
	cr_expect_eq(fake_count(FAKE_QUEUE_STOPS), 1);
	fake_end(core);
}

Test(queue_ends, a_stop_is_gone_on_with_until_nothing_is_left)
{
	struct core *core = fake_core();
	struct store_stop_work work = {"q", "me", 9};
	fake_pass(core, 500);
	queue_stops_poll(core->queue_stops);
	fake_pass(core, 1);
	struct store_queue_stops *look = fake_take(FAKE_QUEUE_STOPS);
	cr_assert_not_null(look);
	look->work = &work;
	look->count = 1;
	fake_ok(look);
	struct store_queue_end *op = fake_take(FAKE_QUEUE_END);
	cr_assert_not_null(op);
	cr_expect(op->stopping);
	cr_expect_eq(op->up_to, 9);
	end_chunk(op, 2, false);
	/* The ended task may have been the last one: it checks at once. */
	fake_pass(core, 1);
	look = fake_take(FAKE_QUEUE_STOPS);
	cr_assert_not_null(look);
	look->count = 0;
	fake_ok(look);
	fake_end(core);
}
