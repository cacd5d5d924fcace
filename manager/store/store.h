/*
 * The store: all durable actions of the manager, as asynchronous operations (op.h), by subject. The core uses only this
 * header. The roles behind it have the connections to PostgreSQL.
 */
#ifndef REEVE_MANAGER_STORE_STORE_H
#define REEVE_MANAGER_STORE_STORE_H

#include "manager/store/ops_access.h"
#include "manager/store/ops_attempts.h"
#include "manager/store/ops_jobs.h"
#include "manager/store/ops_queues.h"
#include "manager/store/ops_reads.h"
#include "manager/store/ops_tasks.h"
#include "manager/store/ops_workers.h"

#include <event2/event.h>

struct store_options {
	const char *conninfo;
	const char *manager_name;
	int history_days;
	bool archives; /* the history is written to files before it is dropped */
	int64_t lease_ms;
	int64_t expiry_grace_ms;
	int64_t max_details;  /* bytes; for submits by SQL */
	size_t waiting_bytes; /* maximum waiting for a role: beyond it, operations with a deadline are refused with
	                       * RESOURCE_EXHAUSTED */
	int origin_percent;   /* the maximum share of what others leave of it for one origin; 0: all */
};

struct store_listener {
	void (*notified)(void *arg, const char *payload); /* a notification from another manager */
	void (*listening)(void *arg);                     /* the listen connection is up (again): notifications may have
	                                                   * been missed */
	void *arg;
};

/* Returns whether libpq can parse the connection string; if not, the error is INVALID_ARGUMENT and has the reason. */
bool store_check_conninfo(const char *conninfo, struct reeve_error *error);

/* Returns whether a valid connection string contains a password. */
bool store_has_password(const char *conninfo);

/* Opens the roles' connections; the database need not be up. */
struct store *store_open(
    struct event_base *base, const struct store_options *options, const struct store_listener *listener);

/* Closes the connections; waiting operations end with UNAVAILABLE. */
void store_close(struct store *store);

/* Ends operations that waited too long. Call it a few times a second. */
void store_expire_waiting(struct store *store);

/* True if all roles are connected. */
bool store_up(const struct store *store);

/* Tells whether other managers are alive, to which this one must leave its connections if it lacks some. */
void store_others(struct store *store, bool alive);

/* Returns why a connection is down, for messages; "" if none is. */
const char *store_problem(const struct store *store);

/* Returns the manager's number in the database; 0 before it is known. */
int64_t store_manager_id(const struct store *store);

/* Returns the batches and operations of a role since the start; false if `role` is beyond the last. */
bool store_counters(const struct store *store, int role, const char **name, int64_t *batches, int64_t *operations);

/* Returns how often a statement has ended since the start, and how long all its runs took; false if `statement` is
 * beyond the last. */
bool store_statement(const struct store *store, int statement, const char **name, int64_t *count, int64_t *us);

#endif
