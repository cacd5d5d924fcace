/*
 * The worker: the state that its threads share, and which thread may use it.
 *
 *   control    reeve_worker_run's own thread: decides everything, starts most calls   control.c, fetch_report.c
 *   slots      `concurrency` threads that run handlers                                slots.c
 *   heartbeat  one thread that renews the lease                                       heartbeat.c
 *   supervisor one thread that reads which processes have ended              supervisor_client.c
 *   rpc        the client's threads, on which answers arrive                          fetch_report.c
 *
 * One lock guards the state; it is held briefly, never during a call or a handler. A heartbeat is one snapshot under
 * the lock: an attempt is in `held` from the moment at which its Fetch is no longer open. A thread that changes
 * something that control must act on wakes control.
 */
#ifndef REEVE_WORKER_STATE_H
#define REEVE_WORKER_STATE_H

#include "common/rpc/client.h"
#include "worker/accepts.h"
#include "worker/attempt.h"
#include "worker/backoff.h"
#include "worker/fetches.h"
#include "worker/handler.h"
#include "worker/supervisor_client.h"
#include "worker/unacked.h"
#include "worker/slots.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	WORKER_CONCURRENCY_MAX = 10000,
	WORKER_PREFETCH_MAX = 20000,
};

enum phase {
	PHASE_REGISTERING, /* no incarnation yet, or the old one is over and nothing runs any more */
	PHASE_SERVING,     /* has an incarnation */
	PHASE_LOST,        /* the incarnation is over; handlers are being stopped */
};

struct reeve_worker {
	/* Set before the threads start, read-only afterwards. */
	char *managers;
	char *name;
	char object[280]; /* "worker NAME": the object of log lines */
	char host[256];
	struct names queues;
	struct names asked; /* the types of the options; empty: all that have a handler */
	struct names files; /* the handlers files */
	int prefetch;
	int64_t drain_timeout_ms;
	int64_t kill_grace_ms;
	bool once;          /* stop after one task */
	bool until_empty;   /* … or when no task waits any more */
	int64_t created_ms; /* on the monotonic clock */
	struct supervisor_client *supervisor; /* NULL: none */
	struct lease *lease;       /* changed under the lock, read without (lease.h) */
	struct lease own_lease;    /* used as the lease without a supervisor */
	struct rpc_client *rpc;

	/* For all threads, without the lock. */
	int wake_fd;                /* eventfd that control waits on */
	_Atomic bool kicked;        /* it has been written */
	_Atomic int stops;          /* calls of reeve_worker_stop */
	_Atomic int reloads;        /* … and of reeve_worker_reload */
	int reloaded;               /* … how many of these are done; only control uses it */
	_Atomic int64_t log_second; /* limits the logging of failures (slots.c) */
	_Atomic int log_count;

	/* Extensions (extend.c). */
	pthread_mutex_t extend_lock; /* held while a call is started; taken before `lock` if both are */
	bool extend_ended;           /* guarded by extend_lock */

	pthread_mutex_t lock; /* guards all fields below */

	/* The error and its exit code. */
	struct reeve_error error;
	int exit_code;

	/* The session (session.c). */
	enum phase phase;
	int64_t incarnation; /* the current or last one; 0 before the first */
	int64_t lease_ms;
	int64_t heartbeat_ms;
	int64_t lease_until_ms; /* on the monotonic clock, counted from before the acknowledged call was sent */
	bool lease_stopped;     /* the lease is about to end, or over: running handlers were stopped */
	size_t max_result_bytes;
	bool registering; /* a Register is in flight */
	rpc_call_id register_call;
	bool register_given_up;
	int64_t register_until_ms; /* when a stopping worker gives up the Register in flight; 0: not stopping */
	int register_failures; /* in a row */
	bool name_taken;       /* another worker has our name; logged */
	struct backoff register_rest;
	bool refused; /* do not register again */

	/* Handlers (reload.c). Only control changes them. */
	struct handler *handlers;
	struct accepts *accepts; /* the types that it runs now; NULL before it runs */
	bool accepts_sent;       /* the managers know these types; until then heartbeats carry them */

	/* Attempts (held.c). */
	struct attempt *held;  /* uthash, by key: all attempts */
	struct attempt *ready; /* utlist, in the order in which they start */
	size_t ready_count;
	size_t taken_count; /* number of attempts with slots */
	bool begun;         /* the worker has got a task at least once */
	int64_t succeeded;  /* number of attempts that completed since it started, */
	int64_t failed;     /* … that failed, fatally or not, */
	int64_t cancelled;  /* … that were cancelled, */
	int64_t late;       /* … and that completed, but no manager accepted the result */
	struct slots slots;
	struct unacked unacked;

	/* Calls (fetch_report.c). */
	struct fetches fetches;
	struct backoff fetch_rest;
	struct backoff report_rest;
	int reports;                /* in flight */
	struct attempt *later;      /* utlist: reported results with the ack LATER */
	rpc_call_id stale_calls[8]; /* Fetch calls of a lost incarnation, to be cancelled */
	int stale_count;

	/* Heartbeats (heartbeat.c). */
	pthread_t heartbeat_thread;
	pthread_cond_t heartbeat_cond; /* the phase has changed, an answer has come, or the worker ends; monotonic */
	int64_t heartbeat_seq;
	int heartbeat_failures; /* in a row */
	int64_t heartbeat_sent_ms; /* the last one, on the monotonic clock */
	int64_t heartbeat_by_ms;   /* news must be sent by then; INT64_MAX: no news */
	bool heartbeat_end;

	/* Worker commands and stopping (commands.c, control.c). */
	bool paused;
	bool draining;
	bool stopping;          /* … because reeve_worker_stop was called */
	bool stopped_all;       /* … and all handlers were stopped */
	int64_t drain_until_ms; /* when they are; INT64_MAX: never */
	bool reporting_last;    /* nothing runs; the last results are being reported */
	int64_t give_up_ms;     /* when to stop waiting for handlers, then for managers */
	bool watchdog_killed;      /* the supervisor was killed because it hung */
	int64_t watchdog_seen_ms;  /* since when programs run that it should have killed; 0: none do */
	int64_t watchdog_checked_ms;/* when this was last checked */
	bool supervisor_died;
	bool stuck; /* a handler does not end: its thread and all that it may use stay */
};

/* Wakes control. May be called with or without the lock. */
void worker_wake(struct reeve_worker *worker);

/* Returns true if the worker takes new tasks. */
static inline bool worker_takes(const struct reeve_worker *worker)
{
	return worker->phase == PHASE_SERVING && !worker->draining && !worker->paused;
}

/* Returns the number of attempts without a result: those that use the worker's capacity. */
static inline size_t worker_unfinished(const struct reeve_worker *worker)
{
	return worker->ready_count + worker->taken_count;
}

#endif
