/* A progress bar, or a count, on standard error if that is a terminal; otherwise no output. */
#ifndef REEVE_CLIENT_PROGRESS_H
#define REEVE_CLIENT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool shown;
	const char *label;
	int64_t total;
	int64_t begun_ms;
	int64_t drawn_ms;
	int64_t from; /* where the rate counts from */
};

/* Begins a progress bar; `label` is not copied. If `total` is below 0, because nobody knows it, the progress is a
 * count, shown from half a second on. */
void progress_begin(struct progress *progress, const char *label, int64_t total, int64_t from);

/* Shows the progress; draws up to ten times a second. */
void progress_show(struct progress *progress, int64_t done);

/* Clears the line for other output. May be called twice. */
void progress_end(struct progress *progress);

#endif
