/* The order of operations: origins take turns, however many operations each has added. */
#include "manager/store/fair.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <utlist.h>

struct line {
	struct fair fair;
	struct store_op *waiting;
};

static struct store_op *add(struct line *line, uint64_t origin, int weight)
{
	struct store_op *op = calloc(1, sizeof *op);

	op->origin = origin;
	op->weight = weight;
	op->bytes = 100;
	fair_add(&line->fair, &line->waiting, op);
	return op;
}

/* Takes the next operation and returns its origin. */
static uint64_t take(struct line *line)
{
	struct store_op *op = line->waiting;
	uint64_t origin = op->origin;

	DL_DELETE(line->waiting, op);
	fair_begin(&line->fair, op);
	fair_leave(&line->fair, op);
	free(op);
	return origin;
}

Test(fair, one_origin_is_served_in_order)
{
	struct line line = {0};
	struct store_op *ops[5];

	for (int i = 0; i < 5; i++)
		ops[i] = add(&line, 7, 5 - i);
	for (int i = 0; i < 5; i++) {
		cr_assert(line.waiting == ops[i]);
		take(&line);
	}
	cr_assert(line.fair.lanes == NULL);
}

/* It waits neither for the flood nor for other large ones. */
Test(fair, a_small_one_is_served_at_once)
{
	struct line line = {0};

	for (int i = 0; i < 1000; i++)
		add(&line, 1, 10000);
	for (int i = 0; i < 100; i++)
		add(&line, 10 + (uint64_t)i, 5000);
	take(&line);
	take(&line);
	add(&line, 2, 1);
	cr_assert(eq(u64, take(&line), 2));
	while (line.waiting)
		cr_assert(ne(u64, take(&line), 2));
}

/* However many others come with small ones, a large one has half of the work done. */
Test(fair, a_large_one_has_its_turn_among_many_small_ones)
{
	struct line line = {0};
	int taken = 0;

	add(&line, 1, 1000);
	for (uint64_t origin = 2, served = 0; served != 1; origin++, taken++) {
		add(&line, origin, 1);
		served = take(&line);
	}
	cr_assert(taken >= 1980 && taken <= 2020, "after %d", taken);
	take(&line);
	cr_assert(line.waiting == NULL);
}

Test(fair, floods_take_turns_by_work)
{
	struct line line = {0};
	int taken[3] = {0};

	for (int i = 0; i < 1000; i++)
		add(&line, 1, 1);
	for (int i = 0; i < 1000; i++)
		add(&line, 2, 10);
	for (int i = 0; i < 550; i++)
		taken[take(&line)]++;
	cr_assert(taken[1] >= 490 && taken[1] <= 510, "%d of the first, %d of the second", taken[1], taken[2]);
	while (line.waiting)
		take(&line);
}

Test(fair, the_manager_itself_is_never_behind_a_flood)
{
	struct line line = {0};

	for (int i = 0; i < 100; i++)
		add(&line, 1, 100);
	take(&line);
	for (int i = 0; i < 50; i++)
		add(&line, 0, 100);
	for (int i = 0; i < 50; i++)
		cr_assert(eq(u64, take(&line), 0));
	while (line.waiting)
		take(&line);
}

Test(fair, bytes_are_counted_by_origin)
{
	struct line line = {0};
	struct store_op *op;

	add(&line, 1, 1);
	add(&line, 1, 1);
	add(&line, 2, 1);
	add(&line, 0, 1);
	cr_assert(eq(sz, fair_bytes(&line.fair, 1), 200));
	cr_assert(eq(sz, fair_bytes(&line.fair, 2), 100));
	cr_assert(eq(sz, fair_bytes(&line.fair, 0), 0));
	cr_assert(eq(sz, fair_bytes(&line.fair, 3), 0));
	op = line.waiting;
	DL_DELETE(line.waiting, op);
	fair_leave(&line.fair, op);
	DL_PREPEND(line.waiting, op);
	fair_return(&line.fair, op);
	cr_assert(eq(sz, fair_bytes(&line.fair, 1), 200));
	while (line.waiting)
		take(&line);
	cr_assert(line.fair.lanes == NULL);
}
