/*
 * Handlers that run only so many attempts at once (max_running). A Fetch brings no more tasks of their types, since one
 * that cannot start would occupy a slot that tasks of other types could use. What a Fetch may bring is promised to it
 * until it is answered.
 *
 * Guarded by the worker's lock.
 */
#ifndef REEVE_WORKER_ROOMS_H
#define REEVE_WORKER_ROOMS_H

#include "worker/handler.h"
#include "worker/in_flight.h"

/* What is promised to a Fetch of the tasks of a handler. */
struct promise {
	struct handler *handler; /* keeps a reference */
	uint32_t slots;
};

struct promises {
	size_t count;
	struct promise items[];
};

/* Types of which a Fetch may bring fewer tasks than it has slots. */
struct type_slots {
	size_t count;
	Reeve__V1__TypeSlots **list;
	Reeve__V1__TypeSlots items[];
};

/* Promises a Fetch with so many slots what the handlers of the table have room for; NULL: all may run at once. */
struct promises *rooms_promise(struct handler *table, const struct in_flight *in_flight, uint32_t slots);

/* Ends the promises. NULL is allowed. */
void rooms_end(struct promises *promises);

/* Returns true if a Fetch with these promises could bring more by now. NULL is allowed. */
bool rooms_grown(const struct promises *promises, const struct in_flight *in_flight, uint32_t slots);

/* Returns the limits that a call of the Fetch carries; NULL: none. The caller frees them with type_slots_free. */
struct type_slots *rooms_type_slots(const struct promises *promises, uint32_t slots);
void type_slots_free(struct type_slots *slots);

#endif
