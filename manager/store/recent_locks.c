/* A small table of hashes or ids. See recent_locks.h. */
#include "manager/store/recent_locks.h"

/* Returns the place of a hash, or −1. */
static int find(const struct recent_locks *recent, uint64_t hash)
{
	for (int i = 0; i < RECENT_LOCKS; i++)
		if (recent->locks[i].until_ms && recent->locks[i].hash == hash)
			return i;
	return -1;
}

bool recent_locks_have(const struct recent_locks *recent, uint64_t hash, int64_t now_ms)
{
	int i = find(recent, hash);
	return i >= 0 && recent->locks[i].until_ms > now_ms;
}

void recent_locks_add(struct recent_locks *recent, uint64_t hash, int64_t until_ms)
{
	int place = find(recent, hash);
	if (place < 0) {
		place = 0;
		for (int i = 1; i < RECENT_LOCKS; i++)
			if (recent->locks[i].until_ms < recent->locks[place].until_ms)
				place = i;
	}
	recent->locks[place].hash = hash;
	recent->locks[place].until_ms = until_ms;
}

void recent_locks_forget(struct recent_locks *recent, uint64_t hash)
{
	int place = find(recent, hash);
	if (place >= 0)
		recent->locks[place].until_ms = 0;
}

int recent_locks_list(const struct recent_locks *recent, int64_t now_ms, int64_t ids[RECENT_LOCKS])
{
	int n = 0;
	for (int i = 0; i < RECENT_LOCKS; i++)
		if (recent->locks[i].until_ms > now_ms)
			ids[n++] = (int64_t)recent->locks[i].hash;
	return n;
}
