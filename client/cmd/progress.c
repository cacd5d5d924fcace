/* The progress: one line, redrawn. */
#include "client/cmd/progress.h"

#include "client/cmd/terminal.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BAR = 24, REDRAW_MS = 100, COUNT_AFTER_MS = 500 };

void progress_begin(struct progress *progress, const char *label, int64_t total, int64_t from)
{
	*progress = (struct progress){
	    .shown = terminal_columns(stderr) > 0,
	    .label = label,
	    .total = total,
	    .begun_ms = clock_monotonic_ms(),
	    .from = from,
	};
}

static void draw_bar(const struct progress *progress, int64_t done, int64_t elapsed)
{
	static const char bar[] = "########################";
	int64_t gained = done - progress->from;
	int filled = progress->total > 0 ? (int)(done * BAR / progress->total) : 0;
	char left[64] = "";

	if (filled > BAR)
		filled = BAR;
	if (elapsed > 500 && gained > 0 && done < progress->total) {
		int64_t left_ms = elapsed * (progress->total - done) / gained;
		char text[40];

		/* in full seconds */
		snprintf(left, sizeof left, "  %s left", duration_format((left_ms / 1000 + 1) * 1000, text, sizeof text));
	}
	fprintf(stderr, "\r\x1b[K%s [%.*s%*s] %" PRId64 "/%" PRId64 "%s", progress->label, filled, bar, BAR - filled, "",
	    done, progress->total, left);
}

void progress_show(struct progress *progress, int64_t done)
{
	int64_t now = clock_monotonic_ms();
	bool counts = progress->total < 0;

	if (!progress->shown ||
	    (progress->drawn_ms && now - progress->drawn_ms < REDRAW_MS && (counts || done < progress->total)))
		return;
	if (counts && now - progress->begun_ms < COUNT_AFTER_MS)
		return;
	progress->drawn_ms = now;
	if (counts)
		fprintf(stderr, "\r\x1b[K%s: %" PRId64, progress->label, done);
	else
		draw_bar(progress, done, now - progress->begun_ms);
	fflush(stderr);
}

void progress_end(struct progress *progress)
{
	if (progress->shown && progress->drawn_ms)
		fputs("\r\x1b[K", stderr);
	progress->drawn_ms = 0;
}
