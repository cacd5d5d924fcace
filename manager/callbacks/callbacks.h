/*
 * The delivery of callbacks: takes due callbacks from the store, calls their URLs, and records the outcome of each try.
 *
 * Any manager delivers. It takes a callback for a limited time, so that another manager tries it if the first one dies.
 * If an answer is lost, the callback is repeated; receivers recognize it by its webhook-id. The number of calls in
 * flight is limited, in all and per site, so that sites that hang take up neither memory nor the capacity for other
 * sites.
 *
 * A failed callback is tried again after growing retry delays, and given up after a limited number of tries.
 */
#ifndef REEVE_MANAGER_CALLBACKS_CALLBACKS_H
#define REEVE_MANAGER_CALLBACKS_CALLBACKS_H

#include "common/error.h"
#include "manager/jobs/jobs.h"
#include "manager/store/store.h"

struct callbacks;

struct callbacks_options {
	int attempts;        /* maximum tries of a callback */
	int64_t timeout_ms;  /* of one try */
	const char *ca_file; /* certificates to trust, PEM; NULL: the system's */
	const char *hosts;   /* allowed hosts, as for callback_url_allowed; NULL: any */
	bool private;        /* loopback, link-local and private addresses are allowed, too */
	/* the manager's estimate of the database's time (core_database_us); 0: none yet */
	int64_t (*database_us)(void *arg);
	void *arg;
};

/* Counters since the start. */
struct callbacks_counters {
	int64_t delivered, failed, given_up; /* `failed` counts tries, the others callbacks */
};

/* Creates the delivery and binds the job "callbacks". The store and the options' strings must outlive it. Returns NULL
 * with *error. */
struct callbacks *callbacks_create(struct event_base *base, struct store *store, struct jobs *jobs,
    const struct callbacks_options *options, struct reeve_error *error);

/* Frees the delivery and abandons calls in flight; their callbacks are tried again after the time for which they were
 * taken. The store must be closed before. `callbacks` may be NULL. */
void callbacks_destroy(struct callbacks *callbacks);

const struct callbacks_counters *callbacks_counters(const struct callbacks *callbacks);

#endif
