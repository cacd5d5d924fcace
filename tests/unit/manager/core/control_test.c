/* Worker commands: which Fetches are answered with them at once. */
#include "manager/core/control.h"

#include "manager/core/dispatch.h"
#include "manager/core/leases.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct core *core;
static struct fake_fetch first, second, other;

/* Parks two Fetches of incarnation 1, and one of incarnation 2. */
static void begin(void)
{
	fake_route("q", "t");
	core = fake_core();
	fake_fetch(core, &first, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_fetch(core, &second, (struct fetch_request){.incarnation = 1, .fetch_id = 2});
	fake_fetch(core, &other, (struct fetch_request){.incarnation = 2, .fetch_id = 1});
}

Test(control, an_order_goes_to_all_that_a_worker_has_parked)
{
	struct store_worker_command scale = {.kind = "concurrency", .value = 7};

	begin();
	dispatch_commands(core->dispatch, 1, &scale, 1);
	cr_expect_eq(first.commands, 1);
	cr_expect_eq(second.commands, 1);
	cr_expect_eq(other.answered, 0);
	fake_end(core);
}

/* Answers the query of the commands in the table. */
static void stands(int64_t incarnation, int count, struct store_worker_command *commands)
{
	struct store_worker_commands *ask = fake_take(FAKE_COMMANDS);

	cr_assert_not_null(ask, "nobody asked");
	cr_expect_eq(ask->incarnation, incarnation);
	ask->commands = commands;
	ask->command_count = count;
	fake_ok(ask);
}

Test(control, a_notification_creates_pending_commands_read)
{
	struct store_worker_command pause[] = {{"pause", 0, 0, 0}};
	struct store_worker_command many[] = {{"cancel", 3, 4, 0}, {"concurrency", 0, 0, 3}, {"stop", 0, 0, 0}};

	begin();
	core_notified(core, "command 8 2 stop 0");
	cr_expect_eq(other.answered, 0, "not by the notification alone");
	stands(2, 1, pause);
	cr_expect_eq(other.commands, 1);
	cr_expect_eq(first.answered, 0);
	core_notified(core, "command 8 1 concurrency 3");
	stands(1, 3, many);
	cr_expect_eq(first.commands, 2, "those for the worker itself");
	cr_expect_eq(second.commands, 2);
	fake_end(core);
}

Test(control, a_notification_of_what_does_not_stand_does_nothing)
{
	begin();
	core_notified(core, "command 8 1 stop 0");
	stands(1, 0, NULL);
	cr_expect_eq(first.answered, 0);
	cr_expect_eq(second.answered, 0);
	core_notified(core, "command 8 99 stop 0");
	cr_expect_eq(fake_count(FAKE_COMMANDS), 0, "it has no Fetch here");
	fake_end(core);
}

Test(control, a_second_command_is_read_at_once_and_a_flood_of_notifications_is_not)
{
	int reads = 0;

	begin();
	core_notified(core, "command 8 1 concurrency 2");
	core_notified(core, "command 8 1 stop 0");
	for (; fake_count(FAKE_COMMANDS); reads++)
		stands(1, 0, NULL);
	cr_expect_eq(reads, 2);
	for (int i = 0; i < 1000; i++)
		core_notified(core, "command 8 1 stop 0");
	for (reads = 0; fake_count(FAKE_COMMANDS); reads++)
		stands(1, 0, NULL);
	cr_expect_leq(reads, 10);
	core_notified(core, "command 8 1 stop 0");
	cr_expect_eq(fake_count(FAKE_COMMANDS), 0, "not so soon again");
	fake_pass(core, 100);
	core_notified(core, "command 8 1 stop 0");
	stands(1, 0, NULL);
	fake_end(core);
}

/* The manager has handled its own notifications already, and any role of the database can send anything. */
Test(control, what_is_no_other_managers_order_is_passed_over)
{
	begin();
	core_notified(core, "command 7 1 pause 0");
	core_notified(core, "order");
	core_notified(core, "command ");
	core_notified(core, "command 8 1");
	core_notified(core, "command 8 x pause 0");
	cr_expect_eq(first.answered + second.answered + other.answered, 0);
	fake_end(core);
}

static int answered;

static void on_heartbeat(struct store_op *op, const struct reeve_error *error)
{
	(void)op;
	(void)error;
	answered++;
}

/* Answers a heartbeat of incarnation 1 with these worker commands. A new pause ends the worker's parked Fetches without
 * tasks; a repeated number of handlers, or a task to cancel, leaves them parked. */
static void beat_with(const struct store_worker_command *commands, int count)
{
	struct store_heartbeat op = {.op.done = on_heartbeat, .incarnation = 1, .seq = 2};
	const struct store_holding holding = {.incarnation = 1, .highest_fetch = 2};

	begin();
	leases_heartbeat(core->leases, &op, &holding);
	struct store_heartbeat *given = fake_take(FAKE_HEARTBEAT);
	given->commands = (struct store_worker_command *)commands;
	given->command_count = count;
	fake_ok(given);
	cr_expect_eq(answered, 1);
	cr_expect_eq(other.answered, 0);
	fake_end(core);
}

Test(control, pending_commands_end_parked_fetches)
{
	static const char *const kinds[] = {"pause", "drain", "stop"};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct store_worker_command order = {.task_id = 0};

		answered = 0;
		snprintf(order.kind, sizeof order.kind, "%s", kinds[i]);
		beat_with(&order, 1);
		cr_expect_eq(first.commands, 1, "%s", kinds[i]);
		cr_expect_eq(second.commands, 1, "%s", kinds[i]);
	}
}

Test(control, other_pending_commands_leave_them_parked)
{
	const struct store_worker_command commands[] = {{"concurrency", 0, 0, 5}, {"cancel", 3, 4, 0}};

	beat_with(commands, 2);
	cr_expect_eq(first.code, STATUS(UNAVAILABLE), "it waited to the end");
	cr_expect_eq(second.commands, 0);
}
