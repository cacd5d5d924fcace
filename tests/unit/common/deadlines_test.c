/* The heap of deadlines. */
#include "common/deadlines.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* Compares with the simplest way to find the earliest: a scan of all members. */
Test(deadlines, the_first_is_always_the_earliest)
{
	enum { MEMBERS = 200 };
	struct deadline members[MEMBERS] = {0};
	struct deadlines heap = {0};
	unsigned seed = 7;
	size_t count = 0;

	for (int step = 0; step < 20000; step++) {
		struct deadline *member = &members[rand_r(&seed) % MEMBERS];
		int64_t earliest = INT64_MAX, until_ms = rand_r(&seed) % 1000;
		size_t early = 0;

		if (rand_r(&seed) % 3) {
			count += !member->place;
			deadlines_set(&heap, member, rand_r(&seed) % 1000);
		} else {
			count -= member->place != 0;
			deadlines_remove(&heap, member);
		}
		cr_assert_eq(heap.count, count);
		for (int i = 0; i < MEMBERS; i++) {
			if (members[i].place && members[i].at_ms < earliest)
				earliest = members[i].at_ms;
			early += members[i].place && members[i].at_ms <= until_ms;
		}
		cr_assert_eq(deadlines_count(&heap, until_ms, MEMBERS), early);
		cr_assert_eq(deadlines_count(&heap, until_ms, 10), early < 10 ? early : 10);
		if (count)
			cr_assert_eq(deadlines_first(&heap)->at_ms, earliest);
		else
			cr_assert_null(deadlines_first(&heap));
	}
	deadlines_free(&heap);
}

/* A heap of a thousand members that has only those which the count may look at: it would crash at any other. */
Test(deadlines, a_count_reads_no_more_than_it_needs)
{
	enum { MEMBERS = 1000 };
	struct deadline early = {.at_ms = 1}, late = {.at_ms = 9};
	struct deadline *members[MEMBERS] = {[0] = &late};
	struct deadlines heap = {.members = members, .count = MEMBERS};

	cr_assert_eq(deadlines_count(&heap, 5, MEMBERS), 0, "the earliest is late");
	members[0] = members[1] = &early; /* at the top, and on the left below it, with two members of its own */
	members[2] = members[3] = members[4] = &late;
	cr_assert_eq(deadlines_count(&heap, 5, MEMBERS), 2);
	members[3] = &early;
	members[2] = members[4] = NULL;
	cr_assert_eq(deadlines_count(&heap, 5, 3), 3, "no further than asked");
}
