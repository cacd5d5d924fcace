/* Keys and batches that a submit found locked by another transaction: submits with one of them wait in the role KEYS.
 */
#ifndef REEVE_MANAGER_STORE_SUBMIT_LOCKS_H
#define REEVE_MANAGER_STORE_SUBMIT_LOCKS_H

#include "manager/store/recent_locks.h"
#include "manager/store/store.h"

/* Returns whether a key or batch of the submit was found locked a short time ago. */
bool submit_locks_have(const struct recent_locks *locks, const struct store_submit *op, int64_t now_ms);

/* Records the keys and batches of a submit that could not get a lock. */
void submit_locks_note(struct recent_locks *locks, const struct store_submit *op, int64_t now_ms);

/* Returns what a submit waits for that cannot get a lock, and what to do. */
const char *submit_waits_for(const struct store_op *op);

#endif
