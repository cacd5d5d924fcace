/* Keys and batches that were found locked. */
#include "manager/store/submit_locks.h"

/* How long a key or batch is assumed to stay locked. */
enum { KEY_MS = 10 * 1000, BATCH_MS = 1000 };

/* Continues an FNV-1a hash. Two keys with the same hash only cause a needless detour. */
static uint64_t hash_on(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	while (*text++);
	return hash;
}

/* Returns the hash of what a task may have to wait for: its key; or its batch, or the queue whose open batch it
 * joins. 0: nothing. */
static uint64_t lock_hash(const struct store_task *t, bool of_batch)
{
	const uint64_t begin = UINT64_C(14695981039346656037);
	if (!of_batch)
		return t->key ? hash_on(hash_on(begin, t->queue), t->key) : 0;
	if (!t->batched && !t->batch)
		return 0;
	return t->batch ? (begin ^ (uint64_t)t->batch) * UINT64_C(1099511628211) : hash_on(begin, t->queue);
}

bool submit_locks_have(const struct recent_locks *locks, const struct store_submit *op, int64_t now_ms)
{
	for (int i = 0; i < op->count; i++) {
		for (int of_batch = 0; of_batch < 2; of_batch++) {
			uint64_t hash = lock_hash(&op->tasks[i], of_batch);
			if (hash && recent_locks_have(locks, hash, now_ms))
				return true;
		}
	}
	return false;
}

void submit_locks_note(struct recent_locks *locks, const struct store_submit *op, int64_t now_ms)
{
	for (int i = 0; i < op->count; i++)
		for (int of_batch = 0; of_batch < 2; of_batch++) {
			uint64_t hash = lock_hash(&op->tasks[i], of_batch);
			if (hash)
				recent_locks_add(locks, hash, now_ms + (op->batched ? BATCH_MS : KEY_MS));
		}
}

const char *submit_waits_for(const struct store_op *op)
{
	const struct store_submit *submit = (const struct store_submit *)op;
	if (submit->keyed && submit->batched)
		return "its key, or its batch, is used by a transaction that is not committed yet; try again";
	if (submit->keyed)
		return "its key is used by a transaction that is not committed yet; try again";
	if (submit->batched)
		return "its batch, or its queue, is locked by a transaction that is not committed yet; try again";
	return "an earlier copy of this call is not committed yet; try again";
}
