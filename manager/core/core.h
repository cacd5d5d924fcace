/*
 * The core: what tasks, workers and fetches may do, without a word of nng, libpq or HTTP. Services call it, it calls the
 * store, and answers come back by callbacks. One thread owns all of it.
 *
 * It knows the time from its host and runs its periodic work as jobs (manager/jobs), so that tests can drive it with a clock of
 * their own.
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
struct window;
struct late;
struct dispatch;
struct wakes;
struct waits;
struct task_events;
struct reports;
struct edits;
struct submits;
struct control;
struct leases;
struct cluster;
struct batches;
struct arrivals;
struct schedules;
struct queue_stops;
struct notifications;
struct upkeep;

/* The parts, in the order in which each is given those before it. Services call them; they do not know this struct. */
struct core {
	struct base base;
	struct db_clock *clock;
	struct routes *routes;
	struct queues *queues;
	struct sessions *sessions;
	struct verbose *verbose;
	struct window *window;
	struct late *late;
	struct dispatch *dispatch;
	struct wakes *wakes;
	struct waits *waits;
	struct task_events *events;
	struct reports *reports;
	struct edits *edits;
	struct submits *submits;
	struct control *control;
	struct leases *leases;
	struct cluster *cluster;
	struct batches *batches;
	struct arrivals *arrivals;
	struct schedules *schedules;
	struct queue_stops *queue_stops;
	struct notifications *notifications;
	struct upkeep *upkeep;
};

/* Creates the core on an open store. Its jobs are bound. The store and the runner of the jobs must outlive it. */
struct core *core_create(struct store *store, struct jobs *jobs, const struct core_options *options, const struct core_host *host);

/* Frees it. The store must be closed before, so that no operation is under way. */
void core_destroy(struct core *core);

/* Runs the jobs that are due: call it when their alarm goes off. */
void core_turn(struct core *core);

/* Claims what can be claimed: call it when the host has been asked to. */
void core_dispatch(struct core *core);

/* Now, on the monotonic clock. */
static inline int64_t core_now(const struct core *core)
{
	return base_now(&core->base);
}

/* This manager's estimate of the database's time: its last reading plus the monotonic time since; 0 before the first reading.
 * It does not follow a clock that is set back; it returns to the clock when that shows as late a time as it ever has. */
int64_t core_database_us(const struct core *core);

/* The database's clock as it is, by its last reading: it goes back when that does. 0 before the first. */
int64_t core_clock_us(const struct core *core);

/* What the database's clock showed when it was last set back, as this or another manager saw it; 0: never. */
int64_t core_set_back_us(const struct core *core);

/* Whether the database answers this manager: it has lately. */
bool core_database_fresh(const struct core *core);

/* Another manager has said something (see notifications.h). */
void core_notified(struct core *core, const char *payload);

/* The listen connection is up (again): what was said meanwhile was missed. */
void core_listening(struct core *core);

#endif
