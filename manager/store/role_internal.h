/* Declarations shared by the files of the roles. */
#ifndef REEVE_MANAGER_STORE_ROLE_INTERNAL_H
#define REEVE_MANAGER_STORE_ROLE_INTERNAL_H

#include "manager/store/role.h"

#define LOCKED_OUT "another transaction holds a lock that this needs (%s)"

/* Starts the next batch if the role is free. */
void role_pump(struct role *role);

/* Starts batches of a role's waiting operations on the idle roles that take them. */
void role_offer(struct role *home);

/* Moves the batch out of the role, which is then free for the next one; returns the number of operations. The caller
 * must free *state when the operations are done, because their results are in it. */
int role_batch_take(struct role *role, struct store_op **ops, void **state);

/* Returns the batch to the head of the list it came from, in the same order. */
void role_batch_requeue(struct role *role, int batch_limit, bool again);

void role_batch_fail(struct role *role, reeve_status code, const char *message);

#endif
