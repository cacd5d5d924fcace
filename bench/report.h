/* What every measuring program needs: a clock, percentiles, lines of figures, and giving up. */
#ifndef REEVE_BENCH_REPORT_H
#define REEVE_BENCH_REPORT_H

#include <stddef.h>
#include <stdint.h>

/* Returns nanoseconds of CLOCK_MONOTONIC, the same in all processes of a machine. */
int64_t now_ns(void);

/* Writes a figure as `name value unit` to standard output. */
void report(const char *name, double value, const char *unit);

/* Sorts the spans and writes NAME_p50, NAME_p95 and NAME_p99 in milliseconds. */
void report_percentiles(const char *name, int64_t *spans_ns, size_t count);

/* Writes an error message to standard error and exits with 1. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes the details of a task to `text`, which has room for 200 bytes: about 100 bytes of JSON with the number in
 * it. */
void details_write(char *text, int number);

#endif
