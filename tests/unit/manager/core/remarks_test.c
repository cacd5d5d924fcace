/* Log messages about callers' mistakes: each once, and not too many. */
#include "manager/core/remarks.h"

#include <criterion/criterion.h>

Test(remarks, each_thing_once)
{
	struct remarks r = {0};

	cr_expect(remarks_new(&r, 1, 5, 6, 1000));
	cr_expect_not(remarks_new(&r, 1, 5, 6, 1000));
	cr_expect_not(remarks_new(&r, 1, 5, 6, 900000), "nor later");
	cr_expect(remarks_new(&r, 2, 5, 6, 1000), "another kind");
	cr_expect(remarks_new(&r, 1, 6, 5, 1000), "another thing");
}

Test(remarks, not_too_many_a_second)
{
	struct remarks r = {0};
	int said = 0;

	for (int i = 0; i < 10000; i++)
		said += remarks_new(&r, 1, i, 0, 5000 + i % 1000);
	cr_expect_eq(said, REMARKS_A_SECOND);
	cr_expect(remarks_new(&r, 1, 20000, 0, 6000));
}
