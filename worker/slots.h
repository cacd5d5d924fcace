/*
 * Slots: the threads that run handlers.
 *
 * A slot takes attempts from the ready list and returns them with their results. If handlers take only microseconds, it
 * takes many attempts at once: as many as are estimated to take HANDLER_COST_FULL_US together. So they share the cost
 * of locks and wake-ups. If one of them takes longer than estimated, control's sweep collects the ended attempts of the
 * batch and moves those not started back to the ready list.
 */
#ifndef REEVE_WORKER_SLOTS_H
#define REEVE_WORKER_SLOTS_H

#include "common/error.h"
#include "worker/handler.h"
#include "worker/handler_set.h"
#include "worker/rests.h"

#include <signal.h>

enum {
	SLOT_BATCH_MAX = 64,
	SLOT_SWEEP_MS = 5, /* after this time a batch of several is swept */
};

/* Guarded by the worker's lock, except the fields marked. */
struct slots {
	struct shared *shared;
	struct in_flight *in_flight;
	const struct handler_set *handlers;
	struct handler_context context; /* for handlers, but for the event_fd; set before the threads start */
	sigset_t signals; /* the signal mask of the thread that called reeve_worker_run; set before the threads start */

	struct slot **all; /* by index; NULL: ended or never started. Only control changes it */
	int all_count;     /* length of `all` */
	int concurrency;   /* the number of slots */
	int configured;    /* … unless a manager requests another; set before the threads start */
	int prefetch;      /* tasks that the worker holds in addition; read-only */
	int requested;     /* the last concurrency that a manager requested; −1: none */
	bool changed;      /* `concurrency` has changed; the number of threads not yet */
	struct rests rests;
	int64_t resume_ms; /* when a handler that pauses may run a ready attempt; 0: no such attempt */
	int open_batches;  /* batches of more than one attempt */
	bool sweep_soon;   /* control will sweep within SLOT_SWEEP_MS */
	bool end;          /* all threads must end */

	/* Limits the logging of failures. Used without the lock. */
	_Atomic int64_t log_second;
	_Atomic int log_count;
};

/* slots_init prepares `slots`; slots_destroy frees what it and slots_resize allocated. */
void slots_init(struct slots *slots, struct shared *shared, struct in_flight *in_flight,
    const struct handler_set *handlers, const struct handler_context *context);
void slots_destroy(struct slots *slots);

/* The functions below are called by control without the lock. */

/* Starts the first `concurrency` slots. Starts only as many as can run programs with the descriptors that this process
 * may have. False: not all could be started; slots->concurrency is the new number, and *error has the reason. */
bool slots_start(struct slots *slots, struct reeve_error *error);

/* Brings the number of threads to a concurrency that has changed: starts missing ones and joins those that have ended.
 * Threads beyond it end on their own. */
void slots_step(struct slots *slots);

/* Ends and joins all threads; their handlers must have ended. */
void slots_end(struct slots *slots);

/* The functions below are called with the lock. */

/* Changes the concurrency; control applies it soon. */
void slots_set_concurrency(struct slots *slots, int concurrency);

/* Ends the request of a manager for another concurrency, if there is one. */
static inline void slots_end_request(struct slots *slots)
{
	if (slots->requested >= 0)
		slots_set_concurrency(slots, slots->configured);
	slots->requested = -1;
}

/* Empties batches that have taken too long: collects ended attempts, and moves those not started back to the ready
 * list. Ends resting periods whose time is over. Without slots it returns the attempts that have not started. */
void slots_sweep(struct slots *slots, int64_t now_ms);

/* Returns when slots_sweep has something to do; INT64_MAX: never. */
int64_t slots_next_ms(const struct slots *slots, int64_t now_ms);

/* Returns the number of slots that run something. */
int slots_busy(const struct slots *slots);

/* Returns how many attempts without a result the worker may hold. */
static inline int slots_capacity(const struct slots *slots)
{
	return slots->concurrency ? slots->concurrency + slots->prefetch : 0;
}

#endif
