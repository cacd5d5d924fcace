/* How long a manager may be idle within a transaction: a quarter of its lease, within limits. */
#include "manager/store/idle_limit.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>

Test(idle_limit, is_a_quarter_of_the_lease_between_one_and_five_seconds)
{
	static const struct {
		int64_t lease_ms;
		int limit_ms;
	} cases[] = {{500, 1000}, {4000, 1000}, {4400, 1100}, {12000, 3000}, {15000, 3750}, {20000, 5000}, {60000, 5000},
	    {INT64_MAX, 5000}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		cr_assert(eq(int, idle_limit(cases[i].lease_ms), cases[i].limit_ms), "with a lease of %lld ms",
		    (long long)cases[i].lease_ms);
}
