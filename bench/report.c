/* Writes figures, and reads the clock. */
#include "bench/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void report(const char *name, double value, const char *unit)
{
	printf("%s %.*f %s\n", name, value < 100 ? 3 : 0, value, unit);
	fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

void report_percentiles(const char *name, int64_t *spans_ns, size_t count)
{
	static const int percents[] = {50, 95, 99};
	char line[100];

	qsort(spans_ns, count, sizeof *spans_ns, by_value);
	for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
		size_t at = count * (size_t)percents[i] / 100;

		snprintf(line, sizeof line, "%s_p%d", name, percents[i]);
		report(line, (double)spans_ns[at < count ? at : count - 1] / 1e6, "ms");
	}
}

void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "bench: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

void details_write(char *text, int number)
{
	snprintf(text, 200, "{\"user_id\":%d,\"pad\":\"%067d\"}", number, 0);
}
