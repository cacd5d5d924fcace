/* A progress bar on standard error, if that is a terminal; nothing at all otherwise. */
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
	int64_t from; /* where the rate is counted from */
};

/* Begins; `label` is kept, not copied. */
void progress_begin(struct progress *progress, const char *label, int64_t total, int64_t from);

/* Shows how far it is; draws at most ten times a second. */
void progress_show(struct progress *progress, int64_t done);

/* Clears the line, so that something else can be said. May be called twice. */
void progress_end(struct progress *progress);

#endif
