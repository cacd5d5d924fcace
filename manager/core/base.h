/*
 * What every module of the core gets: the store, the job runner, options, counters and the host. A module also gets the
 * few dependencies that it needs; none knows all modules (core.h).
 */
#ifndef REEVE_MANAGER_CORE_BASE_H
#define REEVE_MANAGER_CORE_BASE_H

#include "manager/core/remarks.h"
#include "manager/core/span.h"
#include "manager/core/traffic.h"
#include "manager/jobs/jobs.h"
#include "manager/store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct core_options {
	int64_t lease_ms, heartbeat_ms;
	int64_t expiry_grace_ms; /* expiry grace: from an attempt's timeout to its expiry; longer than a lease */
	int64_t max_runtime_ms;  /* maximum runtime of an attempt, with all extensions */
	int64_t fetch_wait_ms;   /* maximum fetch wait */
	int64_t max_details_bytes, max_result_bytes, max_answer_bytes;
	int64_t max_sent_bytes; /* maximum details of an assigned task; tasks with longer ones wait. 0: no limit */
	int ready_limit;        /* maximum number of candidates in memory, over all streams */
	int priorities_limit;   /* how many priorities of a route the ready cache keeps; it may have twice as many */
	int streams_limit;      /* with more streams in all each route keeps fewer; there may be twice as many */
	int claim_limit;        /* maximum number of candidates in one claim */
	int64_t max_routes;     /* maximum number of routes; 0: no limit */
	bool log_tasks;         /* all queues count as verbose */
	int traffic_routes;     /* how many routes have numbers of their own */
};

/* Totals since the start. */
struct core_counters {
	int64_t submitted, duplicates, restarted, claims_tried, claims_won, completed, failed, ended, returned, expired,
	    late;
	int64_t lost, reclaimed, requeued, extended; /* workers; their attempts; requeued tasks; extended attempts */
	int64_t fetches, redelivered, pages, trailing_scans;
	int64_t firings; /* firings of schedules, skipped ones included */
	int64_t refused; /* calls that need too many new routes */
};

/* Kinds of remarks in the log. Remarks about the same thing are logged once (remarks.h). */
enum core_remark { REMARK_HEARTBEAT, REMARK_LATE_RESULT, REMARK_NAME_TAKEN, REMARK_RUN_WAITS, REMARK_TOO_LONG };

/* Functions that the core needs from its host. */
struct core_host {
	int64_t (*now_ms)(void);                          /* the monotonic clock */
	void (*dispatch)(void *arg);                      /* call core_dispatch, after sending the answers so far */
	void (*outdated)(void *arg, int schema);          /* stop: the database has this newer schema; or NULL */
	void (*span)(void *arg, const struct span *span); /* receives each span of a task; NULL: spans are not wanted */
	void *arg;
};

struct base {
	struct store *store;
	struct jobs *jobs;
	struct core_options options;
	struct core_counters counters;
	struct traffic traffic;
	struct core_host host;
	struct remarks remarks;
	bool dispatch_asked; /* core_dispatch has been requested and not yet called */
};

/* Returns the monotonic time. */
static inline int64_t base_now(const struct base *base)
{
	return base->host.now_ms();
}

/* Makes the host call core_dispatch soon, because tasks may be claimable. Requests until that call join it, so that all
 * those tasks are in one claim. */
static inline void base_dispatch(struct base *base)
{
	if (base->dispatch_asked)
		return;
	base->dispatch_asked = true;
	base->host.dispatch(base->host.arg);
}

#endif
