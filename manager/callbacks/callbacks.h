/*
 * The delivery of callbacks: takes those that are due from the store, calls their URLs, and notes what became of each try.
 *
 * Any manager delivers: a callback is taken for a while only, so that one whose manager dies is tried by another. A try
 * whose answer got lost is made again; receivers know a repeated callback by its webhook-id. A bounded number is under
 * way, few of them to one site, so that sites that hang take neither memory nor the others' turns.
 *
 * A callback that fails is tried again after rests that grow, a bounded number of times, then given up.
 */
#ifndef REEVE_MANAGER_CALLBACKS_CALLBACKS_H
#define REEVE_MANAGER_CALLBACKS_CALLBACKS_H

#include "common/error.h"
#include "manager/jobs/jobs.h"
#include "manager/store/store.h"

struct callbacks;

struct callbacks_options {
	int attempts;        /* tries in all */
	int64_t timeout_ms;  /* of one */
	const char *ca_file; /* certificates to trust, PEM; NULL: the system's */
	const char *hosts;   /* where calls may go, as callback_url_allowed takes it; NULL: anywhere */
	int64_t (*database_us)(void *arg); /* the manager's estimate of the database's time (core_database_us); 0: none yet */
	void *arg;
};

/* Since the start. */
struct callbacks_counters {
	int64_t delivered, failed, given_up; /* failed: tries */
};

/* Makes the delivery, which the job "callbacks" begins; the store and the options' texts must outlive it. NULL: *error says why. */
struct callbacks *callbacks_create(struct event_base *base, struct store *store, struct jobs *jobs,
    const struct callbacks_options *options, struct reeve_error *error);

/* Lets go of what is under way: it is tried again when its time is over. The store must be closed before. NULL is
 * allowed. */
void callbacks_destroy(struct callbacks *callbacks);

const struct callbacks_counters *callbacks_counters(const struct callbacks *callbacks);

#endif
