/*
 * A pull client's Fetch beside another manager: 40 tasks of 13 priorities wait, and each of the two managers prefers a
 * half of their ids. The store answers one statement after another, and chooses the next one before it hands out the
 * rows of the last one, as the real one does.
 */
#include "tests/unit/manager/core/dispatch_fixture.h"

#include "manager/core/ready.h"

#include <criterion/criterion.h>
#include <string.h>

enum { TASKS = 40, PRIORITIES = 13, PAGES_MAX = 64, STATEMENTS_MAX = 100 };

static int64_t due_us;
static struct store_page *pages[PAGES_MAX]; /* of the statement in flight */
static int page_count;
static bool finding; /* discovery is the statement in flight */

static int priority_of(int64_t id)
{
	return (int)(id * 7 % PRIORITIES);
}

static bool read_by(const struct store_page *page, int64_t id)
{
	return page->shards == 1 || ready_shard_of(id, page->shards) == page->shard;
}

/* Takes up to `most` of the requested pages into the statement in flight, or discovery. */
static void statement_begin(int most)
{
	while (page_count < most && fake_count(FAKE_PAGE))
		pages[page_count++] = fake_take(FAKE_PAGE);
	finding = !page_count && fake_count(FAKE_STREAMS);
}

static void answer_streams(void)
{
	struct store_stream streams[PRIORITIES];
	for (int i = 0; i < PRIORITIES; i++)
		streams[i] = (struct store_stream){route, PRIORITIES - 1 - i, due_us};
	fake_streams(PRIORITIES, streams);
}

static void answer_page(struct store_page *page, bool more_follow)
{
	struct store_candidate rows[TASKS];
	int count = 0;
	page->more_follow = more_follow;
	page->other = (struct store_candidate){0};
	for (int64_t id = 1; id <= TASKS; id++) {
		struct store_candidate c = {.id = id, .version = due_us, .run_at_us = due_us, .bytes = 10};
		bool after = page->after_run_at_us < due_us || (page->after_run_at_us == due_us && page->after_id < id);
		if (priority_of(id) != page->priority || !after)
			continue;
		if (page->limit && read_by(page, id))
			rows[count++] = c;
		else if (!read_by(page, id) && !page->other.id)
			page->other = c;
	}
	fake_page(page, count, rows, 0);
}

/* Answers the statement in flight and begins the next one. Returns false if there was none. */
static bool statement_end(void)
{
	struct store_page *answered[PAGES_MAX];
	int count = page_count;
	bool found = finding;
	memcpy(answered, pages, sizeof pages);
	page_count = 0;
	finding = false;
	if (found)
		answer_streams(); /* there is only one such request at a time */
	else
		statement_begin(PAGES_MAX);
	for (int i = 0; i < count; i++)
		answer_page(answered[i], i + 1 < count);
	if (!page_count && !finding)
		statement_begin(1); /* the connection is idle: the first request is sent at once, the others wait for it */
	core_dispatch(core);
	if (!page_count && !finding)
		statement_begin(1);
	return found || count || page_count || finding;
}

/* A Fetch with `slots` comes, and during the statement number `at` (−1: never) another manager says that any stream may
 * have changed: it does so when it has noticed this manager. Returns the Fetch's tasks. */
static struct fake_fetch fetch_beside_another(int slots, int at)
{
	struct fake_fetch fetch;
	route = route ? route : fake_route("q", "t");
	core = fake_core();
	fake.other_managers = 1;
	fake_pass(core, 1500);
	due_us = fake_db_us() - 1000;
	fake.dispatch_later = true;
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1, .wait_ms = -1, .slots = slots});
	core_dispatch(core);
	statement_begin(1);
	for (int n = 0; n < STATEMENTS_MAX && !fake_count(FAKE_CLAIM); n++) {
		if (n == at)
			core_notified(core, "8 0 0 0");
		fake_pass(core, 5);
		core_dispatch(core);
		cr_assert(statement_end() || fake_count(FAKE_CLAIM), "nothing is being read");
	}
	fake_claim(fake_claim_taken(), 0);
	cr_assert_eq(fetch.answered, 1);
	return fetch;
}

static void end(void)
{
	while (page_count)
		fake_fail(pages[--page_count], STATUS(UNAVAILABLE));
	finding = false;
	fake_end(core);
}

/* Expects the tasks of the highest priorities, in order. */
static void expect_highest(const struct fake_fetch *fetch, int slots, int at)
{
	int n = 0;
	cr_assert_eq(fetch->count, slots, "%d of %d, told in statement %d", fetch->count, slots, at);
	for (int priority = PRIORITIES - 1; n < slots; priority--)
		for (int64_t id = 1; id <= TASKS && n < slots; id++)
			if (priority_of(id) == priority)
				cr_expect_eq(
				    priority_of(fetch->ids[n++]), priority, "task %d of %d, told in statement %d", n, slots, at);
}

Test(dispatch, one_that_does_not_park_gets_the_highest_priorities_beside_another_manager)
{
	for (int at = -1; at < 15; at++) {
		struct fake_fetch fetch = fetch_beside_another(25, at);
		expect_highest(&fetch, 25, at);
		end();
	}
}

/* If it has few slots, this manager's own half would fill it. */
Test(dispatch, one_that_does_not_park_leaves_no_higher_priority_to_another_manager)
{
	for (int slots = 1; slots <= TASKS; slots++)
		for (int at = -1; at < 15; at += 2) {
			struct fake_fetch fetch = fetch_beside_another(slots, at);
			expect_highest(&fetch, slots, at);
			end();
		}
}
