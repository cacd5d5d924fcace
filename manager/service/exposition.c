#include "manager/service/exposition.h"

#include <inttypes.h>
#include <stdlib.h>

void exposition_family(struct exposition *x, const char *name, enum exposition_kind kind, const char *help)
{
	static const char *const words[] = {"gauge", "counter", "summary", "histogram"};
	const char *of_family = kind == EXPOSITION_COUNTER && !x->open_metrics ? "_total" : "";

	x->family = name;
	x->suffix = kind == EXPOSITION_COUNTER ? "_total" : "";
	fprintf(x->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, of_family, help, name, of_family, words[kind]);
}

/* Returns the labels as they stand between the braces, to be freed. */
static char *labels_text(const struct labels *labels)
{
	char *text;
	size_t length;
	FILE *out = mem_stream(&text, &length);

	for (size_t i = 0; i + 1 < sizeof labels->pair / sizeof *labels->pair && labels->pair[i]; i += 2) {
		fprintf(out, "%s%s=\"", i ? "," : "", labels->pair[i]);
		for (const char *c = labels->pair[i + 1]; *c; c++)
			switch (*c) {
			case '\\': fputs("\\\\", out); break;
			case '"': fputs("\\\"", out); break;
			case '\n': fputs("\\n", out); break;
			default: putc_unlocked(*c, out);
			}
		putc_unlocked('"', out);
	}
	fclose(out);
	return text;
}

/* Writes a sample without its value. */
static void put_name(struct exposition *x, const char *suffix, const char *labels)
{
	fprintf(x->out, *labels ? "%s%s{%s} " : "%s%s ", x->family, suffix, labels);
}

static void put_count(struct exposition *x, const char *suffix, const char *labels, int64_t count)
{
	put_name(x, suffix, labels);
	fprintf(x->out, "%" PRId64 "\n", count);
}

static void put_seconds(struct exposition *x, const char *suffix, const char *labels, int64_t us)
{
	put_name(x, suffix, labels);
	fprintf(x->out, "%" PRId64 ".%06" PRId64 "\n", us / 1000000, us % 1000000);
}

void exposition_integer(struct exposition *x, const struct labels *labels, int64_t value)
{
	char *text = labels_text(labels);

	put_count(x, x->suffix, text, value);
	free(text);
}

void exposition_number(struct exposition *x, const struct labels *labels, double value)
{
	char *text = labels_text(labels);

	put_name(x, x->suffix, text);
	fprintf(x->out, "%.15g\n", value);
	free(text);
}

static void put_bucket(struct exposition *x, const char *labels, const char *bound, int64_t count)
{
	fprintf(x->out, "%s_bucket{%s%sle=\"%s\"} %" PRId64 "\n", x->family, labels, *labels ? "," : "", bound, count);
}

void exposition_times(struct exposition *x, const struct labels *labels, const struct traffic_times *times)
{
	char *text = labels_text(labels), bound[32];
	int64_t count = 0;

	for (int i = 0; i < TRAFFIC_BOUNDS; i++) {
		int64_t us = traffic_bounds_us[i];

		/* Bounds are floating-point numbers in their shortest form, with a point: 0.0025, 1.0. */
		snprintf(bound, sizeof bound, us % 1000000 ? "%g" : "%.1f", (double)us / 1e6);
		count += times->count[i];
		put_bucket(x, text, bound, count);
	}
	count += times->count[TRAFFIC_BOUNDS];
	put_bucket(x, text, "+Inf", count);
	put_seconds(x, "_sum", text, times->sum_us);
	put_count(x, "_count", text, count);
	free(text);
}

void exposition_summary(struct exposition *x, const struct labels *labels, int64_t count, int64_t sum_us)
{
	char *text = labels_text(labels);

	put_seconds(x, "_sum", text, sum_us);
	put_count(x, "_count", text, count);
	free(text);
}

void exposition_end(struct exposition *x)
{
	if (x->open_metrics)
		fputs("# EOF\n", x->out);
}
