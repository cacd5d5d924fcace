/* The job that fires schedules: when it runs. The database decides what is due. */
#include "manager/core/schedules.h"

#include "manager/core/notifications.h"
#include "tests/unit/manager/core/fake_store.h"

#include <criterion/criterion.h>

/* Creates a core that is idle. */
static struct core *core_at_rest(void)
{
	struct core *core = fake_core();
	fake_pass(core, 500);
	fake.schedule_polls = 0;
	return core;
}

Test(schedules, are_asked_for_now_and_then_while_nothing_is_due)
{
	struct core *core = core_at_rest();
	fake_pass(core, 10000);
	cr_expect_eq(fake.schedule_polls, 5);
	fake_end(core);
}

Test(schedules, the_next_time_is_waited_for_and_not_less)
{
	struct core *core = core_at_rest();
	fake.schedule_next_us = 250 * 1000 + 1;
	jobs_ask(core->base.jobs, JOB_SCHEDULES);
	fake_pass(core, 0);
	cr_expect_eq(fake.schedule_polls, 1);
	fake_pass(core, 250);
	cr_expect_eq(fake.schedule_polls, 1);
	fake_pass(core, 1);
	cr_expect_eq(fake.schedule_polls, 2);
	fake_end(core);
}

Test(schedules, what_is_left_is_asked_for_at_once)
{
	struct core *core = core_at_rest();
	fake.schedule_next_us = 0;
	jobs_ask(core->base.jobs, JOB_SCHEDULES);
	for (int i = 0; i < 5; i++)
		fake_turn(core);
	cr_expect_eq(fake.schedule_polls, 5);
	fake.schedule_next_us = STORE_TIME_NEVER;
	fake_end(core);
}

Test(schedules, a_notified_change_is_applied_during_a_query)
{
	struct core *core = core_at_rest();
	notifications_receive(core->notifications, "schedules");
	core_turn(core);
	cr_expect_eq(fake_count(FAKE_SCHEDULES), 1);
	notifications_receive(core->notifications, "schedules"); /* perhaps after the database has read the schedules */
	core_turn(core);
	cr_expect_eq(fake_count(FAKE_SCHEDULES), 1);
	fake_pass(core, 0);
	fake_pass(core, 50); /* that long after the first notification */
	cr_expect_eq(fake.schedule_polls, 2);
	fake_pass(core, 100);
	cr_expect_eq(fake.schedule_polls, 2);
	fake_end(core);
}

Test(schedules, after_an_error_they_are_asked_for_a_second_later)
{
	struct core *core = core_at_rest();
	jobs_ask(core->base.jobs, JOB_SCHEDULES);
	core_turn(core);
	struct store_schedules_fire *look = fake_take(FAKE_SCHEDULES);
	fake_fail(look, STATUS(UNAVAILABLE));
	fake_pass(core, 999);
	cr_expect_eq(fake.schedule_polls, 0);
	fake_pass(core, 1);
	cr_expect_eq(fake.schedule_polls, 1);
	fake_end(core);
}
