/*
 * The worker: all that its threads share, and who may touch it.
 *
 *   control    reeve_worker_run's own thread: decides everything, starts most calls   control.c, courier.c
 *   slots      `concurrency` threads that run handlers                                slots.c
 *   heartbeat  one thread that renews the lease                                       heartbeat.c
 *   launcher   one thread that hears which processes have ended                       launcher.c
 *   rpc        the client's threads, on which answers arrive                          courier.c
 *
 * One lock guards the state; it is held for moments, never over a call or a handler. What a heartbeat says is one
 * snapshot under it: an attempt is in `held` from the very moment its Fetch is no longer waited for. Whoever changes
 * something that control must act upon kicks it.
 */
#ifndef REEVE_WORKER_STATE_H
#define REEVE_WORKER_STATE_H

#include "common/rpc/client.h"
#include "worker/accepts.h"
#include "worker/attempt.h"
#include "worker/backoff.h"
#include "worker/fetches.h"
#include "worker/handler.h"
#include "worker/launcher.h"
#include "worker/outbox.h"
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
	/* Set before the threads start, then only read. */
	char *managers;
	char *name;
	char object[280]; /* "worker NAME": whom log lines are about */
	char host[256];
	struct names queues;
	struct names asked; /* the types of the options; none: all that have a handler */
	struct names files; /* the handlers files */
	int prefetch;
	int64_t drain_timeout_ms;
	int64_t kill_grace_ms;
	bool once;          /* it ends after one task */
	bool until_empty;   /* … when no task waits any more */
	int64_t created_ms; /* on the monotonic clock */
	struct launcher *launcher; /* NULL: none */
	struct lease *lease;       /* changed under the lock, read without (lease.h) */
	struct lease own_lease;    /* … which it is where there is no launcher */
	struct rpc_client *rpc;

	/* For all threads, without the lock. */
	int wake_fd;                /* eventfd that control waits on */
	_Atomic bool kicked;        /* it has been written */
	_Atomic int stops;          /* calls of reeve_worker_stop */
	_Atomic int reloads;        /* and of reeve_worker_reload */
	int reloaded;               /* how many of these have been carried out; control's */
	_Atomic int64_t log_second; /* failures are logged at most so often (slots.c) */
	_Atomic int log_count;

	/* Extensions (extend.c). */
	pthread_mutex_t extend_lock; /* held while a call is started; taken before the lock, if both are */
	bool extend_ended;           /* guarded by it */

	pthread_mutex_t lock; /* guards all that follows */

	/* What is wrong, and the exit code that goes with it. */
	struct reeve_error error;
	int exit_code;

	/* The session (session.c). */
	enum phase phase;
	int64_t incarnation; /* the current or last one; 0 before the first */
	int64_t lease_ms;
	int64_t heartbeat_ms;
	int64_t lease_until_ms; /* on the monotonic clock, counted from before the acknowledged call was sent */
	bool lease_stopped;     /* it is about to end, or over: what ran has been told to end */
	size_t max_result_bytes;
	bool registering; /* a Register is under way */
	rpc_call_id register_call;
	bool register_given_up;
	int64_t register_until_ms; /* the worker stops: the Register under way is given up then; 0: it does not */
	int register_failures; /* in a row */
	bool name_taken;       /* another worker has our name, as has been logged */
	struct backoff register_rest;
	bool refused; /* no further try */

	/* Handlers (reload.c): changed by control alone. */
	struct handler *handlers;
	struct accepts *accepts; /* the types it runs by now; NULL before it runs */
	bool accepts_told;       /* the manager's table has these; until then heartbeats say them */

	/* Attempts (held.c). */
	struct attempt *held;  /* uthash, by key: all there are */
	struct attempt *ready; /* utlist, to be started in this order */
	size_t ready_count;
	size_t taken_count; /* with slots */
	bool begun;         /* it has been given a task at least once */
	int64_t succeeded;  /* attempts that completed since it began, */
	int64_t failed;     /* failed, for good or not, */
	int64_t cancelled;  /* were cancelled, */
	int64_t late;       /* and completed, but the manager did not take the result */
	struct slots slots;
	struct outbox outbox;

	/* Calls (courier.c). */
	struct fetches fetches;
	struct backoff fetch_rest;
	struct backoff report_rest;
	int reports;                /* under way */
	struct attempt *later;      /* utlist: reported ones that the manager could not judge yet */
	rpc_call_id stale_calls[8]; /* Fetch calls of a lost incarnation, to be cancelled */
	int stale_count;

	/* Heartbeats (heartbeat.c). */
	pthread_t heartbeat_thread;
	pthread_cond_t heartbeat_cond; /* the phase has changed, an answer has come, or the end is near; monotonic */
	int64_t heartbeat_seq;
	int heartbeat_failures; /* in a row */
	int64_t heartbeat_sent_ms; /* the last one, on the monotonic clock */
	int64_t heartbeat_by_ms;   /* there is news: the next goes out by then; INT64_MAX: when it is due */
	bool heartbeat_end;

	/* Orders and stopping (orders.c, control.c). */
	bool paused;
	bool draining;
	bool stopping;          /* … because reeve_worker_stop was called */
	bool stopped_all;       /* … and the handlers have been told to end */
	int64_t drain_until_ms; /* when they will be; INT64_MAX: never */
	bool reporting_last;    /* nothing runs any more */
	int64_t give_up_ms;     /* when to stop waiting for handlers, then for managers */
	bool guard_killed;      /* the spawner, since it stood still */
	int64_t guard_seen_ms;  /* since when it has been seen not to kill what runs beyond the lease; 0: it has not */
	int64_t guard_looked_ms;/* when that was last looked at */
	bool spawner_died;
	bool stuck; /* a handler does not end: its thread and all it may touch are left alone */
};

/* Wakes control. Callable with and without the lock. */
void worker_kick(struct reeve_worker *worker);

/* Whether it takes tasks at all now. */
static inline bool worker_takes(const struct reeve_worker *worker)
{
	return worker->phase == PHASE_SERVING && !worker->draining && !worker->paused;
}

/* Attempts not yet in the outbox: those that the worker's capacity is for. */
static inline size_t worker_unfinished(const struct reeve_worker *worker)
{
	return worker->ready_count + worker->taken_count;
}

#endif
