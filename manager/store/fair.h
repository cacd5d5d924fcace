/*
 * Whose turn it is: a role's operations wait in the order of fair queueing (Goyal, Vin, Cheng: Start-time fair queueing, 1996).
 * Each operation has a start, in units of work (its weight): where the operation of the same origin before it ends, but not
 * before what is being done now. An origin that has given much waits for itself; one that has given little comes at once. What
 * the manager does for itself (origin 0) starts now.
 */
#ifndef REEVE_MANAGER_STORE_FAIR_H
#define REEVE_MANAGER_STORE_FAIR_H

#include "manager/store/store.h"

struct lane;

/* Zeroed, it is ready. */
struct fair {
	struct lane *lanes; /* of the origins that have something waiting */
	int64_t now;
};

/* Puts an operation into the list (utlist) in its place. */
void fair_add(struct fair *fair, struct store_op **waiting, struct store_op *op);

/* An operation goes back to the head of the list, by the caller; it has had its turn. */
void fair_return(struct fair *fair, struct store_op *op);

/* An operation has been taken out of the list. */
void fair_leave(struct fair *fair, struct store_op *op);

/* Bytes that operations of an origin hold in the list. */
size_t fair_bytes(const struct fair *fair, uint64_t origin);

#endif
