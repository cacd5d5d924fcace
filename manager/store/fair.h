/*
 * The order of a role's waiting operations, by fair queueing (Goyal, Vin, Cheng: Start-time fair queueing, 1996). Each
 * operation has a start time, in units of work (its weight): the end of the previous operation of the same origin, but
 * not before the start of the current one. An origin with many operations waits for its own; one with few is served at
 * once. The manager's own operations (origin 0) start now.
 */
#ifndef REEVE_MANAGER_STORE_FAIR_H
#define REEVE_MANAGER_STORE_FAIR_H

#include "manager/store/op.h"

struct lane;

/* Ready when zeroed. */
struct fair {
	struct lane *lanes; /* of the origins with waiting operations */
	int64_t now;
};

/* Inserts an operation into the list (utlist) at its place. */
void fair_add(struct fair *fair, struct store_op **waiting, struct store_op *op);

/* Counts an operation again that the caller puts back at the head of the list; it keeps its start time. */
void fair_return(struct fair *fair, struct store_op *op);

/* Stops counting an operation that was removed from the list. */
void fair_leave(struct fair *fair, struct store_op *op);

/* Returns the bytes of an origin's operations in the list. */
size_t fair_bytes(const struct fair *fair, uint64_t origin);

#endif
