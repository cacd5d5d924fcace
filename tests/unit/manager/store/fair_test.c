/* The order of operations: origins take turns, however many operations each has added. */
#include "manager/store/fair.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
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

Test(fair, a_small_one_comes_right_after_what_is_at_the_head_of_a_flood)
{
	struct line line = {0};

	for (int i = 0; i < 1000; i++)
		add(&line, 1, 10000);
	take(&line);
	take(&line);
	add(&line, 2, 1);
	take(&line);
	cr_assert(eq(u64, take(&line), 2));
	while (line.waiting)
		cr_assert(eq(u64, take(&line), 1));
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
	take(&line);
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
