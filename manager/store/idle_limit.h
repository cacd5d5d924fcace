/* How long PostgreSQL lets a session of a manager stand still within a transaction before it ends it. */
#ifndef REEVE_MANAGER_STORE_IDLE_LIMIT_H
#define REEVE_MANAGER_STORE_IDLE_LIMIT_H

#include <stdint.h>

/* In milliseconds, for a lease in milliseconds: how long the locks of a manager stay that is frozen, or cut off from the
 * database, within a transaction. A quarter of the lease, between these: between two statements of a transaction a manager
 * needs less than a millisecond, but a busy host may give it no processor for some hundred; and nobody should wait for a dead
 * manager for longer because leases are long. Any thread. */
enum { IDLE_LEAST_MS = 1000, IDLE_MOST_MS = 5000 };

static inline int idle_limit(int64_t lease_ms)
{
	int64_t quarter = lease_ms / 4;

	return (int)(quarter < IDLE_LEAST_MS ? IDLE_LEAST_MS : quarter > IDLE_MOST_MS ? IDLE_MOST_MS : quarter);
}

#endif
