/*
 * Control sleeps on an eventfd until another thread wakes it or a deadline has passed, checks the entire state, and
 * starts what is due. A stop has these steps: drain (tasks not started are returned, running ones may finish), stop
 * all, report the remaining results, leave. Each step has a time limit, and each further signal ends a step early.
 */
#include "worker/control.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/fetch_report.h"
#include "worker/heartbeat.h"
#include "worker/held.h"
#include "worker/reload.h"
#include "worker/session.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include <utlist.h>

enum {
	STUCK_MS = 2000,        /* after the kill grace: how long a handler may take to end */
	REPORT_LAST_MS = 10000, /* how long to wait for managers at the end */
	WATCHDOG_LATE_MS = 2000,   /* after the lease's end: by then a working watchdog has killed every program */
	WATCHDOG_SEEN_MS = 300,    /* how long the worker must have seen programs run that the watchdog should have killed, */
	WATCHDOG_CHECK_MS = 100,    /* in checks at this interval */
};

void worker_wake(struct reeve_worker *worker)
{
	uint64_t one = 1;

	/* Write the eventfd only once for each time that control wakes up. */
	if (!atomic_exchange(&worker->kicked, true))
		while (write(worker->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
			;
}

/* Sleeps until worker_wake is called or `until_ms` has passed. */
static void wait_for_wake(struct reeve_worker *worker, int64_t until_ms)
{
	struct pollfd ready = {.fd = worker->wake_fd, .events = POLLIN};
	int64_t rest = until_ms == INT64_MAX ? -1 : until_ms - clock_monotonic_ms();
	uint64_t count;

	if (until_ms != INT64_MAX && rest < 0)
		rest = 0;
	if (poll(&ready, 1, rest > 3600 * 1000 ? 3600 * 1000 : (int)rest) <= 0)
		return;
	/* Reset before the state is checked: later changes wake control again. */
	if (read(worker->wake_fd, &count, sizeof count) == sizeof count)
		atomic_store(&worker->kicked, false);
}

/* Returns the tasks that have not started. */
static void return_ready(struct reeve_worker *worker)
{
	while (worker->ready)
		held_stop(worker, worker->ready, STOP_DRAIN);
}

/* When a watchdog that has not killed the programs is considered hung. */
static int64_t watchdog_limit(const struct reeve_worker *worker)
{
	return worker->lease_until_ms + WATCHDOG_LATE_MS;
}

static bool programs_run(const struct reeve_worker *worker)
{
	const struct attempt *attempt;

	for (attempt = worker->held; attempt; attempt = attempt->hh.next)
		if (attempt->place == PLACE_TAKEN && attempt->handler && attempt->handler->processes)
			return true;
	return false;
}

/* Kills the supervisor, and all programs with it, if programs still run after the lease's end that its watchdog should
 * have killed. A worker that was itself frozen until now does not know yet that they have ended, so it must have seen
 * them running for WATCHDOG_SEEN_MS. */
static void apply_watchdog(struct reeve_worker *worker, int64_t now_ms)
{
	int64_t from_ms = watchdog_limit(worker) - WATCHDOG_SEEN_MS;

	if (!worker->supervisor || worker->watchdog_killed || !worker->taken_count || now_ms < from_ms || !programs_run(worker)) {
		worker->watchdog_seen_ms = 0;
		return;
	}
	if (!worker->watchdog_seen_ms || now_ms - worker->watchdog_checked_ms > 4 * WATCHDOG_CHECK_MS)
		worker->watchdog_seen_ms = now_ms;
	worker->watchdog_checked_ms = now_ms;
	if (now_ms < watchdog_limit(worker) || now_ms - worker->watchdog_seen_ms < WATCHDOG_SEEN_MS)
		return;
	log_error(worker->object, "programs run beyond the lease, the watchdog does not kill them: killing it");
	worker->watchdog_killed = true;
	supervisor_client_kill(worker->supervisor);
}

/* Returns when apply_watchdog must check again. */
static int64_t watchdog_check(const struct reeve_worker *worker, int64_t now_ms)
{
	if (!worker->supervisor || worker->watchdog_killed || !worker->taken_count)
		return INT64_MAX;
	return worker->watchdog_seen_ms ? now_ms + WATCHDOG_CHECK_MS : watchdog_limit(worker) - WATCHDOG_SEEN_MS;
}

/* Starts a drain, or shortens a running one: handlers are stopped at `until_ms`. */
static void drain(struct reeve_worker *worker, int64_t until_ms)
{
	worker->draining = true;
	worker->drain_until_ms = until_ms;
}

/* Acts on calls of reeve_worker_stop, on the supervisor's death, and on a refusal by the manager. */
static void apply_stops(struct reeve_worker *worker, int64_t now_ms)
{
	int stops = atomic_load(&worker->stops);

	if (worker->supervisor_died && !worker->error.code) {
		error_set(
		    &worker->error, STATUS(INTERNAL), "the supervisor process has died, and every exec handler with it");
		worker->exit_code = EXIT_TASK_FAILED;
		log_error(worker->object, "%s; stopping", worker->error.message);
		drain(worker, now_ms);
	}
	if (worker->refused && !worker->draining)
		drain(worker, now_ms);
	if (stops && !worker->stopping) {
		worker->stopping = true;
		if (worker->taken_count)
			log_info(worker->object, "draining: %zu tasks may run for up to %lld ms more",
			    worker->taken_count, (long long)worker->drain_timeout_ms);
		else
			log_info(worker->object, "stopping");
		drain(worker, now_ms + worker->drain_timeout_ms < worker->drain_until_ms
		                  ? now_ms + worker->drain_timeout_ms
		                  : worker->drain_until_ms);
	}
	if (stops >= 2 && worker->drain_until_ms > now_ms)
		drain(worker, now_ms);
}

/* Continues a drain: returns what has not started, and stops all handlers when the drain timeout has passed. */
static void advance_drain(struct reeve_worker *worker, int64_t now_ms)
{
	if (!worker->draining)
		return;
	return_ready(worker);
	if (!worker->stopped_all && worker_unfinished(worker) && now_ms >= worker->drain_until_ms) {
		worker->stopped_all = true;
		worker->give_up_ms = now_ms + worker->kill_grace_ms + STUCK_MS;
		log_info(worker->object, "stopping the %zu tasks that still run", worker->taken_count);
		held_stop_all(worker, STOP_DRAIN);
	}
}

/* Returns true if everything is done, or the time limit for it has passed. */
static bool finished(struct reeve_worker *worker, int64_t now_ms)
{
	bool at_once = atomic_load(&worker->stops) >= 3;
	size_t unreported = worker->unacked.waiting_count + worker->unacked.reported_count;

	if (!worker->draining)
		return false;
	if (worker_unfinished(worker)) {
		if (!worker->stopped_all || now_ms < worker->give_up_ms)
			return false;
		worker->stuck = true;
		worker->exit_code = EXIT_TASK_FAILED;
		error_set(&worker->error, STATUS(INTERNAL), "%zu tasks do not end though they were told to",
		    worker_unfinished(worker));
		log_error(worker->object, "%s; giving up", worker->error.message);
		return true;
	}
	if (!unreported && !worker->fetches.waiting_count && !worker->registering)
		return true;
	if (!worker->reporting_last) {
		worker->reporting_last = true;
		worker->give_up_ms = now_ms + REPORT_LAST_MS;
	}
	if (now_ms < worker->give_up_ms && !at_once)
		return false;
	if (unreported) {
		log_error(worker->object, "%zu results could not be reported; their tasks will run again", unreported);
		if (!worker->exit_code)
			worker->exit_code = EXIT_UNREACHABLE;
		if (!worker->error.code)
			error_set(&worker->error, STATUS(UNAVAILABLE), "%zu results could not be reported", unreported);
	}
	return true;
}

/* Returns when control must check the state again without being woken. */
static int64_t next_poll(const struct reeve_worker *worker)
{
	int64_t now_ms = clock_monotonic_ms(), next_ms = fetch_report_next_ms(worker);

	if (worker->slots.swept_soon && now_ms + SLOT_SWEEP_MS < next_ms)
		next_ms = now_ms + SLOT_SWEEP_MS;
	if (worker->phase == PHASE_REGISTERING && worker->register_rest.until_ms > now_ms &&
	    worker->register_rest.until_ms < next_ms)
		next_ms = worker->register_rest.until_ms;
	if (worker->registering && worker->register_until_ms > now_ms && worker->register_until_ms < next_ms)
		next_ms = worker->register_until_ms;
	if (worker->phase == PHASE_SERVING && !worker->lease_stopped && atomic_load(&worker->lease->stop_ms) < next_ms)
		next_ms = atomic_load(&worker->lease->stop_ms);
	int64_t poll_ms = watchdog_check(worker, now_ms);
	if (poll_ms > now_ms && poll_ms < next_ms)
		next_ms = poll_ms;
	if (worker->draining && worker_unfinished(worker) && !worker->stopped_all && worker->drain_until_ms < next_ms)
		next_ms = worker->drain_until_ms;
	if ((worker->stopped_all || worker->reporting_last) && worker->give_up_ms < next_ms)
		next_ms = worker->give_up_ms;
	return next_ms;
}

/* Brings the number of slots to the requested concurrency. Called without the lock. */
static void resize(struct reeve_worker *worker)
{
	struct reeve_error error;
	bool changed;
	int wanted, have;

	pthread_mutex_lock(&worker->lock);
	wanted = worker->slots.wanted;
	changed = worker->slots.changed;
	worker->slots.changed = false; /* if another command arrives during this call, the next one applies it */
	pthread_mutex_unlock(&worker->lock);
	if (!changed || slots_resize(worker, wanted, &error))
		return;
	pthread_mutex_lock(&worker->lock);
	have = worker->slots.wanted;
	pthread_mutex_unlock(&worker->lock);
	log_error(worker->object, "%s; running %d at once instead of %d", error.message, have, wanted);
}

void control_run(struct reeve_worker *worker)
{
	bool over, leave;

	for (;;) {
		int64_t until_ms;

		pthread_mutex_lock(&worker->lock);
		apply_stops(worker, clock_monotonic_ms());
		session_apply_lease(worker, clock_monotonic_ms());
		apply_watchdog(worker, clock_monotonic_ms());
		slots_sweep(worker, clock_monotonic_ms());
		advance_drain(worker, clock_monotonic_ms());
		pthread_mutex_unlock(&worker->lock);
		resize(worker);
		reload_step(worker);
		session_step(worker);
		fetch_report_step(worker);
		pthread_mutex_lock(&worker->lock);
		over = finished(worker, clock_monotonic_ms());
		leave = worker->phase == PHASE_SERVING && !worker->stuck && atomic_load(&worker->stops) < 3;
		until_ms = next_poll(worker);
		pthread_mutex_unlock(&worker->lock);
		if (over)
			break;
		wait_for_wake(worker, until_ms);
	}
	heartbeat_stop(worker);
	if (leave && rpc_client_alive(worker->rpc, 0))
		session_leave(worker);
}
