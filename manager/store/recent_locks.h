/* What was recently found locked by another transaction, as hashes or ids. If there are more than RECENT_LOCKS, the
 * oldest are forgotten and must be detected again. */
#ifndef REEVE_MANAGER_STORE_RECENT_LOCKS_H
#define REEVE_MANAGER_STORE_RECENT_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

enum { RECENT_LOCKS = 64 };

struct recent_locks {
	struct {
		uint64_t hash;
		int64_t until_ms; /* monotonic; 0: unused */
	} locks[RECENT_LOCKS];
};

/* Returns whether it was found locked a short time ago. */
bool recent_locks_have(const struct recent_locks *recent, uint64_t hash, int64_t now_ms);

/* Assumes that it stays locked until then. */
void recent_locks_add(struct recent_locks *recent, uint64_t hash, int64_t until_ms);

/* Assumes that it is free. */
void recent_locks_forget(struct recent_locks *recent, uint64_t hash);

/* Fills `ids` with all that is assumed to be locked, for those added as ids. Returns their number. */
int recent_locks_list(const struct recent_locks *recent, int64_t now_ms, int64_t ids[RECENT_LOCKS]);

#endif
