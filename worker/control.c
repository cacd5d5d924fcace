/* Control sleeps until another thread wakes it or a deadline has passed, checks the entire state, and starts what is
 * due. */
#include "worker/control.h"

#include "common/clock.h"
#include "common/rpc/client.h"
#include "worker/state.h"

/* Does what is due now, and needs no call. Called with the lock. */
static void apply(struct reeve_worker *worker)
{
	int64_t now_ms = clock_monotonic_ms();

	session_check_lease(&worker->session, now_ms);
	session_check_manager(&worker->session, now_ms);
	watchdog_check_step(&worker->watchdog_check, now_ms);
	slots_sweep(&worker->slots, now_ms);
	in_flight_return_stale(&worker->in_flight, now_ms);
	drain_step(&worker->drain, now_ms);
}

/* Returns when control must check the state again without being woken. Called with the lock. */
static int64_t next_ms(const struct reeve_worker *worker)
{
	int64_t now_ms = clock_monotonic_ms(), next_ms = INT64_MAX;
	const int64_t times_ms[] = {
	    session_next_ms(&worker->session),
	    reporter_next_ms(&worker->reporter),
	    fetcher_next_ms(&worker->fetcher),
	    slots_next_ms(&worker->slots, now_ms),
	    worker->in_flight.stale_ms,
	    watchdog_check_next_ms(&worker->watchdog_check, now_ms),
	    drain_next_ms(&worker->drain),
	    progress_next_ms(&worker->progress),
	};

	for (size_t i = 0; i < sizeof times_ms / sizeof *times_ms; i++)
		if (times_ms[i] < next_ms)
			next_ms = times_ms[i];
	return next_ms;
}

void control_run(struct reeve_worker *worker)
{
	struct shared *shared = &worker->shared;
	bool finished, leaves;
	int64_t until_ms;

	for (;;) {
		shared_lock(shared);
		apply(worker);
		shared_unlock(shared);
		slots_step(&worker->slots);
		handler_set_step(&worker->handlers);
		session_step(&worker->session);
		reporter_step(&worker->reporter);
		fetcher_step(&worker->fetcher);
		progress_step(&worker->progress);
		shared_lock(shared);
		finished = drain_finished(&worker->drain, clock_monotonic_ms());
		leaves = drain_leaves(&worker->drain);
		until_ms = next_ms(worker);
		shared_unlock(shared);
		if (finished)
			break;
		shared_wait(shared, until_ms);
	}
	heartbeats_stop(&worker->heartbeats);
	if (leaves && rpc_client_alive(shared->rpc, 0))
		session_leave(&worker->session);
}
