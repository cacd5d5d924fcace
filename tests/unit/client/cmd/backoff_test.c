/* Backoffs as users type them: every kind, its policy, and the errors for invalid ones. */
#include "client/cmd/backoff.h"
#include "common/limits.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct backoff backoff;
static struct reeve_error error;

static const Reeve__V1__RetryPolicy *parsed(const char *text)
{
	cr_assert(backoff_parse(&backoff, text, -1, &error), "%s: %s", text, error.message);
	return &backoff.policy;
}

Test(backoff, reads_every_kind)
{
	const Reeve__V1__RetryPolicy *p = parsed("fixed:1m30s");
	cr_assert(eq(int, p->kind, REEVE__V1__RETRY_KIND__RETRY_KIND_FIXED));
	cr_assert(eq(i64, p->base_ms, 90000));
	p = parsed("linear:3s");
	cr_assert(eq(int, p->kind, REEVE__V1__RETRY_KIND__RETRY_KIND_LINEAR));
	cr_assert(eq(i64, p->step_ms, 3000));
	cr_assert(eq(i64, p->base_ms, 0));
	p = parsed("linear:3s:5s");
	cr_assert(eq(i64, p->step_ms, 3000));
	cr_assert(eq(i64, p->base_ms, 5000));
	p = parsed("exp:250ms:1h");
	cr_assert(eq(int, p->kind, REEVE__V1__RETRY_KIND__RETRY_KIND_EXPONENTIAL));
	cr_assert(eq(i64, p->base_ms, 250));
	cr_assert(eq(i64, p->max_ms, 3600000));
	cr_assert(eq(i64, parsed("exp:2s")->max_ms, 0));
	p = parsed("poly:10s:1.5");
	cr_assert(eq(int, p->kind, REEVE__V1__RETRY_KIND__RETRY_KIND_POLYNOMIAL));
	cr_assert(eq(i64, p->base_ms, 10000));
	cr_assert(p->exponent == 1.5);
	cr_assert(parsed("poly:10s")->exponent == 0);
	p = parsed("list:1m,5m,30m,2h");
	cr_assert(eq(int, p->kind, REEVE__V1__RETRY_KIND__RETRY_KIND_LIST));
	cr_assert(eq(sz, p->n_delays_ms, 4));
	cr_assert(eq(i64, p->delays_ms[0], 60000));
	cr_assert(eq(i64, p->delays_ms[3], 7200000));
}

Test(backoff, jitter_of_zero_is_none_and_not_the_default)
{
	cr_assert(backoff_parse(&backoff, "fixed:1s", 0, &error));
	cr_assert(eq(int, backoff.policy.jitter_percent, -1));
	cr_assert(backoff_parse(&backoff, "fixed:1s", 40, &error));
	cr_assert(eq(int, backoff.policy.jitter_percent, 40));
	cr_assert(eq(int, parsed("fixed:1s")->jitter_percent, 0));
}

Test(backoff, is_written_as_it_is_read)
{
	static const char *const texts[] = {"fixed:5s", "linear:3s:5s", "exp:250ms:1h", "poly:10s:1.5", "list:1m,5m,2h"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		char *text = backoff_format(parsed(texts[i]));
		cr_assert(eq(str, text, (char *)texts[i]));
		free(text);
	}
}

Test(backoff, names_the_error)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
	    {"", "it takes fixed:D"},
	    {"fixed", "it takes fixed:D"},
	    {"fixd:5s", "\"fixd:5s\" is invalid; it takes fixed:D"},
	    {"fixed:", "\"\" is not a duration"},
	    {"fixed:-5s", "\"-5s\" is not a duration"},
	    {"fixed:0", "a delay of 0"},
	    {"fixed:5s:6s", "one value too many"},
	    {"fixed:400d", "longer than 365 days"},
	    {"fixed:99999999999999999999d", "is not a duration"},
	    {"exp:1s:0", "a delay of 0"},
	    {"exp:1s:2s:3s", "\"2s:3s\" is not a duration"},
	    {"poly:1s:0", "the exponent \"0\" is not a number above 0"},
	    {"poly:1s:11", "the exponent \"11\""},
	    {"poly:1s:nan", "the exponent \"nan\""},
	    {"poly:1s:2x", "the exponent \"2x\""},
	    {"list:", "\"\" is not a duration"},
	    {"list:1s,,2s", "\"\" is not a duration"},
	    {"list:1s,", "\"\" is not a duration"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		cr_assert(not(backoff_parse(&backoff, cases[i].text, -1, &error)), "%s is taken", cases[i].text);
		cr_assert(strstr(error.message, cases[i].says) != NULL, "%s: %s", cases[i].text, error.message);
	}
}

Test(backoff, a_list_is_bounded)
{
	char text[1024] = "list:1s";
	for (int i = 1; i < LIMIT_RETRY_DELAYS; i++)
		strcat(text, ",1s");
	cr_assert(eq(sz, parsed(text)->n_delays_ms, LIMIT_RETRY_DELAYS));
	strcat(text, ",1s");
	cr_assert(not(backoff_parse(&backoff, text, -1, &error)));
	cr_assert(strstr(error.message, "at most 100 delays") != NULL);
}
