/* The time for which PostgreSQL lets a manager's session idle within a transaction before it ends the session. */
#ifndef REEVE_MANAGER_STORE_IDLE_LIMIT_H
#define REEVE_MANAGER_STORE_IDLE_LIMIT_H

#include <stdint.h>

/* Returns the limit in milliseconds for a lease in milliseconds. It bounds how long the locks of a manager stay that
 * froze, or was disconnected from the database, within a transaction. It is a quarter of the lease, between these
 * values: a manager needs less than a millisecond between two statements of a transaction, but on a busy host it may
 * get no CPU time for some hundred milliseconds; and long leases must not make others wait longer for a dead
 * manager. Any thread. */
enum { IDLE_MIN_MS = 1000, IDLE_MAX_MS = 5000 };

static inline int idle_limit(int64_t lease_ms)
{
	int64_t quarter = lease_ms / 4;

	return (int)(quarter < IDLE_MIN_MS ? IDLE_MIN_MS : quarter > IDLE_MAX_MS ? IDLE_MAX_MS : quarter);
}

#endif
