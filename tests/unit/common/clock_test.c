/* Durations and times: what is parsed, what is refused, and that both directions agree. */
#include "common/clock.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t span(const char *text)
{
	int64_t ms = -1;

	return duration_parse(text, &ms) ? ms : -1;
}

Test(clock, reads_durations)
{
	cr_assert(eq(i64, span("250ms"), 250));
	cr_assert(eq(i64, span("0"), 0));
	cr_assert(eq(i64, span("5"), 5000));
	cr_assert(eq(i64, span("0.25"), 250));
	cr_assert(eq(i64, span("5s"), 5000));
	cr_assert(eq(i64, span("1m30s"), 90000));
	cr_assert(eq(i64, span("2h"), 7200000));
	cr_assert(eq(i64, span("1.5h"), 5400000));
	cr_assert(eq(i64, span("7d"), 604800000));
	cr_assert(eq(i64, span("1d1h1m1s1ms"), 90061001));
	cr_assert(eq(i64, span("0.1s"), 100));
	cr_assert(eq(i64, span("36525d"), INT64_C(3155760000000)));
}

Test(clock, refuses_what_is_no_duration)
{
	static const char *const bad[] = {"", "s", "-5s", "+5s", "5x", "5 s", " 5s", "5s ", "30s1m", "1m1m", "1m5", "5.s",
	    ".5s", "1e3", "36526d", "99999999999999999999", "99999999999999999999d", "0x10"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int64_t ms = 77;

		cr_assert(not(duration_parse(bad[i], &ms)), "%s", bad[i]);
		cr_assert(eq(i64, ms, 77), "%s touched the result", bad[i]);
	}
}

Test(clock, durations_come_back_as_written)
{
	static const int64_t spans[] = {
	    0, 1, 999, 1000, 1001, 1500, 59999, 60000, 3600000, 86399999, 90061001, 3155760000000};
	char text[64];

	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
		cr_assert(eq(i64, span(duration_format(spans[i], text, sizeof text)), spans[i]), "%s", text);
	cr_assert(eq(str, (char *)duration_format(90000, text, sizeof text), "1m30s"));
	cr_assert(eq(str, (char *)duration_format(1500, text, sizeof text), "1.5s"));
	cr_assert(eq(str, (char *)duration_format(0, text, sizeof text), "0s"));
	cr_assert(eq(str, (char *)duration_format(-250, text, sizeof text), "-250ms"));
	duration_format(INT64_MIN, text, sizeof text);
	cr_assert(eq(str, (char *)duration_format(90061001, text, 4), "1d1"));
}

static const char *moment(const char *text)
{
	static char out[64];
	int64_t us;

	return time_parse(text, &us) ? time_format(us, out, sizeof out) : "refused";
}

Test(clock, reads_times_with_an_offset)
{
	cr_assert(eq(str, (char *)moment("2026-01-14T08:00:00Z"), "2026-01-14T08:00:00.000000Z"));
	cr_assert(eq(str, (char *)moment("2026-01-14 08:00:00.5+01:00"), "2026-01-14T07:00:00.500000Z"));
	cr_assert(eq(str, (char *)moment("2026-01-14t08:00:00.1234567z"), "2026-01-14T08:00:00.123456Z"));
	cr_assert(eq(str, (char *)moment("2026-01-14T08:00-0530"), "2026-01-14T13:30:00.000000Z"));
	cr_assert(eq(str, (char *)moment("2024-02-29T23:59:59-01"), "2024-03-01T00:59:59.000000Z"));
	cr_assert(eq(str, (char *)moment("1969-12-31T23:59:59.5Z"), "1969-12-31T23:59:59.500000Z"));
}

Test(clock, reads_local_times)
{
	setenv("TZ", "Europe/Rome", 1);
	tzset();
	cr_assert(eq(str, (char *)moment("2026-01-14"), "2026-01-13T23:00:00.000000Z"));
	cr_assert(eq(str, (char *)moment("2026-07-14 08:00"), "2026-07-14T06:00:00.000000Z"));
}

Test(clock, refuses_what_is_no_time)
{
	static const char *const bad[] = {"", "yesterday", "2026", "2026-1-4", "2026-02-30", "2026-13-01", "2026-00-01",
	    "2026-01-00", "2025-02-29", "2026-01-14T", "2026-01-14T8:00", "2026-01-14T24:00:00Z", "2026-01-14T08:60Z",
	    "2026-01-14T08:00:60Z", "2026-01-14T08:00:00.Z", "2026-01-14T08:00:00+1", "2026-01-14T08:00:00+24:00",
	    "2026-01-14T08:00:00Zx", "2026-01-14 ", "+", "+-5m", "+5x", "-5m", "5m", " ago", "5x ago", "5mago"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int64_t us = 77;

		cr_assert(not(time_parse(bad[i], &us)), "%s", bad[i]);
		cr_assert(eq(i64, us, 77), "%s touched the result", bad[i]);
	}
}

Test(clock, reads_times_from_now)
{
	int64_t before = clock_wall_us(), now, later, earlier;

	cr_assert(time_parse("now", &now));
	cr_assert(time_parse("+5m", &later));
	cr_assert(time_parse("1m30s ago", &earlier));
	int64_t after = clock_wall_us();
	cr_assert(now >= before && now <= after);
	cr_assert(later - 300000000 >= before && later - 300000000 <= after);
	cr_assert(earlier + 90000000 >= before && earlier + 90000000 <= after);
}
