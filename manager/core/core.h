/*
 * The core: the rules for tasks, workers and fetches. It knows neither nng, libpq nor HTTP. Services call it, it calls
 * the store, and answers come by callbacks. One thread owns all of it.
 *
 * It gets the time from its host and runs periodic work as jobs (manager/jobs), so that tests can use their own clock.
 */
#ifndef REEVE_MANAGER_CORE_CORE_H
#define REEVE_MANAGER_CORE_CORE_H

#include "manager/core/base.h"

#include <stdbool.h>
#include <stdint.h>

struct db_clock;
struct routes;
struct queues;
struct sessions;
struct verbose;
struct ready_cache;
struct late;
struct dispatch;
struct notifier;
struct waits;
struct task_events;
struct reports;
struct edits;
struct submits;
struct control;
struct leases;
struct cluster;
struct batches;
struct inbox;
struct schedules;
struct queue_stops;
struct notifications;
struct maintenance;
struct activity;
struct spans;

/* The modules, in order of creation: each may get those before it. Services call the modules; modules do not know this
 * struct. */
struct core {
	struct base base;
	struct db_clock *clock;
	struct routes *routes;
	struct queues *queues;
	struct sessions *sessions;
	struct verbose *verbose;
	struct spans *spans;
	struct ready_cache *cache;
	struct late *late;
	struct dispatch *dispatch;
	struct notifier *notifier;
	struct waits *waits;
	struct task_events *events;
	struct reports *reports;
	struct edits *edits;
	struct submits *submits;
	struct control *control;
	struct leases *leases;
	struct cluster *cluster;
	struct batches *batches;
	struct inbox *inbox;
	struct schedules *schedules;
	struct queue_stops *queue_stops;
	struct notifications *notifications;
	struct maintenance *maintenance;
	struct activity *activity;
};

/* Creates the core on an open store, and binds its jobs. The store and the job runner must outlive it. */
struct core *core_create(
    struct store *store, struct jobs *jobs, const struct core_options *options, const struct core_host *host);

/* Frees the core. Close the store first, so that no operation is in flight. */
void core_destroy(struct core *core);

/* Runs the jobs that are due. Call it when their timer fires. */
void core_turn(struct core *core);

/* Claims what can be claimed. Call it after the core has called the host's `dispatch`. */
void core_dispatch(struct core *core);

/* Lets Fetches of callers get tasks that take their answers again (struct fetch_request). */
void core_eased(struct core *core);

/* Returns the monotonic time. */
static inline int64_t core_now(const struct core *core)
{
	return base_now(&core->base);
}

/* Returns this manager's estimate of the database's time: its last reading plus the monotonic time since; 0 before the
 * first reading. The estimate does not go back with the clock; it follows the clock again when that has caught up. */
int64_t core_database_us(const struct core *core);

/* Returns the actual time of the database's clock, from its last reading; it goes back with the clock. 0 before the
 * first reading. */
int64_t core_clock_us(const struct core *core);

/* Returns true if the database has answered this manager's heartbeats lately. */
bool core_database_fresh(const struct core *core);

/* Handles a notification (see notifications.h). */
void core_notified(struct core *core, const char *payload);

/* Call it each time the listen connection has been established: earlier notifications are lost, so this has all that
 * they may announce read again. */
void core_listening(struct core *core);

#endif
