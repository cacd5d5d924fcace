/* Streams ordered by priority. */
#include "manager/core/levels.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>

static struct levels levels;
static struct place places[8];

/* Expects these places, in this order, and no others. */
static void expect_command(int count, const int *order)
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
	expect_command(5, (int[]){1, 3, 0, 4, 2});

	levels_remove(&levels, &places[1]);
	levels_remove(&levels, &places[0]);
	levels_remove(&levels, &places[4]);
	expect_command(2, (int[]){3, 2});
	cr_expect_null(places[0].level);

	levels_add(&levels, &places[0], 0);
	expect_command(3, (int[]){3, 0, 2});
	levels_remove(&levels, &places[3]);
	levels_remove(&levels, &places[0]);
	levels_remove(&levels, &places[2]);
	expect_command(0, NULL);
}

Test(levels, a_priority_begins_with_any_of_its_places)
{
	for (int i = 0; i < 4; i++)
		levels_add(&levels, &places[i], 0);
	levels_add(&levels, &places[4], 1);
	levels_add(&levels, &places[5], -1);
	levels_begin_at(&places[2]);
	expect_command(6, (int[]){4, 2, 3, 0, 1, 5});
	levels_begin_at(&places[2]);
	levels_begin_at(&places[4]);
	expect_command(6, (int[]){4, 2, 3, 0, 1, 5});
	levels_remove(&levels, &places[1]);
	levels_remove(&levels, &places[2]);
	levels_add(&levels, &places[1], 0);
	expect_command(5, (int[]){4, 3, 0, 1, 5});
	for (int i = 0; i < 6; i++)
		if (places[i].level)
			levels_remove(&levels, &places[i]);
}

Test(levels, the_ends_of_the_range_are_priorities_like_others)
{
	levels_add(&levels, &places[0], INT32_MIN);
	levels_add(&levels, &places[1], INT32_MAX);
	levels_add(&levels, &places[2], -1);
	expect_command(3, (int[]){1, 2, 0});
	for (int i = 0; i < 3; i++)
		levels_remove(&levels, &places[i]);
}

/* If each new priority were searched for among the others, this would take five thousand million steps. */
Test(levels, priorities_that_are_all_different_cost_little)
{
	enum { MANY = 100000 };
	struct place *many = calloc(MANY, sizeof *many);
	const clock_t most = 5 * CLOCKS_PER_SEC, began = clock();
	int count = 0, last = INT_MAX;

	for (int i = 0; i < MANY; i++) {
		levels_add(&levels, &many[i], (int32_t)((int64_t)i * 7919 % MANY) - MANY / 2);
		cr_assert_leq(clock() - began, most, "%d priorities took too long", i);
	}
	for (struct place *at = levels_first(&levels); at; at = levels_next(at), count++) {
		int priority = (int)((int64_t)(at - many) * 7919 % MANY) - MANY / 2;

		cr_assert_lt(priority, last);
		last = priority;
	}
	cr_assert_eq(count, MANY);
	for (int i = 0; i < MANY; i++)
		levels_remove(&levels, &many[i]);
	cr_assert_null(levels_first(&levels));
	free(many);
}
