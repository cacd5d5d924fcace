/* Conversion of PostgreSQL's binary timestamps, which are microseconds since 2000; all other times are since 1970. */
#ifndef REEVE_MANAGER_STORE_PGTIME_H
#define REEVE_MANAGER_STORE_PGTIME_H

#include <stdint.h>

#define PGTIME_EPOCH_US INT64_C(946684800000000)

/* Both functions keep infinities. */
static inline int64_t pgtime_from_us(int64_t us)
{
	if (us == INT64_MAX || us <= INT64_MIN + PGTIME_EPOCH_US)
		return us == INT64_MAX ? INT64_MAX : INT64_MIN;
	return us - PGTIME_EPOCH_US;
}

static inline int64_t pgtime_to_us(int64_t pg)
{
	if (pg == INT64_MIN || pg > INT64_MAX - PGTIME_EPOCH_US)
		return pg == INT64_MIN ? INT64_MIN : INT64_MAX;
	return pg + PGTIME_EPOCH_US;
}

#endif
