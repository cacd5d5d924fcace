/* Unacknowledged results: their order, the limits of a report, and the search for an invalid result. */
#include "worker/unacked.h"

#include <criterion/criterion.h>

enum { COUNT = 16 };

static struct unacked unacked;
static struct attempt attempts[COUNT];

static void fill(void)
{
	for (int i = 0; i < COUNT; i++) {
		attempts[i] = (struct attempt){.key = {i, i}, .result_bytes = 100};
		unacked_add(&unacked, &attempts[i]);
	}
}

static void expect_totals(size_t waiting, size_t reported)
{
	cr_expect_eq(unacked.waiting_count, waiting);
	cr_expect_eq(unacked.waiting_bytes, 100 * waiting);
	cr_expect_eq(unacked.reported_count, reported);
	cr_expect_eq(unacked.reported_bytes, 100 * reported);
}

Test(unacked, gives_the_oldest_first_within_bounds)
{
	struct attempt *taken[COUNT];

	fill();
	expect_totals(COUNT, 0);
	cr_assert_eq(unacked_take(&unacked, taken, 4, 10000), 4);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(taken[i], &attempts[i]);
	cr_assert_eq(unacked_take(&unacked, taken, COUNT, 350), 3);
	cr_expect_eq(taken[2], &attempts[6]);
	expect_totals(COUNT - 7, 7);
	/* A report always has at least one result, however long. */
	cr_assert_eq(unacked_take(&unacked, taken, COUNT, 10), 1);
	cr_expect_eq(taken[0], &attempts[7]);
}

Test(unacked, what_comes_back_stands_where_it_was)
{
	struct attempt *taken[COUNT], *again[COUNT];

	fill();
	cr_assert_eq(unacked_take(&unacked, taken, 5, 10000), 5);
	unacked_put_back(&unacked, taken, 5);
	expect_totals(COUNT, 0);
	cr_assert_eq(unacked_take(&unacked, again, COUNT, 10000), COUNT);
	for (int i = 0; i < COUNT; i++)
		cr_expect_eq(again[i], &attempts[i]);
	unacked_remove(&unacked, again[3]);
	expect_totals(0, COUNT - 1);
}

Test(unacked, what_was_not_acked_goes_again_behind_the_others)
{
	struct attempt *taken[COUNT], *again[COUNT];

	fill();
	cr_assert_eq(unacked_take(&unacked, taken, 5, 10000), 5);
	for (int i = 0; i < 5; i++) {
		taken[i]->group = (uint64_t)i; /* left over from reports in parts */
		unacked_resend(&unacked, taken[i]);
	}
	expect_totals(COUNT, 0);
	cr_assert_eq(unacked_take(&unacked, again, COUNT, 10000), COUNT, "one report has them all");
	for (int i = 0; i < COUNT; i++)
		cr_expect_eq(again[i], &attempts[(i + 5) % COUNT]);
	expect_totals(0, COUNT);
}

Test(unacked, halves_lead_to_the_one_to_blame)
{
	struct attempt *taken[COUNT];
	int reports = 0, acked = 0;
	const struct attempt *found = NULL;

	/* A manager that refuses every report that contains attempt 11. */
	fill();
	while (unacked.waiting_count) {
		size_t count = unacked_take(&unacked, taken, COUNT, 10000);
		bool bad = false;

		cr_assert_lt(++reports, 20);
		for (size_t i = 0; i < count; i++)
			bad = bad || taken[i] == &attempts[11];
		if (bad && count > 1) {
			unacked_split(&unacked, taken, count);
			continue;
		}
		if (bad)
			found = taken[0];
		for (size_t i = 0; i < count; i++, acked++)
			unacked_remove(&unacked, taken[i]);
	}
	cr_expect_eq(found, &attempts[11]);
	cr_expect_eq(acked, COUNT);
	expect_totals(0, 0);
}
