/*
 * What every module of the core is given: the store, the runner of its jobs, options, counters, and its host. Beside this a module is
 * given the few neighbours it needs; none knows the whole (core.h).
 */
#ifndef REEVE_MANAGER_CORE_BASE_H
#define REEVE_MANAGER_CORE_BASE_H

#include "manager/core/remarks.h"
#include "manager/jobs/jobs.h"
#include "manager/store/store.h"

#include <stdbool.h>
#include <stdint.h>

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
	void (*dispatch)(void *arg);                     /* call core_dispatch, once what has been answered so far is sent */
	void (*outdated)(void *arg, int schema);         /* the database's schema is this, newer than the program's: stop; or NULL */
	void *arg;
};

struct base {
	struct store *store;
	struct jobs *jobs;
	struct core_options options;
	struct core_counters counters;
	struct core_host host;
	struct remarks remarks;
	bool dispatch_asked; /* core_dispatch is to come */
};

/* Now, on the monotonic clock. */
static inline int64_t base_now(const struct base *base)
{
	return base->host.now_ms();
}

/* Something may be claimed now: has the host call core_dispatch soon. What is said of several tasks before that makes up one
 * claim. */
static inline void base_dispatch(struct base *base)
{
	if (base->dispatch_asked)
		return;
	base->dispatch_asked = true;
	base->host.dispatch(base->host.arg);
}

#endif
