/*
 * The core: what tasks, workers and fetches may do, without a word of nng, libpq or HTTP. Services call it, it calls the
 * store, and answers come back by callbacks. One thread owns all of it.
 *
 * Time is told to it (core_clock), and it tells when it wants to be called again (alarm), so that tests can drive it with
 * a clock of their own.
 */
#ifndef REEVE_MANAGER_CORE_CORE_H
#define REEVE_MANAGER_CORE_CORE_H

#include "manager/core/remarks.h"
#include "manager/store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct routes;
struct queues;
struct queue_stops;
struct window;
struct dispatch;
struct waits;
struct sessions;
struct wakes;
struct leases;
struct cluster;
struct batches;
struct schedules;
struct arrivals;
struct late;

struct core_options {
	int64_t lease_ms, heartbeat_ms;
	int64_t buffer_ms;          /* an attempt's expiry beyond its time-out; longer than a lease */
	int64_t max_run_ms;         /* how long an attempt may run at most, however often it is extended */
	int64_t park_limit_ms;      /* the longest a Fetch is parked */
	int64_t max_details_bytes, max_result_bytes, max_answer_bytes;
	int64_t max_sent_bytes;     /* details of a task that is given out; longer ones wait. 0: any length */
	int window_limit;           /* candidates kept in memory, over all streams */
	int claim_limit;            /* candidates tried by one claim */
	int64_t max_routes;         /* so many pairs of queue and type there may be; 0: any number */
	bool log_tasks;             /* all queues count as verbose */
};

/* Totals since the start. */
struct core_counters {
	int64_t submitted, duplicates, restarted, claims_tried, claims_won, completed, failed, ended, returned, expired, late;
	int64_t lost, reclaimed, taken_back, extended; /* workers lost; attempts of those; never arrived; let run longer */
	int64_t fetches, redelivered, pages, looks;
	int64_t ticks;                                /* of schedules: made, or passed over */
	int64_t refused;                              /* calls that want too many new routes */
};

/* What is remarked in the log, once each. */
enum core_remark { REMARK_HEARTBEAT, REMARK_LATE_RESULT, REMARK_NAME_TAKEN, REMARK_TICK_WAITS, REMARK_TOO_LONG };

/* What the core asks of whoever runs it. */
struct core_host {
	int64_t (*now_ms)(void);                         /* the monotonic clock */
	void (*alarm)(void *arg, int64_t at_ms);         /* call core_turn at this time or earlier */
	void (*dispatch)(void *arg);                     /* call core_dispatch, once what has been answered so far is sent */
	void (*callbacks)(void *arg);                    /* some may be due: deliver them; NULL: nobody does */
	void (*outdated)(void *arg, int schema);         /* the database's schema is this, newer than the program's: stop; or NULL */
	void *arg;
};

struct core {
	struct store *store;
	struct core_options options;
	struct core_host host;
	struct core_counters counters;
	struct remarks remarks;
	struct routes *routes;
	struct queues *queues;
	struct queue_stops *queue_stops;
	struct window *window;
	struct dispatch *dispatch;
	struct waits *waits;
	struct sessions *sessions;
	struct wakes *wakes;
	struct leases *leases;
	struct cluster *cluster;
	struct upkeep *upkeep;
	struct batches *batches;
	struct schedules *schedules;
	struct arrivals *arrivals;
	struct late *late;
};

/* Creates the core on an open store (which must outlive it). */
struct core *core_create(struct store *store, const struct core_options *options, const struct core_host *host);

/* Frees it. The store must be closed before, so that no operation is under way. */
void core_destroy(struct core *core);

/* Does what is due: call it when the alarm goes off. */
void core_turn(struct core *core);

/* Claims what can be claimed: call it when the host has been asked to. */
void core_dispatch(struct core *core);

/* Now, on the monotonic clock. */
static inline int64_t core_now(const struct core *core)
{
	return core->host.now_ms();
}

static inline void core_alarm(struct core *core, int64_t at_ms)
{
	core->host.alarm(core->host.arg, at_ms);
}

/* Callbacks have been made, or wait: they are looked for at once. */
static inline void core_callbacks(struct core *core)
{
	if (core->host.callbacks)
		core->host.callbacks(core->host.arg);
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

/* Another manager has said something (see wakes.h). */
void core_notified(struct core *core, const char *payload);

/* A part of the history is archived, and may be dropped. */
void core_history_archived(struct core *core);

/* The listen connection is up (again): what was said meanwhile was missed. */
void core_listening(struct core *core);

#endif
