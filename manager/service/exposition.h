/*
 * Writes metrics in Prometheus' text format, or in OpenMetrics, which is almost the same: there the name of a counter's
 * family lacks `_total`, and the text has an end.
 */
#ifndef REEVE_MANAGER_SERVICE_EXPOSITION_H
#define REEVE_MANAGER_SERVICE_EXPOSITION_H

#include "manager/core/traffic.h"

#include <stdbool.h>
#include <stdio.h>

struct exposition {
	FILE *out;
	bool open_metrics;
	const char *family; /* the current one */
	const char *suffix; /* of its samples */
};

enum exposition_kind { EXPOSITION_GAUGE, EXPOSITION_COUNTER, EXPOSITION_SUMMARY, EXPOSITION_HISTOGRAM };

/* Names and values of labels in turn, as many as are not NULL. */
struct labels {
	const char *pair[8];
};

#define LABELS(...) (&(const struct labels){{__VA_ARGS__}})
#define NO_LABELS LABELS(NULL)

/* Begins a family. The name of a counter is without `_total`. Names and help are kept until the next one. */
void exposition_family(struct exposition *x, const char *name, enum exposition_kind kind, const char *help);

/* Write samples of the current family. */
void exposition_integer(struct exposition *x, const struct labels *labels, int64_t value);
void exposition_number(struct exposition *x, const struct labels *labels, double value);
void exposition_times(struct exposition *x, const struct labels *labels, const struct traffic_times *times);
void exposition_summary(struct exposition *x, const struct labels *labels, int64_t count, int64_t sum_us);

void exposition_end(struct exposition *x);

#endif
