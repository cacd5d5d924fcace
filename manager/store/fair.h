/*
 * The order of a role's waiting operations, by weighted fair queueing (Demers, Keshav, Shenker, 1989). An operation's
 * turn is when it would be over if all waiting origins were served at once, each as fast as the others: its work (its
 * weight) after the turn of the previous operation of the same origin. An origin with many operations, or a large one,
 * waits for its own; one with few and small ones is served at once. The manager's own operations (origin 0) have their
 * turn now.
 */
#ifndef REEVE_MANAGER_STORE_FAIR_H
#define REEVE_MANAGER_STORE_FAIR_H

#include "manager/store/op.h"

struct lane;

/* Ready when zeroed. */
struct fair {
	struct lane *lanes; /* of the origins with waiting operations */
	int64_t now;        /* the work that each origin would have got */
};

/* Inserts an operation into the list (utlist) at its place. */
void fair_add(struct fair *fair, struct store_op **waiting, struct store_op *op);

/* Notes that an operation of the list begins; call it before fair_leave. */
void fair_begin(struct fair *fair, const struct store_op *op);

/* Counts an operation again that the caller puts back at the head of the list; it keeps its turn. */
void fair_return(struct fair *fair, struct store_op *op);

/* Stops counting an operation that was removed from the list. */
void fair_leave(struct fair *fair, struct store_op *op);

/* Returns the bytes of an origin's operations in the list. */
size_t fair_bytes(const struct fair *fair, uint64_t origin);

#endif
