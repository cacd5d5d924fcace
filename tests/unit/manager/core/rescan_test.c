/* Tasks that were committed long after they were created: they are read separately, and the cursor stays. */
#include "manager/core/rescan.h"

#include "manager/core/ready.h"
#include "tests/unit/manager/core/fake_answers.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct core *core;
static struct fake_fetch fetch;
static int route;
static int64_t now_us;

/* Creates a core with a stream that has been read up to now, and a Fetch that waits. */
static void begin(void)
{
	route = fake_route("q", "t");
	core = fake_core();
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 1});
	fake_stream(route, 0);
	now_us = fake_db_us();
	fake_page_of(fake_page_taken(route, 0), 1, 3, now_us - 1000);
	fake_claim(fake_claim_taken(), 0);
	fake_fetch(core, &fetch, (struct fetch_request){.incarnation = 1, .fetch_id = 2});
}

static void hear(int64_t from_us, int64_t until_us)
{
	char payload[120];
	snprintf(payload, sizeof payload, "0 %d 0 %lld %lld", route, (long long)from_us, (long long)until_us);
	core_notified(core, payload);
}

static void answer(struct store_rescan *late, int64_t first, int count, int64_t due_us)
{
	struct store_candidate rows[1000];
	cr_assert_not_null(late);
	cr_assert_leq(count, late->limit);
	for (int i = 0; i < count; i++)
		rows[i] = (struct store_candidate){first + i, due_us + i, due_us + i, 10};
	late->candidates = rows;
	late->count = count;
	fake_ok(late);
}

Test(rescan, one_far_behind_is_read_by_itself)
{
	begin();
	int64_t then = now_us - 300000000;
	hear(then, then + 1000000);
	cr_expect_eq(fake_count(FAKE_PAGE), 0);
	struct store_rescan *late = fake_take(FAKE_RESCAN);
	cr_assert_not_null(late);
	cr_expect_eq(late->after_run_at_us, then);
	cr_expect_eq(late->until_us, then + 1000000);
	answer(late, 50, 1, then + 5);
	struct store_claim *claim = fake_claim_taken();
	cr_expect_neq(fake_tries(claim, 50), 0);
	fake_claim(claim, 0);
	cr_expect_eq(fake_count(FAKE_PAGE), 0, "the cursor has not moved");
	fake_end(core);
}

Test(rescan, one_just_behind_moves_the_cursor)
{
	begin();
	hear(now_us - 1500000, now_us - 500000);
	cr_expect_eq(fake_count(FAKE_RESCAN), 0);
	cr_expect_leq(fake_page_taken(route, 0)->after_run_at_us, now_us - 1500000);
	fake_end(core);
}

Test(rescan, a_long_stretch_is_read_page_by_page)
{
	begin();
	int64_t then = now_us - 300000000;
	hear(then, then + 1000000);
	struct store_rescan *late = fake_take(FAKE_RESCAN);
	answer(late, 50, late->limit, then);
	late = fake_take(FAKE_RESCAN);
	cr_assert_not_null(late);
	cr_expect_eq(late->after_run_at_us, then + 999);
	cr_expect_eq(late->after_id, 50 + 999);
	answer(late, 0, 0, 0);
	cr_expect_eq(fake_count(FAKE_RESCAN), 0);
	fake_end(core);
}

/* A task that is announced during a read may have been committed after the read began. */
Test(rescan, a_stream_notified_while_it_is_read_is_read_again_once)
{
	begin();
	int64_t then = now_us - 300000000;
	hear(then, then + 1000000);
	hear(then, then + 1000000);
	hear(then, then + 1000000);
	answer(fake_take(FAKE_RESCAN), 0, 0, 0);
	answer(fake_take(FAKE_RESCAN), 0, 0, 0);
	cr_expect_eq(fake_count(FAKE_RESCAN), 0);
	fake_end(core);
}

Test(rescan, what_cannot_be_read_or_kept_moves_the_cursor)
{
	begin();
	int64_t then = now_us - 300000000;
	hear(then, then + 1000000);
	fake_fail(fake_take(FAKE_RESCAN), STATUS(UNAVAILABLE));
	cr_expect_leq(fake_page_taken(route, 0)->after_run_at_us, then);
	fake_end(core);

	begin();
	for (int i = 0; i < 300; i++) /* more than the limit */
		hear(now_us - (1000 - i) * INT64_C(1000000), now_us - (999 - i) * INT64_C(1000000));
	struct store_page *page = fake_page_taken(route, 0);
	cr_expect_lt(page->after_run_at_us, now_us - 700 * INT64_C(1000000));
	fake_end(core);
}
