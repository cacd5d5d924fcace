/* Times of calls: a span for each that was answered, in memory that the first measurement allocates. */
#include "bench/timings.h"

#include "bench/report.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPANS_MAX = 4000000 };

void timings_begin(struct timings *timings)
{
	if (!timings->spans)
		timings->spans = malloc(sizeof *timings->spans * SPANS_MAX);
	timings->count = 0;
	timings->open = timings->errors = 0;
	timings->measuring = true;
	timings->measurement++;
}

void timings_end(struct timings *timings)
{
	timings->measuring = false;
}

void timed_sent(struct timed *call, struct timings *timings)
{
	call->sent_ns = now_ns();
	call->timings = timings;
	call->measurement = timings->measuring ? timings->measurement : 0;
	timings->open += timings->measuring;
}

void timed_answered(struct timed *call, bool good)
{
	struct timings *timings = call->timings;

	if (!call->measurement || call->measurement != timings->measurement)
		return;
	timings->open--;
	if (!good)
		timings->errors++;
	else if (timings->count < SPANS_MAX)
		timings->spans[timings->count++] = now_ns() - call->sent_ns;
}

void timings_report(struct timings *timings, const char *prefix)
{
	char name[64], line[80];

	snprintf(name, sizeof name, "%s%s", prefix, timings->name);
	if (timings->count) {
		report_percentiles(name, timings->spans, timings->count);
		snprintf(line, sizeof line, "%s_max", name);
		report(line, (double)timings->spans[timings->count - 1] / 1e6, "ms"); /* sorted now */
	}
	snprintf(line, sizeof line, "%s_errors", name);
	report(line, timings->errors, "calls");
	snprintf(line, sizeof line, "%s_unanswered", name);
	report(line, timings->open, "calls");
}
