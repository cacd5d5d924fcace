/* Time-ordered UUIDs (RFC 9562, version 7), which identify calls. */
#ifndef REEVE_COMMON_UUID_H
#define REEVE_COMMON_UUID_H

#include <stdbool.h>
#include <stdint.h>

enum { UUID_BYTES = 16 };

/* Creates a UUID for a time in milliseconds since 1970. A process's ids increase even if the time stays the same or
 * goes back by up to 10 s; if it goes back further, they restart at that time. Thread-safe. */
void uuid7_make(int64_t unix_ms, uint8_t uuid[UUID_BYTES]);

/* Returns the time in a version 7 UUID, in milliseconds since 1970, or −1 for a UUID of another version. */
int64_t uuid7_time_ms(const uint8_t uuid[UUID_BYTES]);

#endif
