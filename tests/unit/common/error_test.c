/* Errors and the names of the codes. */
#include "common/error.h"

#include <criterion/criterion.h>
#include <string.h>

Test(error, set_fills_and_returns_false)
{
	struct reeve_error error = {0};

	cr_assert_not(error_set(&error, STATUS(NOT_FOUND), "task %d does not exist", 7));
	cr_assert_eq(error.code, STATUS(NOT_FOUND));
	cr_assert_str_eq(error.message, "task 7 does not exist");
}

Test(error, an_error_may_be_ignored)
{
	cr_assert_not(error_set(NULL, STATUS(INTERNAL), "nobody hears"));
}

Test(error, its_own_message_may_be_wrapped)
{
	struct reeve_error error = {0};

	error_set(&error, STATUS(INTERNAL), "inner");
	error_set(&error, error.code, "outer: %s", error.message);
	cr_assert_str_eq(error.message, "outer: inner");
}

Test(error, long_messages_are_cut)
{
	struct reeve_error error = {0};

	error_set(&error, STATUS(INTERNAL), "%600s", "x");
	cr_assert_eq(strlen(error.message), sizeof error.message - 1);
}

Test(error, codes_have_grpcs_names)
{
	cr_assert_str_eq(status_name(STATUS(OK)), "OK");
	cr_assert_str_eq(status_name(STATUS(NOT_FOUND)), "NOT_FOUND");
	cr_assert_str_eq(status_name(STATUS(UNAUTHENTICATED)), "UNAUTHENTICATED");
	cr_assert_str_eq(status_name((reeve_status)17), "UNKNOWN");
	cr_assert_str_eq(status_name((reeve_status)-1), "UNKNOWN");
}
