#include "worker/drain.h"

#include "common/log.h"

enum {
	STUCK_MS = 2000,        /* after the kill grace: how long a handler may take to end */
	REPORT_LAST_MS = 10000, /* how long to wait for managers at the end */
};

/* Acts on calls of reeve_worker_stop: the first starts the drain, the second stops running tasks at once. */
static void apply_stops(struct drain *drain, int64_t now_ms)
{
	int stops = atomic_load(&drain->life->stop_requests);

	if (stops && !drain->stops_applied) {
		if (drain->in_flight->taken_count)
			log_info(drain->shared->object, "draining: %zu tasks may run for up to %lld ms more",
			    drain->in_flight->taken_count, (long long)drain->drain_timeout_ms);
		else
			log_info(drain->shared->object, "stopping");
		life_drain(drain->life, now_ms + drain->drain_timeout_ms);
	}
	if (stops >= 2 && drain->stops_applied < 2)
		life_drain(drain->life, now_ms);
	drain->stops_applied = stops;
}

void drain_step(struct drain *drain, int64_t now_ms)
{
	struct life *life = drain->life;

	apply_stops(drain, now_ms);
	if (!life_draining(life))
		return;
	in_flight_stop_ready(drain->in_flight, STOP_DRAIN);
	if (life->phase == LIFE_DRAINING && in_flight_unfinished(drain->in_flight) && now_ms >= life->stop_at_ms) {
		life->phase = LIFE_STOPPING;
		drain->give_up_ms = now_ms + drain->kill_grace_ms + STUCK_MS;
		log_info(drain->shared->object, "stopping the %zu tasks that still run", drain->in_flight->taken_count);
		in_flight_stop_all(drain->in_flight, STOP_DRAIN);
	}
}

/* Ends a worker with handlers that do not end in time. */
static void give_up(struct drain *drain)
{
	struct life *life = drain->life;

	life->phase = LIFE_STUCK;
	life->exit_code = EXIT_TASK_FAILED;
	error_set(&life->error, STATUS(INTERNAL), "%zu tasks do not end although they were asked to",
	    in_flight_unfinished(drain->in_flight));
	log_error(drain->shared->object, "%s; giving up", life->error.message);
}

/* Ends the worker. */
static void end(struct drain *drain, size_t unreported)
{
	struct life *life = drain->life;

	life->phase = LIFE_ENDED;
	if (!unreported)
		return;
	log_error(drain->shared->object, "%zu results could not be reported; their tasks will run again", unreported);
	if (!life->exit_code)
		life->exit_code = EXIT_UNREACHABLE;
	if (!life->error.code)
		error_set(&life->error, STATUS(UNAVAILABLE), "%zu results could not be reported", unreported);
}

bool drain_finished(struct drain *drain, int64_t now_ms)
{
	const struct unacked *unacked = &drain->in_flight->unacked;
	size_t unreported = unacked->waiting_count + unacked->reported_count;
	bool open = unreported || drain->fetches->waiting_count || drain->session->phase == SESSION_REGISTERING;
	struct life *life = drain->life;

	if (!life_draining(life))
		return false;
	if (in_flight_unfinished(drain->in_flight)) {
		if (life->phase < LIFE_STOPPING || now_ms < drain->give_up_ms)
			return false;
		give_up(drain);
		return true;
	}
	if (open && life->phase < LIFE_REPORTING) {
		life->phase = LIFE_REPORTING;
		drain->give_up_ms = now_ms + REPORT_LAST_MS;
	}
	if (open && now_ms < drain->give_up_ms && atomic_load(&life->stop_requests) < 3)
		return false;
	end(drain, unreported);
	return true;
}

bool drain_leaves(const struct drain *drain)
{
	return drain->session->phase == SESSION_SERVING && drain->life->phase != LIFE_STUCK &&
	    atomic_load(&drain->life->stop_requests) < 3;
}

int64_t drain_next_ms(const struct drain *drain)
{
	switch (drain->life->phase) {
	case LIFE_DRAINING: return in_flight_unfinished(drain->in_flight) ? drain->life->stop_at_ms : INT64_MAX;
	case LIFE_STOPPING:
	case LIFE_REPORTING: return drain->give_up_ms;
	default: return INT64_MAX;
	}
}
