/*
 * Clocks, and parsing and formatting of durations and times. All arithmetic is on integers, so that a formatted value
 * parses to the same value. The C library converts calendar dates to seconds and knows the local time zone.
 */
#include "common/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define LONGEST_MS (36525 * DAY_MS)

static int64_t read_us(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_monotonic_ms(void)
{
	return clock_monotonic_us() / 1000;
}

int64_t clock_monotonic_us(void)
{
	return read_us(CLOCK_MONOTONIC);
}

int64_t clock_retry_ms(int64_t first_ms, int64_t max_ms, int failures)
{
	int64_t ms = first_ms;

	for (int i = 1; i < failures && ms < max_ms; i++)
		ms *= 2;
	return ms < max_ms ? ms : max_ms;
}

int64_t clock_wall_us(void)
{
	return read_us(CLOCK_REALTIME);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads "12" or "1.5" into a whole number and billionths. Returns the end, or NULL if there is no number or *integer
 * exceeds LONGEST_MS, the limit in the smallest unit. */
static const char *read_decimal(const char *at, int64_t *integer, int64_t *billionths)
{
	int64_t scale = 100000000;

	*integer = *billionths = 0;
	if (!is_digit(*at))
		return NULL;
	for (; is_digit(*at); at++) {
		*integer = *integer * 10 + (*at - '0');
		if (*integer > LONGEST_MS)
			return NULL;
	}
	if (*at != '.')
		return at;
	if (!is_digit(*++at))
		return NULL;
	for (; is_digit(*at); at++) {
		*billionths += (*at - '0') * scale;
		scale /= 10;
	}
	return at;
}

/* Reads a unit and moves *at past it. Returns the unit in milliseconds, or 0 if there is none. */
static int64_t read_unit(const char **at)
{
	static const struct {
		const char *name;
		int64_t ms;
	} units[] = {{"ms", 1}, {"s", SECOND_MS}, {"m", MINUTE_MS}, {"h", HOUR_MS}, {"d", DAY_MS}};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		size_t length = strlen(units[i].name);

		if (strncmp(*at, units[i].name, length) == 0) {
			*at += length;
			return units[i].ms;
		}
	}
	return 0;
}

/* Parses text[0..length). Units must descend, so each occurs once; a number without a unit is seconds and must be
 * alone. */
static bool parse_duration(const char *text, size_t length, int64_t *ms)
{
	const char *end = text + length;
	const char *at = text;
	int64_t sum = 0;
	int64_t last_unit = INT64_MAX;

	while (at < end) {
		int64_t integer, billionths, unit;

		at = read_decimal(at, &integer, &billionths);
		if (!at)
			return false;
		if (at == end && last_unit == INT64_MAX)
			unit = SECOND_MS;
		else
			unit = read_unit(&at);
		if (unit == 0 || unit >= last_unit || integer > LONGEST_MS / unit)
			return false;
		last_unit = unit;
		sum += integer * unit;
		/* Below 86,400,000 × 10⁹ before the division, so it fits. Rounds to the nearest millisecond. */
		sum += (billionths * unit + 500000000) / 1000000000;
		if (sum > LONGEST_MS)
			return false;
	}
	if (last_unit == INT64_MAX)
		return false;
	*ms = sum;
	return true;
}

bool duration_parse(const char *text, int64_t *ms)
{
	return parse_duration(text, strlen(text), ms);
}

const char *duration_format(int64_t ms, char *out, size_t size)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"d", DAY_MS}, {"h", HOUR_MS}, {"m", MINUTE_MS}};
	uint64_t rest = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
	char text[64] = "";
	size_t used = 0;

	if (ms < 0)
		text[used++] = '-';
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (rest < units[i].ms)
			continue;
		used += snprintf(
		    text + used, sizeof text - used, "%llu%s", (unsigned long long)(rest / units[i].ms), units[i].name);
		rest %= units[i].ms;
	}
	if (rest > 0 && rest < 1000) {
		used += snprintf(text + used, sizeof text - used, "%ums", (unsigned)rest);
	} else if (rest > 0) {
		unsigned fraction = rest % 1000;

		used += snprintf(text + used, sizeof text - used, "%u", (unsigned)(rest / 1000));
		if (fraction) {
			used += snprintf(text + used, sizeof text - used, ".%03u", fraction);
			while (text[used - 1] == '0')
				used--;
		}
		snprintf(text + used, sizeof text - used, "s");
	} else if (used == (ms < 0)) {
		snprintf(text + used, sizeof text - used, "0s");
	}
	snprintf(out, size, "%s", text);
	return out;
}

/* Reads exactly `count` digits. Returns the end, or NULL if there are fewer. */
static const char *read_digits(const char *at, int count, int *value)
{
	*value = 0;
	for (int i = 0; i < count; i++, at++) {
		if (!is_digit(*at))
			return NULL;
		*value = *value * 10 + (*at - '0');
	}
	return at;
}

/* Reads "08:00", "08:00:00" or "08:00:00.123456", and drops digits beyond microseconds. Returns the end, or NULL. */
static const char *read_time_of_day(const char *at, struct tm *tm, int64_t *fraction_us)
{
	int64_t scale = 100000;

	at = read_digits(at, 2, &tm->tm_hour);
	if (!at || *at++ != ':')
		return NULL;
	at = read_digits(at, 2, &tm->tm_min);
	if (!at || *at != ':')
		return at;
	at = read_digits(at + 1, 2, &tm->tm_sec);
	if (!at || *at != '.')
		return at;
	if (!is_digit(*++at))
		return NULL;
	for (; is_digit(*at); at++, scale /= 10)
		*fraction_us += (*at - '0') * scale;
	return at;
}

/* Reads "Z", "+01:00", "+0100" or "+01" as seconds east of UTC. Returns the end, or NULL. */
static const char *read_offset(const char *at, int *seconds)
{
	int sign = *at == '-' ? -1 : 1;
	int hours, minutes = 0;

	if (*at == 'Z' || *at == 'z') {
		*seconds = 0;
		return at + 1;
	}
	if (*at != '+' && *at != '-')
		return NULL;
	at = read_digits(at + 1, 2, &hours);
	if (!at)
		return NULL;
	if (*at == ':')
		at = read_digits(at + 1, 2, &minutes);
	else if (is_digit(*at))
		at = read_digits(at, 2, &minutes);
	if (!at || hours > 23 || minutes > 59)
		return NULL;
	*seconds = sign * (hours * 3600 + minutes * 60);
	return at;
}

static bool parse_calendar(const char *at, int64_t *us)
{
	struct tm tm = {.tm_isdst = -1};
	int64_t fraction_us = 0;
	int year, month, offset;
	time_t seconds;

	at = read_digits(at, 4, &year);
	if (!at || *at++ != '-' || !(at = read_digits(at, 2, &month)) || *at++ != '-' ||
	    !(at = read_digits(at, 2, &tm.tm_mday)))
		return false;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	if (*at == 'T' || *at == 't' || *at == ' ') {
		at = read_time_of_day(at + 1, &tm, &fraction_us);
		if (!at)
			return false;
	}
	if (tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 59)
		return false;

	/* timegm turns an invalid date ("02-30") into another date. */
	struct tm normal = tm;
	normal.tm_isdst = 0;
	seconds = timegm(&normal);
	if (normal.tm_mday != tm.tm_mday || normal.tm_mon != tm.tm_mon)
		return false;
	if (*at == '\0') {
		seconds = mktime(&tm);
	} else {
		at = read_offset(at, &offset);
		if (!at || *at != '\0')
			return false;
		seconds -= offset;
	}
	*us = (int64_t)seconds * 1000000 + fraction_us;
	return true;
}

bool time_parse(const char *text, int64_t *us)
{
	static const char ago[] = " ago";
	size_t length = strlen(text);
	int64_t ms;

	if (strcmp(text, "now") == 0) {
		*us = clock_wall_us();
		return true;
	}
	if (*text == '+') {
		if (!duration_parse(text + 1, &ms))
			return false;
		*us = clock_wall_us() + ms * 1000;
		return true;
	}
	if (length > strlen(ago) && strcmp(text + length - strlen(ago), ago) == 0) {
		if (!parse_duration(text, length - strlen(ago), &ms))
			return false;
		*us = clock_wall_us() - ms * 1000;
		return true;
	}
	return parse_calendar(text, us);
}

const char *time_format(int64_t us, char *out, size_t size)
{
	int64_t fraction = us % 1000000;
	time_t seconds = us / 1000000;
	struct tm tm;

	if (fraction < 0) {
		fraction += 1000000;
		seconds--;
	}
	gmtime_r(&seconds, &tm);
	snprintf(out, size, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
	    tm.tm_min, tm.tm_sec, (int)fraction);
	return out;
}
