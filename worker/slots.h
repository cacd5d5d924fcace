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

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct attempt;
struct reeve_worker;
struct slot;

enum {
	SLOT_BATCH_MAX = 64,
	SLOT_SWEEP_MS = 5, /* after this time a batch of several is swept */
};

struct slots {
	struct slot **all; /* by index; NULL: ended or never started */
	int room;          /* length of `all` */
	int wanted;        /* the concurrency */
	int ordered;       /* the last concurrency that the manager requested; 0: none */
	bool changed;      /* `wanted` has changed; the number of threads not yet */
	int idle;          /* how many wait for work */
	int resting;       /* how many are in a resting period */
	int open_batches;  /* batches of more than one attempt */
	bool swept_soon;   /* control will sweep within SLOT_SWEEP_MS */
	bool end;          /* all threads must end */
	pthread_cond_t work;
	pthread_cond_t rest; /* for resting slots: the concurrency has changed, or all must end; monotonic */
	sigset_t signals; /* the signal mask of the thread that called reeve_worker_run */
};

/* slots_init prepares `slots`; slots_destroy frees what it and slots_resize allocated. */
void slots_init(struct slots *slots);
void slots_destroy(struct slots *slots);

/* Brings the number of threads to `wanted`: starts missing ones and joins those that have ended. Threads beyond
 * slots->wanted end on their own. Starts only as many as can run programs with the descriptors that this process may
 * have. Called by control without the lock. False: not all could be started; slots->wanted is the new number, and
 * *error has the reason. */
bool slots_resize(struct reeve_worker *worker, int wanted, struct reeve_error *error);

/* Ends and joins all threads; their handlers must have ended. Called by control without the lock. */
void slots_end(struct reeve_worker *worker);

/* The functions below are called with the lock. */

/* Returns the estimated cost of an attempt, in microseconds. */
int slots_cost(const struct attempt *attempt);

/* Wakes as many slots as attempts of this total cost need. */
void slots_wake(struct reeve_worker *worker, int64_t cost_us);

/* Wakes the slot that has the attempt, because the attempt's `stop` has changed or its extension was answered. */
void slots_notify(struct attempt *attempt);

/* Empties batches that have taken too long: collects ended attempts, and moves those not started back to the ready
 * list. */
void slots_sweep(struct reeve_worker *worker, int64_t now_ms);

/* Returns the number of slots that run something. */
int slots_busy(const struct reeve_worker *worker);

#endif
