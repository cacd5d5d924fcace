/* The Fetches that the worker waits for. */
#include "worker/fetches.h"

#include <criterion/criterion.h>

static struct fetches fetches;

Test(fetches, ids_increase_and_slots_add_up)
{
	struct fetch *first = fetches_create(&fetches, 10), *second = fetches_create(&fetches, 5);

	cr_expect_eq(first->id, 1);
	cr_expect_eq(second->id, 2);
	cr_expect_eq(fetches.slots, 15);
	cr_expect_eq(fetches.highest_id, 2);
	fetches_remove(&fetches, second);
	cr_expect_eq(fetches.slots, 10);
	cr_expect_eq(fetches_create(&fetches, 1)->id, 3);
	cr_expect_null(fetches_find(&fetches, 2));
	cr_expect_eq(fetches_find(&fetches, 1), first);
	fetches_reset(&fetches);
	cr_expect_eq(fetches.slots, 0);
	cr_expect_eq(fetches.waiting_count, 0);
	cr_expect_eq(fetches_create(&fetches, 1)->id, 1);
	fetches_reset(&fetches);
}

Test(fetches, one_without_a_call_is_found)
{
	struct fetch *first = fetches_create(&fetches, 1), *second = fetches_create(&fetches, 1);

	fetches_mark_sent(&fetches, first, true);
	fetches_mark_sent(&fetches, second, false);
	cr_expect_null(fetches_unsent(&fetches));
	cr_expect_eq(fetches.in_flight_count, 2);
	cr_expect_eq(fetches.parked_count, 1);
	fetches_mark_unsent(&fetches, second);
	cr_expect_eq(fetches_unsent(&fetches), second);
	cr_expect(second->sent_before);
	fetches_mark_unsent(&fetches, first);
	cr_expect_eq(fetches_unsent(&fetches), first);
	cr_expect_eq(fetches.in_flight_count, 0);
	cr_expect_eq(fetches.parked_count, 0);
	cr_expect_eq(fetches.slots, 2, "what may still come counts");
	fetches_reset(&fetches);
}
