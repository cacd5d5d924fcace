/* Waits: ends at this manager are reported at once, polls find the others, and no call waits forever. */
#include "manager/core/waits.h"

#include "tests/unit/manager/core/fake_store.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>

struct told {
	int calls;
	int asked, count;
	int64_t ids[10];
	reeve_status code;
	bool waits_on; /* for the same id, from the callback */
};

static struct core *core;

static void on_wait(void *arg, int asked, const int64_t *ended, int count, const struct reeve_error *error)
{
	struct told *told = arg;

	told->calls++;
	told->asked = asked;
	told->code = error ? error->code : STATUS(OK);
	told->count = count;
	for (int i = 0; i < count && i < 10; i++)
		told->ids[i] = ended[i];
	if (told->waits_on) {
		told->waits_on = false;
		waits_add(core->waits, told->ids, 1, 1000, 0, on_wait, told, NULL);
	}
}

static void wait_for(struct told *told, int count, const int64_t *ids, int64_t ms)
{
	*told = (struct told){0};
	waits_add(core->waits, ids, count, ms, 0, on_wait, told, NULL);
}

/* Answers the oldest query: these tasks have ended, and the others exist. */
static void poll_answered(int count, const int64_t *ended)
{
	struct store_ended *look = fake_take(FAKE_ENDED);

	cr_assert_not_null(look, "nothing is looked for");
	int64_t *live = calloc((size_t)look->count + 1, sizeof *live),
	        *over = calloc((size_t)look->count + 1, sizeof *over);
	look->ended_count = look->live_count = 0;
	for (int i = 0; i < look->count; i++) {
		bool is_over = false;
		for (int k = 0; k < count; k++)
			is_over |= ended[k] == look->ids[i];
		if (is_over)
			over[look->ended_count++] = look->ids[i];
		else
			live[look->live_count++] = look->ids[i];
	}
	look->ended = over;
	look->live = live;
	fake_ok(look);
	free(live);
	free(over);
}

#define IDS(...)                                                                                                       \
	(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                                             \
	{                                                                                                                  \
		__VA_ARGS__                                                                                                    \
	}

Test(waits, what_has_ended_already_is_reported_after_one_query)
{
	struct told told;

	core = fake_core();
	wait_for(&told, IDS(3, 1, 2, 1), 10000);
	cr_expect_eq(told.calls, 0);
	poll_answered(IDS(1, 2, 3));
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.asked, 3, "different ones");
	cr_expect_eq(told.count, 3);
	cr_expect_eq(told.code, STATUS(OK));
	fake_pass(core, 20000);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(fake_count(FAKE_ENDED), 0);
	fake_end(core);
}

Test(waits, what_ends_here_is_reported_at_once)
{
	struct told told;

	core = fake_core();
	wait_for(&told, IDS(1, 2), 10000);
	poll_answered(0, NULL);
	waits_ended(core->waits, 2);
	waits_ended(core->waits, 2);
	cr_expect_eq(told.calls, 0);
	waits_ended(core->waits, 77); /* no call waits for it */
	waits_ended(core->waits, 1);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.count, 2);
	fake_end(core);
}

/* The query began before the end was committed, and does not have it. */
Test(waits, what_ends_during_the_query_counts)
{
	struct told told;

	core = fake_core();
	wait_for(&told, IDS(1, 2), 10000);
	waits_ended(core->waits, 1);
	poll_answered(1, (int64_t[]){2});
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.count, 2);
	wait_for(&told, IDS(5), 10000);
	waits_ended(core->waits, 5);
	cr_expect_eq(told.calls, 0, "it is not known yet whether all ids are tasks");
	poll_answered(0, NULL);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.count, 1);
	fake_end(core);
}

Test(waits, doubles_count_once_and_many_may_wait_for_one)
{
	struct told one, two, three;

	core = fake_core();
	wait_for(&one, IDS(4, 4, 4), 10000);
	wait_for(&two, IDS(4, 5), 10000);
	wait_for(&three, IDS(4), 10000);
	for (int i = 0; i < 3; i++)
		poll_answered(0, NULL);
	waits_ended(core->waits, 4);
	cr_expect_eq(one.calls, 1);
	cr_expect_eq(one.count, 1);
	cr_expect_eq(two.calls, 0);
	cr_expect_eq(three.calls, 1);
	waits_ended(core->waits, 5);
	cr_expect_eq(two.calls, 1);
	cr_expect_eq(two.count, 2);
	fake_end(core);
}

Test(waits, at_the_timeout_the_ended_ones_are_reported)
{
	struct told told;

	core = fake_core();
	wait_for(&told, IDS(1, 2, 3), 450);
	poll_answered(IDS(3));
	waits_ended(core->waits, 1);
	fake_pass(core, 440);
	cr_expect_eq(told.calls, 0);
	fake_pass(core, 20);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.count, 2);
	cr_expect_eq(told.ids[0], 1);
	cr_expect_eq(told.ids[1], 3);
	fake_end(core);
}

Test(waits, without_a_timeout_it_only_queries)
{
	struct told told;

	core = fake_core();
	wait_for(&told, IDS(1, 2), 0);
	fake_pass(core, 3000);
	cr_expect_eq(told.calls, 0, "a look that takes long is waited for");
	poll_answered(IDS(2));
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.count, 1);
	fake_end(core);
}

Test(waits, what_ends_elsewhere_is_found)
{
	struct told told, other;

	core = fake_core();
	wait_for(&told, IDS(1, 2), 10000);
	wait_for(&other, IDS(2, 3), 10000);
	poll_answered(0, NULL);
	poll_answered(0, NULL);
	fake_pass(core, 600);
	cr_expect_eq(fake_count(FAKE_ENDED), 1, "one look for all");
	struct store_ended *look = fake_take(FAKE_ENDED);
	cr_expect_eq(look->count, 3);
	fake_fail(look, STATUS(UNAVAILABLE));
	cr_expect_eq(told.calls, 0);
	fake_pass(core, 600);
	poll_answered(IDS(1, 2));
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(other.calls, 0);
	fake_pass(core, 600);
	poll_answered(IDS(3));
	cr_expect_eq(other.calls, 1);
	fake_pass(core, 2000);
	cr_expect_eq(fake_count(FAKE_ENDED), 0, "nobody waits any more");
	fake_end(core);
}

Test(waits, many_are_queried_in_turns)
{
	enum { MANY = 10000 };
	static int64_t ids[3 * MANY];
	static bool seen[3 * MANY];
	struct told told[3];

	core = fake_core();
	for (int i = 0; i < 3 * MANY; i++)
		ids[i] = i + 1;
	for (int i = 0; i < 3; i++) {
		wait_for(&told[i], MANY, ids + i * MANY, 60000);
		poll_answered(0, NULL);
	}
	for (int round = 0; round < 4; round++) {
		fake_pass(core, 1000);
		struct store_ended *look = fake_take(FAKE_ENDED);
		cr_assert_not_null(look);
		cr_expect_leq(look->count, MANY);
		for (int i = 0; i < look->count; i++)
			seen[look->ids[i] - 1] = true;
		look->ended_count = 0;
		look->live_count = 0;
		fake_ok(look);
	}
	for (int i = 0; i < 3 * MANY; i++)
		cr_assert(seen[i], "task %d was never looked for", i + 1);
	fake_end(core);
}

enum { FLOOD_IDS = 200000, FLOOD_WAIT_IDS = 10000 };

/* One connection waits for the tasks 1 to 200,000. */
static void flood(struct told *told)
{
	static int64_t ids[FLOOD_WAIT_IDS];

	*told = (struct told){0};
	for (int64_t id = 1; id <= FLOOD_IDS; id += FLOOD_WAIT_IDS) {
		for (int i = 0; i < FLOOD_WAIT_IDS; i++)
			ids[i] = id + i;
		waits_add(core->waits, ids, FLOOD_WAIT_IDS, 60000, 1, on_wait, told, NULL);
		struct store_ended *look = fake_take(FAKE_ENDED);
		look->live_count = look->count;
		look->ended_count = 0;
		fake_ok(look);
	}
}

/* Other events run between them. */
Test(waits, many_long_waits_that_end_at_once_end_by_turns)
{
	struct told told;

	core = fake_core();
	flood(&told);
	fake.now_ms += 60000;
	for (int i = 1; i <= 3; i++) {
		fake_turn(core);
		cr_expect_eq(told.calls, i);
	}
	fake_end(core);
}

/* Returns the time until a query for an id is answered. Queries take 12 ms and find nothing. */
static int ms_until_looked_for(int64_t id)
{
	for (int ms = 1; ms < 10000; ms++) {
		bool found = false;

		fake_pass(core, 1);
		struct store_ended *look = fake_take(FAKE_ENDED);
		if (!look)
			continue;
		for (int i = 0; i < look->count; i++)
			found |= look->ids[i] == id;
		fake_pass(core, 12);
		ms += 12;
		look->ended_count = look->live_count = 0;
		fake_ok(look);
		if (found)
			return ms;
	}
	return INT_MAX;
}

/* While one connection waits for very many ids, another one waits for one id. Each query has that id if its time has
 * come. */
static void expect_turns(int64_t id)
{
	struct told many, one = {0};

	core = fake_core();
	waits_others(core->waits, true);
	flood(&many);
	waits_add(core->waits, &id, 1, 60000, 2, on_wait, &one, NULL);
	poll_answered(0, NULL);
	for (int i = 0, age_ms = 0; i < 6; i++) {
		int ms = ms_until_looked_for(id), usual_ms = age_ms < 10 ? 10 : age_ms < 500 ? age_ms : 500;
		cr_assert_leq(ms, usual_ms + 72, "query %d for the id is after %d ms, not %d ms", i + 1, ms, usual_ms);
		age_ms += ms;
	}
	cr_expect_eq(many.calls + one.calls, 0);
	fake_end(core);
}

Test(waits, connections_take_turns_in_the_queries)
{
	expect_turns(FLOOD_IDS + 1);
}

Test(waits, connections_take_turns_if_both_wait_for_the_same_task)
{
	expect_turns(FLOOD_IDS);
}

/* With many connections each query has the same number of ids of each, and every id has its turn. */
Test(waits, turns_are_equal)
{
	enum { CONNECTIONS = 4, IDS_EACH = 10000 };
	static int64_t ids[IDS_EACH];
	static bool seen[CONNECTIONS * IDS_EACH];
	struct told told = {0};

	core = fake_core();
	waits_others(core->waits, true);
	for (int k = 0; k < CONNECTIONS; k++) {
		for (int i = 0; i < IDS_EACH; i++)
			ids[i] = k * IDS_EACH + i;
		waits_add(core->waits, ids, IDS_EACH, 60000, (uint64_t)k + 1, on_wait, &told, NULL);
		struct store_ended *look = fake_take(FAKE_ENDED);
		look->live_count = look->count;
		fake_ok(look);
	}
	fake_pass(core, 10);
	for (int round = 0; round < CONNECTIONS; round++) {
		int of[CONNECTIONS] = {0};
		struct store_ended *look = fake_take(FAKE_ENDED);
		cr_assert_not_null(look);
		for (int i = 0; i < look->count; i++) {
			of[look->ids[i] / IDS_EACH]++;
			seen[look->ids[i]] = true;
		}
		for (int k = 0; k < CONNECTIONS; k++)
			cr_expect_eq(of[k], IDS_EACH / CONNECTIONS);
		look->ended_count = look->live_count = 0;
		fake_ok(look);
		fake_pass(core, 10);
	}
	for (int i = 0; i < CONNECTIONS * IDS_EACH; i++)
		cr_assert(seen[i], "task %d was never looked for", i);
	fake_end(core);
}

/* The end of a task at another manager is found after at most the time that it took again, and at most half a second.
 */
Test(waits, what_has_just_begun_is_queried_more_often)
{
	static const int64_t at_ms[] = {10, 20, 40, 80, 160, 320, 640, 1140, 1640};
	struct told told;

	core = fake_core();
	waits_others(core->waits, true);
	wait_for(&told, IDS(1), 10000);
	poll_answered(0, NULL);
	for (int i = 0, now_ms = 0; i < 9; i++) {
		fake_pass(core, at_ms[i] - now_ms - 1);
		cr_expect_eq(fake_count(FAKE_ENDED), 0, "there is a query before %d ms", (int)at_ms[i]);
		fake_pass(core, 1);
		cr_assert_eq(fake_count(FAKE_ENDED), 1, "there is no query at %d ms", (int)at_ms[i]);
		now_ms = (int)at_ms[i];
		poll_answered(i == 8, (int64_t[]){1});
	}
	cr_expect_eq(told.calls, 1);
	fake_pass(core, 1000);
	cr_expect_eq(fake_count(FAKE_ENDED), 0, "nothing is looked for any more");
	fake_end(core);
}

/* Queries take at most a fifth of the time. */
Test(waits, after_a_slow_query_the_next_one_waits)
{
	struct told told[2];

	core = fake_core();
	waits_others(core->waits, true);
	wait_for(&told[0], IDS(1), 10000);
	poll_answered(0, NULL);
	fake_pass(core, 10);
	cr_assert_eq(fake_count(FAKE_ENDED), 1);
	fake_pass(core, 50);
	wait_for(&told[1], IDS(2), 10000); /* it must not bring the next query forward */
	fake_pass(core, 50);
	poll_answered(0, NULL);
	poll_answered(0, NULL);
	fake_pass(core, 399);
	cr_expect_eq(fake_count(FAKE_ENDED), 0);
	fake_pass(core, 1);
	cr_expect_eq(fake_count(FAKE_ENDED), 1);
	poll_answered(2, (int64_t[]){1, 2});
	cr_expect_eq(told[0].calls + told[1].calls, 2);
	fake_end(core);
}

Test(waits, a_failed_query_is_reported)
{
	struct told told;

	core = fake_core();
	wait_for(&told, IDS(1), 10000);
	fake_fail(fake_take(FAKE_ENDED), STATUS(UNAVAILABLE));
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.code, STATUS(UNAVAILABLE));
	fake_end(core);
}

Test(waits, unknown_ids_are_reported)
{
	struct told told;

	core = fake_core();
	wait_for(&told, IDS(1, 2), 10000);
	struct store_ended *look = fake_take(FAKE_ENDED);
	look->ended = (int64_t[]){2};
	look->ended_count = 1;
	look->live_count = 0;
	fake_ok(look);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(told.code, STATUS(NOT_FOUND));
	fake_end(core);
}

Test(waits, a_notified_caller_may_wait_again)
{
	struct told told, other;

	core = fake_core();
	wait_for(&other, IDS(1), 10000);
	wait_for(&told, IDS(1), 10000);
	told.waits_on = other.waits_on = true;
	poll_answered(0, NULL);
	poll_answered(0, NULL);
	waits_ended(core->waits, 1);
	cr_expect_eq(told.calls, 1);
	cr_expect_eq(other.calls, 1);
	poll_answered(IDS(1));
	poll_answered(IDS(1));
	cr_expect_eq(told.calls, 2);
	cr_expect_eq(other.calls, 2);
	fake_end(core);
}

Test(waits, all_are_notified_at_the_end)
{
	struct told looked, unlooked;

	core = fake_core();
	wait_for(&looked, IDS(1), 10000);
	poll_answered(0, NULL);
	wait_for(&unlooked, IDS(1, 2), 10000);
	fake_end(core);
	cr_expect_eq(looked.calls, 1);
	cr_expect_eq(looked.code, STATUS(UNAVAILABLE));
	cr_expect_eq(unlooked.calls, 1);
	cr_expect_eq(unlooked.code, STATUS(UNAVAILABLE));
}

/* When its caller has gone, a wait ends and leaves nothing behind, no query either, whether the first one is answered
 * or not. */
Test(waits, ends_when_it_is_cancelled)
{
	struct told early = {0}, late = {0}, other;
	struct waiter *waiter;

	core = fake_core();
	waits_add(core->waits, (int64_t[]){1, 2}, 2, 10000, 0, on_wait, &late, &waiter);
	poll_answered(0, NULL);
	waits_cancel(waiter);
	cr_expect_eq(late.calls, 1);
	cr_expect_eq(late.code, STATUS(CANCELLED));
	waits_add(core->waits, (int64_t[]){1, 2}, 2, 10000, 0, on_wait, &early, &waiter);
	waits_cancel(waiter);
	cr_expect_eq(early.calls, 1);
	cr_expect_eq(early.code, STATUS(CANCELLED));
	cr_expect_eq(fake_count(FAKE_ENDED), 0);
	wait_for(&other, IDS(2), 10000);
	poll_answered(0, NULL);
	waits_ended(core->waits, 2);
	cr_expect_eq(other.calls, 1);
	cr_expect_eq(other.code, STATUS(OK));
	cr_expect_eq(late.calls + early.calls, 2);
	fake_end(core);
}
