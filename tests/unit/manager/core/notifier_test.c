/* Notifications to other managers, and from them. */
#include "manager/core/notifier.h"

#include "manager/core/dispatch.h"
#include "manager/core/ready.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct core *core;
static int route;

static void begin(bool others)
{
	route = fake_route("q", "t");
	core = fake_core();
	fake.other_managers = others;
	fake_pass(core, 1500);
	fake.notifier = 0;
}

Test(notifier, no_notification_is_sent_without_other_managers)
{
	begin(false);
	notifier_send(core->notifier, route, 3, 1000);
	fake_pass(core, 1000);
	cr_expect_eq(fake.notifier, 0);
	fake_end(core);
}

/* Returns true if the last notification means any stream, from the beginning. */
static bool all_told(void)
{
	char want[96];
	snprintf(want, sizeof want, "%d 0 0 %lld", FAKE_MANAGER, (long long)STORE_TIME_BEGIN);
	return !strcmp(fake.woken, want);
}

/* A manager that has just started is not known yet when a task appears in a stream that is new to it. */
Test(notifier, another_manager_that_appears_is_notified_to_read_everything)
{
	begin(false);
	notifier_send(core->notifier, route, 3, 1000);
	fake_pass(core, 100);
	cr_assert_eq(fake.notifier, 0);
	fake.other_managers = 1;
	fake_pass(core, 1500);
	cr_expect_eq(fake.notifier, 1);
	cr_expect(all_told(), "%s", fake.woken);
	fake_end(core);
}

/* The connection broke during the notification: the streams that it named may be new to the others. */
Test(notifier, a_notification_that_failed_becomes_one_of_everything)
{
	begin(true);
	notifier_send(core->notifier, route, 3, 1000);
	fake.down = true;
	fake_pass(core, 700);
	cr_expect_eq(fake.notifier, 0);
	fake.down = false;
	fake_pass(core, 700);
	cr_expect_eq(fake.notifier, 1);
	cr_expect(all_told(), "%s", fake.woken);
	fake_end(core);
}

Test(notifier, streams_of_one_moment_are_notified_once_from_the_earliest_time_on)
{
	char want[96];

	begin(true);
	notifier_send(core->notifier, route, 3, 5000);
	notifier_send(core->notifier, route, 3, 1000);
	notifier_send(core->notifier, route, 3, 9000);
	fake_pass(core, 100);
	cr_expect_eq(fake.notifier, 1);
	snprintf(want, sizeof want, "%d %d 3 1000", FAKE_MANAGER, route);
	cr_expect_str_eq(fake.woken, want);
	notifier_send(core->notifier, route, 3, 9500);
	fake_pass(core, 100);
	cr_expect_eq(fake.notifier, 2);
	fake_end(core);
}

/* Creates a core on which only a Fetch of two slots waits. */
static void begin_with_fetch(struct fake_fetch *fetch)
{
	begin(true);
	fake_fetch(core, fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .slots = 2});
	fake_stream(route, 0);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
}

/* Adds a task as a submit does. */
static void add_task(int id, int64_t run_at_us)
{
	ready_note(core->cache, route, 0, id, fake_db_us(), run_at_us, 10);
	notifier_send(core->notifier, route, 0, run_at_us);
}

/* If a Fetch here waits for the task, this manager claims it: other managers would try in vain. */
Test(notifier, a_task_that_is_claimed_here_is_not_notified)
{
	struct fake_fetch fetch;
	int64_t now_us;

	begin_with_fetch(&fetch);
	now_us = fake_db_us();
	add_task(1, now_us);
	base_dispatch(&core->base);
	fake_claim(fake_claim_taken(), 0);
	fake_pass(core, 200);
	cr_expect_eq(fake.notifier, 0, "%s", fake.woken);
	fake_end(core);
}

/* The Fetch of the claim in flight has a slot left: its worker sends the next Fetch as soon as the claim has ended. */
Test(notifier, a_task_that_is_claimed_here_next_is_not_notified)
{
	struct fake_fetch fetch, next;

	begin_with_fetch(&fetch);
	add_task(1, fake_db_us());
	base_dispatch(&core->base);
	add_task(2, fake_db_us());
	fake_pass(core, 30);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.answered, 1);
	fake_fetch(core, &next, (struct fetch_request){.incarnation = 1, .fetch_id = 2, .slots = 1});
	base_dispatch(&core->base);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(next.answered, 1);
	fake_pass(core, 200);
	cr_expect_eq(fake.notifier, 0, "%s", fake.woken);
	fake_end(core);
}

/* … but the notification waits for that Fetch only for 20 ms after the claim's answer. */
Test(notifier, a_task_whose_worker_does_not_return_is_notified)
{
	struct fake_fetch fetch;

	begin_with_fetch(&fetch);
	add_task(1, fake_db_us());
	base_dispatch(&core->base);
	add_task(2, fake_db_us());
	fake_pass(core, 5);
	fake_claim(fake_claim_taken(), 0);
	fake_pass(core, 10);
	cr_expect_eq(fake.notifier, 0);
	fake_pass(core, 20);
	cr_expect_eq(fake.notifier, 1);
	fake_end(core);
}

/* The others are notified of tasks that are not claimed here: at once if no Fetch has room for them, else when the
 * claim takes too long. */
Test(notifier, a_task_that_is_not_claimed_here_is_notified)
{
	struct fake_fetch fetch;
	int64_t now_us;

	begin_with_fetch(&fetch);
	now_us = fake_db_us();
	add_task(1, now_us);
	base_dispatch(&core->base);
	fake_pass(core, 30);
	cr_expect_eq(fake.notifier, 0);
	fake_pass(core, 30);
	cr_expect_eq(fake.notifier, 1, "its claim is under way for long");
	for (int id = 2; id < 5; id++)
		add_task(id, now_us);
	fake_pass(core, 20);
	cr_expect_eq(fake.notifier, 2, "no Fetch waits");
	fake_claim(fake_claim_taken(), 0);
	fake_end(core);
}

/* One task is claimed here; the other becomes due when perhaps no Fetch waits any more. */
Test(notifier, a_task_that_is_due_soon_after_a_claimed_one_is_notified)
{
	struct fake_fetch fetch;
	int64_t now_us;

	begin_with_fetch(&fetch);
	now_us = fake_db_us();
	add_task(1, now_us);
	add_task(2, now_us + 900000);
	base_dispatch(&core->base);
	fake_claim(fake_claim_taken(), 0);
	fake_pass(core, 200);
	cr_expect_eq(fake.notifier, 1);
	fake_end(core);
}

/* A submit that an earlier copy of the call has made: the time at which its tasks are due is not known here. */
Test(notifier, what_is_due_at_an_unknown_time_is_notified)
{
	struct fake_fetch fetch;

	begin_with_fetch(&fetch);
	notifier_send(core->notifier, route, 0, STORE_TIME_BEGIN);
	fake_pass(core, 30);
	cr_expect_eq(fake.notifier, 1);
	fake_end(core);
}

/* A task that is due later is announced, because any manager may have a waiting Fetch then. */
Test(notifier, a_task_that_is_due_later_is_notified)
{
	struct fake_fetch fetch;
	int64_t due_us;

	begin_with_fetch(&fetch);
	due_us = fake_db_us() + 500000;
	add_task(1, due_us);
	fake_pass(core, 100);
	cr_expect_eq(fake.notifier, 1);
	fake_end(core);
}

/* Returns the number of streams that the last notification names. */
static int streams_named(void)
{
	int n = 1;

	for (const char *at = fake.woken; *at; at++)
		n += *at == ';';
	return n;
}

Test(notifier, one_notification_names_many_streams)
{
	begin(true);
	for (int i = 0; i < 10; i++)
		notifier_send(core->notifier, route, i, 5000);
	fake_pass(core, 1000);
	cr_expect_eq(fake.notifier, 1);
	cr_expect_eq(streams_named(), 10);
	for (int i = 0; i < 1000; i++)
		notifier_send(core->notifier, route, i, INT64_C(1790000000000000));
	fake_pass(core, 1000);
	cr_expect_leq(fake.notifier, 1 + 8);
	cr_expect_gt(streams_named(), 0);
	cr_expect_lt(strlen(fake.woken), 8000);
	fake_end(core);
}

/* A notification of several streams: each is read from its own time on. */
Test(notifier, each_stream_of_a_notification_is_read)
{
	struct fake_fetch fetch;
	char payload[96];

	begin(true);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	snprintf(payload, sizeof payload, "%d %d 5 1000;%d 3 2000;%d 1 3000", FAKE_MANAGER + 1, route, route, route);
	core_notified(core, payload);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(fake_page_taken(route, 5 - 2 * i)->after_run_at_us, STORE_TIME_BEGIN, "it is new here");
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	fake_end(core);
}

/* Any role of the database can send notifications: the work that they cause must be limited. */
Test(notifier, a_flood_is_bounded)
{
	struct fake_fetch fetch;
	char payload[96];

	begin(true);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	for (int i = 0; i < 30000; i++) {
		snprintf(payload, sizeof payload, "%d %d %d 0", FAKE_MANAGER + 1, route, i);
		core_notified(core, payload);
	}
	cr_expect_lt(ready_streams(core->cache), 11000);
	int looks = 0;
	for (int i = 0; i < 1000; i++) {
		snprintf(payload, sizeof payload, "%d 0 0 0", FAKE_MANAGER + 1);
		core_notified(core, payload);
		core_turn(core);
		for (void *look; (look = fake_take(FAKE_STREAMS)); looks++)
			fake_fail(look, STATUS(UNAVAILABLE));
	}
	cr_expect_leq(looks, 2, "%d", looks);
	for (struct store_page *page; (page = fake_take(FAKE_PAGE));) {
		page->more_follow = fake_count(FAKE_PAGE) > 0; /* they are answered together */
		fake_page(page, 0, NULL, 0);
	}
	fake_end(core);
}

/* Answers the reads in flight: discovery with these streams, and pages without rows. Returns the number of pages. */
static int answer_reads(const struct store_stream *streams, int count)
{
	int pages = 0;

	while (fake_count(FAKE_STREAMS))
		fake_streams(count, streams);
	for (struct store_page *page; (page = fake_take(FAKE_PAGE)); pages++) {
		page->more_follow = fake_count(FAKE_PAGE) > 0;
		fake_page(page, 0, NULL, 0);
	}
	return pages;
}

/* Each notification says that any stream may have new tasks. For that, all streams are read once a second, however many
 * notifications arrive, in addition to the manager's own rescans, two a second. */
Test(notifier, notifications_that_name_no_stream_read_each_once_a_second)
{
	enum { STREAMS = 50, SECONDS = 5, EVERY_MS = 5 };
	struct store_stream streams[STREAMS];
	struct fake_fetch fetch;
	int pages = 0;

	begin(true);
	for (int i = 0; i < STREAMS; i++)
		streams[i] = (struct store_stream){route, i, STORE_TIME_BEGIN};
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	answer_reads(streams, STREAMS);
	for (int ms = 0; ms < SECONDS * 1000; ms += EVERY_MS) {
		char payload[96];

		snprintf(payload, sizeof payload, "%d 0 0 %lld", FAKE_MANAGER + 1, (long long)fake_db_us());
		core_notified(core, payload);
		fake_pass(core, EVERY_MS);
		pages += answer_reads(streams, STREAMS);
	}
	cr_expect_eq(fetch.answered, 0);
	cr_expect_geq(pages, 2 * SECONDS * STREAMS, "%d", pages);
	cr_expect_leq(pages, (3 * SECONDS + 2) * STREAMS, "%d", pages);
	fake_end(core);
}

Test(notifier, too_many_are_notified_as_any)
{
	begin(true);
	int manager, any;
	for (int i = 0; i < 10000; i++)
		notifier_send(core->notifier, route, i, 500000 - i);
	for (int i = 0; i < 1000 && fake.notifier == 0; i++)
		fake_pass(core, 1);
	long long from;
	cr_assert_eq(sscanf(fake.woken, "%d %d %*d %lld", &manager, &any, &from), 3);
	cr_expect_eq(any, 0);
	cr_expect_eq(from, 500000 - 9999, "the earliest of those that are not named");
	fake_pass(core, 1000);
	cr_expect_lt(fake.notifier, 60);
	notifier_send(core->notifier, route, 1, 5000); /* and then as before */
	fake_pass(core, 1000);
	cr_assert_eq(sscanf(fake.woken, "%d %d", &manager, &any), 2);
	cr_expect_eq(any, route);
	fake_end(core);
}

static void hear(int manager, int about, int64_t run_at_us)
{
	char payload[96];

	snprintf(payload, sizeof payload, "%d %d 0 %lld", manager, about, (long long)run_at_us);
	core_notified(core, payload);
}

Test(notifier, a_notified_stream_is_read_from_that_time_on)
{
	struct fake_fetch fetch;

	begin(true);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	int64_t due = fake_db_us() - 600000000;
	fake_page_of(fake_page_taken(route, 0), 1, 3, due + 300000000);
	fake_claim(fake_claim_taken(), 0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2});
	hear(FAKE_MANAGER, route, due);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "that was ourselves");
	hear(FAKE_MANAGER + 1, route, due);
	cr_expect_leq(fake_page_taken(route, 0)->after_run_at_us, due);
	fake_end(core);
}

Test(notifier, any_means_all)
{
	struct fake_fetch fetch;

	begin(true);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	hear(FAKE_MANAGER + 1, 0, 0);
	core_turn(core);
	cr_expect_eq(fake_count(FAKE_STREAMS), 1);
	fake_end(core);
}

/* A route that this manager does not know is loaded, and its streams are discovered. */
Test(notifier, an_unknown_route_is_loaded)
{
	struct fake_fetch fetch;

	begin(true);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	int other = fake_route("q", "u");
	hear(FAKE_MANAGER + 1, other, 0);
	fake_turn(core);
	fake_stream(other, 0);
	fake_page_of(fake_page_taken(other, 0), 1, 2, fake_db_us() - 1000);
	fake_claim(fake_claim_taken(), 0);
	cr_expect_eq(fetch.count, 2);
	fake_end(core);
}

Test(notifier, nonsense_is_harmless)
{
	static const char *const said[] = {"", "x", "1 2", "1 2 3", "8 -1 0 0", "8 2000000000 0 0",
	    "8 1 99999999999999999999 0", "8 1 0 99999999999999999999999",
	    "-9223372036854775808 -2147483648 -2147483648 -9223372036854775808", "8 1 0 -9223372036854775808",
	    "8 1 0 9223372036854775807"};

	begin(true);
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		core_notified(core, said[i]);
	fake_pass(core, 1000);
	fake_end(core);
}

/* With a time outside its range, PostgreSQL would refuse to read that stream, or all of them. */
Test(notifier, a_time_that_the_database_does_not_know_is_not_asked_for)
{
	static const char *const said[] = {"8 %d 0 -1000000000000000000", "8 0 0 -1000000000000000000",
	    "0 %d 0 -1000000000000000000 9223372036854775807", "8 %d 0 -1"};

	for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
		struct fake_fetch fetch;
		char payload[96];

		begin(true);
		fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
		fake_stream(route, 0);
		fake_page(fake_page_taken(route, 0), 0, NULL, 0);
		snprintf(payload, sizeof payload, said[i], route);
		core_notified(core, payload);
		core_turn(core);
		cr_expect_eq(fake_page_taken(route, 0)->after_run_at_us, STORE_TIME_BEGIN, "%s", payload);
		fake_end(core);
	}
}

/* Notifications are lost while no connection listens. */
Test(notifier, after_listening_again_everything_is_read)
{
	struct fake_fetch fetch;

	begin(true);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	fake_page(fake_page_taken(route, 0), 0, NULL, 0);
	core_listening(core);
	fake_stream(route, 0);
	cr_expect_eq(fake_page_taken(route, 0)->after_run_at_us, STORE_TIME_BEGIN);
	fake_end(core);
}

/* A query of discovery that was in flight at that time may have begun too early. */
Test(notifier, a_search_for_streams_in_flight_does_not_replace_a_later_one)
{
	struct fake_fetch fetch;

	begin(true);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	cr_assert_eq(fake_count(FAKE_STREAMS), 1);
	core_listening(core);
	fake_turn(core);
	fake_streams(0, NULL);
	fake_pass(core, 300);
	cr_expect_eq(fake_count(FAKE_STREAMS), 1);
	fake_end(core);
}
