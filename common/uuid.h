/* Time-ordered UUIDs (RFC 9562, version 7) that name calls. */
#ifndef REEVE_COMMON_UUID_H
#define REEVE_COMMON_UUID_H

#include <stdbool.h>
#include <stdint.h>

enum { UUID_BYTES = 16, UUID_TEXT = 37 };

/* Makes a new one for a time in milliseconds since 1970. Ids made by one process for the same millisecond, or one
 * up to 10 s earlier, still increase; for an earlier one they begin anew, with its time. Thread-safe. */
void uuid7_make(int64_t unix_ms, uint8_t uuid[UUID_BYTES]);

/* The time in a version 7 UUID, in milliseconds since 1970; −1 if it is not of version 7. */
int64_t uuid7_time_ms(const uint8_t uuid[UUID_BYTES]);

/* Writes the usual 36 characters and a NUL; returns `out`. */
const char *uuid_format(const uint8_t uuid[UUID_BYTES], char out[UUID_TEXT]);

#endif
