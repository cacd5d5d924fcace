/* Streams by priority. */
#include "manager/core/levels.h"

#include <criterion/criterion.h>

static struct levels levels;
static struct place places[8];

/* Expects these places, in this order, and nothing else. */
static void expect_order(int count, const int *order)
{
	struct place *at = levels_first(&levels);

	for (int i = 0; i < count; i++, at = levels_next(at)) {
		cr_assert_not_null(at);
		cr_expect_eq(at - places, order[i]);
	}
	cr_expect_null(at);
}

Test(levels, the_highest_priority_comes_first_and_the_first_listed_of_it)
{
	levels_add(&levels, &places[0], 0);
	levels_add(&levels, &places[1], 5);
	levels_add(&levels, &places[2], -7);
	levels_add(&levels, &places[3], 5);
	levels_add(&levels, &places[4], 0);
	expect_order(5, (int[]){1, 3, 0, 4, 2});

	levels_remove(&levels, &places[1]);
	levels_remove(&levels, &places[0]);
	levels_remove(&levels, &places[4]);
	expect_order(2, (int[]){3, 2});
	cr_expect_null(places[0].level);

	levels_add(&levels, &places[0], 0);
	expect_order(3, (int[]){3, 0, 2});
	levels_remove(&levels, &places[3]);
	levels_remove(&levels, &places[0]);
	levels_remove(&levels, &places[2]);
	expect_order(0, NULL);
}

Test(levels, the_ends_of_the_range_are_priorities_like_others)
{
	levels_add(&levels, &places[0], INT32_MIN);
	levels_add(&levels, &places[1], INT32_MAX);
	levels_add(&levels, &places[2], -1);
	expect_order(3, (int[]){1, 2, 0});
	for (int i = 0; i < 3; i++)
		levels_remove(&levels, &places[i]);
}
