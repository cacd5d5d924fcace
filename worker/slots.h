/*
 * Slots: the threads that run handlers.
 *
 * A slot takes attempts from the ready list and gives them back when they have ended. Tasks whose handler takes a few
 * microseconds are taken many at a time, as many as usually make up HANDLER_COST_FULL_US together, so that locks and
 * wake-ups are paid once for all of them. If one of them takes longer after all, control's sweep gives the others of
 * the batch, those not begun and those ended, back on its behalf.
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
	SLOT_SWEEP_MS = 5, /* how long a batch of several is left alone */
};

struct slots {
	struct slot **all; /* by index; those ended or never started are NULL */
	int room;          /* length of `all` */
	int wanted;        /* the concurrency */
	int ordered;       /* the last concurrency that the manager asked for; 0: none */
	bool changed;      /* `wanted` has; the threads are not yet that many */
	int idle;          /* wait for work */
	int resting;       /* may not work for a while */
	int open_batches;  /* of more than one */
	bool swept_soon;   /* control will sweep within SLOT_SWEEP_MS */
	bool end;          /* all threads are to end */
	pthread_cond_t work;
	pthread_cond_t rest; /* the concurrency has changed, or all are to end; monotonic */
	sigset_t signals; /* the mask of the thread that called reeve_worker_run */
};

/* Prepares; destroys what that made. */
void slots_init(struct slots *slots);
void slots_destroy(struct slots *slots);

/* Brings the number of threads to `wanted`: starts missing ones and joins those that have ended; those beyond
 * slots->wanted end by themselves. No more are started than can run programs with the descriptors that this process may
 * have. Called by control without the lock. False: not all could be started, slots->wanted is now how many there are;
 * *error says why. */
bool slots_resize(struct reeve_worker *worker, int wanted, struct reeve_error *error);

/* Ends and joins all threads; their handlers must have ended. Called by control without the lock. */
void slots_end(struct reeve_worker *worker);

/* The rest is called with the lock. */

/* What an attempt probably costs, in microseconds. */
int slots_cost(const struct attempt *attempt);

/* Wakes as many slots as are needed for attempts of this cost. */
void slots_wake(struct reeve_worker *worker, int64_t cost_us);

/* Tells the slot that has the attempt that the attempt's stop has changed. */
void slots_notify(struct attempt *attempt);

/* Gives back what lies in batches that have taken too long. */
void slots_sweep(struct reeve_worker *worker, int64_t now_ms);

/* The number of slots that are running something. */
int slots_busy(const struct reeve_worker *worker);

#endif
