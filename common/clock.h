/* Clocks, durations and times. Durations are int64 milliseconds; times are int64 microseconds since 1970 UTC. */
#ifndef REEVE_COMMON_CLOCK_H
#define REEVE_COMMON_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in milliseconds and in microseconds, for timeouts and intervals. */
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_us(void);

/* Returns the delay after so many failures in a row: first_ms after the first one, twice as long after each further
 * one, up to max_ms. */
int64_t clock_retry_ms(int64_t first_ms, int64_t max_ms, int failures);

/* CLOCK_REALTIME in microseconds since 1970, for logs and output only: no decision may depend on it. */
int64_t clock_wall_us(void);

/* Parses "250ms", "5s", "1m30s", "2h", "7d", "1.5h" or a bare number of seconds. Returns false and leaves *ms unchanged
 * if the string is not a duration, is negative, or exceeds 100 years. */
bool duration_parse(const char *text, int64_t *ms);

/* Writes "250ms", "1m30s", "2h" into `out` and returns it. */
const char *duration_format(int64_t ms, char *out, size_t size);

/* Parses RFC 3339 ("2026-01-14T08:00:00Z", "2026-01-14 08:00:00.5+01:00", "2026-01-14"), "now", "+5m" or "5m ago". A
 * time without an offset is in the local time zone. Returns false if the string is not a time. */
bool time_parse(const char *text, int64_t *us);

/* Writes RFC 3339 in UTC with microseconds, "2026-01-14T08:00:00.123456Z", into `out` and returns it. */
const char *time_format(int64_t us, char *out, size_t size);

#endif
