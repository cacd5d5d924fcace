/* Clocks and spans of time. Durations are int64 milliseconds, points in time int64 microseconds since 1970 UTC. */
#ifndef REEVE_COMMON_CLOCK_H
#define REEVE_COMMON_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in milliseconds and in microseconds. What a process waits for is counted on these. */
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_us(void);

/* CLOCK_REALTIME in microseconds since 1970: for logs and for showing, never for deciding. */
int64_t clock_wall_us(void);

/* Reads "250ms", "5s", "1m30s", "2h", "7d", "1.5h" or a bare number of seconds. False: not a duration (or negative, or
 * beyond 100 years), *ms untouched. */
bool duration_parse(const char *text, int64_t *ms);

/* Writes "250ms", "1m30s", "2h" into `out` and returns it. */
const char *duration_format(int64_t ms, char *out, size_t size);

/* Reads RFC 3339 ("2026-01-14T08:00:00Z", "2026-01-14 08:00:00.5+01:00", "2026-01-14"), without an offset in the local
 * time zone; "now"; "+5m" and "5m ago". False: not a time. */
bool time_parse(const char *text, int64_t *us);

/* Writes RFC 3339 in UTC with microseconds, "2026-01-14T08:00:00.123456Z", into `out` and returns it. */
const char *time_format(int64_t us, char *out, size_t size);

#endif
