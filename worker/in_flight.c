#include "worker/in_flight.h"

#include "worker/handler.h"

#include <assert.h>
#include <string.h>
#include <utlist.h>

/* uthash frees its table with the last attempt. A larger first table saves most expansions of the next one. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS 1024U
#define HASH_INITIAL_NUM_BUCKETS_LOG2 10U

void in_flight_init(struct in_flight *in_flight, struct shared *shared, struct life *life,
    struct heartbeat_timer *timer, struct extensions *extensions, struct progress *progress)
{
	*in_flight = (struct in_flight){.shared = shared,
	    .life = life,
	    .timer = timer,
	    .extensions = extensions,
	    .progress = progress,
	    .stale_ms = INT64_MAX};
	pthread_cond_init(&in_flight->work, NULL);
}

void in_flight_destroy(struct in_flight *in_flight)
{
	struct attempt *attempt, *next;

	HASH_ITER (hh, in_flight->all, attempt, next) {
		HASH_DEL(in_flight->all, attempt);
		attempt_free(attempt);
	}
	counts_clear(&in_flight->counts);
	pthread_cond_destroy(&in_flight->work);
}

/* Attempts of consecutive tasks, the usual ones, get neighbouring buckets: few cache misses, and no chains. Nobody
 * chooses ids, so no random key is needed; the higher bits are for tasks of which a worker gets each 2^n-th. */
static unsigned hash_of(const struct attempt_key *key)
{
	uint64_t id = (uint64_t)key->task_id;

	return (unsigned)(id ^ id >> 10 ^ id >> 20);
}

static struct attempt *find(const struct in_flight *in_flight, const struct attempt_key *key)
{
	struct attempt *attempt;

	HASH_FIND_BYHASHVALUE(hh, in_flight->all, key, sizeof *key, hash_of(key), attempt);
	return attempt;
}

struct attempt *in_flight_find(const struct in_flight *in_flight, int64_t task_id, int64_t token)
{
	return find(in_flight, &(struct attempt_key){task_id, token});
}

/* Ends an attempt that no slot has. */
static void end_unstarted(struct in_flight *in_flight, struct attempt *attempt, enum stop_reason reason)
{
	attempt_stop(attempt, reason);
	attempt_end_stopped(attempt, reason);
	attempt_seal(attempt, 0);
	in_flight_finish(in_flight, attempt);
}

static void decline(struct declined *declined, int64_t task)
{
	declined->ids[declined->total++ % LIMIT_EXCLUDED] = task;
}

static bool is_declined(const struct declined *declined, int64_t task)
{
	for (size_t i = 0; i < declined_count(declined); i++)
		if (declined->ids[i] == task)
			return true;
	return false;
}

/* Returns an attempt of a task that a handler has declined: the Fetch that brought it had been sent before that. */
static void return_declined(struct in_flight *in_flight, struct attempt *attempt)
{
	reeve_outcome_skip(&attempt->outcome, "a handler of this worker has declined it");
	attempt_seal(attempt, 0);
	unacked_add(&in_flight->unacked, attempt);
}

void in_flight_make_ready(struct in_flight *in_flight, struct attempt *attempt, bool first)
{
	int64_t stale_ms = attempt_stale_ms(attempt);

	attempt->place = PLACE_READY;
	if (first)
		DL_PREPEND(in_flight->ready, attempt);
	else
		DL_APPEND(in_flight->ready, attempt);
	in_flight->ready_count++;
	if (stale_ms < in_flight->stale_ms)
		in_flight->stale_ms = stale_ms;
}

static void leave_ready(struct in_flight *in_flight, struct attempt *attempt)
{
	DL_DELETE(in_flight->ready, attempt);
	in_flight->ready_count--;
}

void in_flight_return_stale(struct in_flight *in_flight, int64_t now_ms)
{
	struct attempt *attempt, *next;

	if (now_ms < in_flight->stale_ms)
		return;
	in_flight->stale_ms = INT64_MAX;
	DL_FOREACH_SAFE (in_flight->ready, attempt, next) {
		int64_t stale_ms = attempt_stale_ms(attempt);

		if (stale_ms <= now_ms) {
			leave_ready(in_flight, attempt);
			attempt_end_stale(attempt);
			attempt_seal(attempt, 0);
			in_flight_finish(in_flight, attempt);
		} else if (stale_ms < in_flight->stale_ms) {
			in_flight->stale_ms = stale_ms;
		}
	}
}

void in_flight_receive(struct in_flight *in_flight, struct attempt **attempts, size_t count)
{
	bool draining = life_draining(in_flight->life);
	int64_t cost_us = 0;

	for (size_t i = 0; i < count; i++) {
		struct attempt *attempt = attempts[i];

		if (find(in_flight, &attempt->key)) {
			attempt_free(attempt);
			continue;
		}
		attempt->lock = &in_flight->shared->lock;
		attempt->extensions = in_flight->extensions;
		attempt->progress = in_flight->progress;
		in_flight->any_received |= !draining;
		HASH_ADD_BYHASHVALUE(hh, in_flight->all, key, sizeof attempt->key, hash_of(&attempt->key), attempt);
		if (draining) {
			end_unstarted(in_flight, attempt, STOP_DRAIN);
			continue;
		}
		if (is_declined(&in_flight->declined, attempt->key.task_id)) {
			return_declined(in_flight, attempt);
			continue;
		}
		in_flight_make_ready(in_flight, attempt, false);
		cost_us += attempt_cost(attempt);
	}
	in_flight_wake_slots(in_flight, cost_us);
}

void in_flight_forget(struct in_flight *in_flight, struct attempt *attempt)
{
	HASH_DEL(in_flight->all, attempt);
	attempt_free(attempt);
	/* Once no attempt is left, the managers' tables must show the counts soon, not only after the next regular
	 * heartbeat. */
	if (!in_flight->all && !life_draining(in_flight->life))
		heartbeat_timer_soon(in_flight->timer, false);
}

/* Counts an attempt by its outcome. A returned attempt does not count. */
static void count_end(struct in_flight *in_flight, const struct attempt *attempt)
{
	const Reeve__V1__Assignment *assignment = attempt->assignment;

	switch (attempt->result.outcome) {
	case REEVE__V1__OUTCOME__OUTCOME_COMPLETED:
		in_flight->completed++;
		counts_add(&in_flight->counts, assignment->queue, assignment->batch_id, true);
		break;
	case REEVE__V1__OUTCOME__OUTCOME_FAILED:
	case REEVE__V1__OUTCOME__OUTCOME_FATAL:
		in_flight->failed++;
		counts_add(&in_flight->counts, assignment->queue, assignment->batch_id, false);
		break;
	case REEVE__V1__OUTCOME__OUTCOME_CANCELLED: in_flight->cancelled++; break;
	default: return;
	}
	if (in_flight->life->once)
		life_drain(in_flight->life, INT64_MAX);
}

void in_flight_finish(struct in_flight *in_flight, struct attempt *attempt)
{
	if (atomic_load(&attempt->stop) == STOP_ABANDON) {
		in_flight_forget(in_flight, attempt);
		return;
	}
	count_end(in_flight, attempt);
	if (attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_RETURNED &&
	    !strcmp(attempt->result.error_code, ATTEMPT_SKIPPED))
		decline(&in_flight->declined, attempt->key.task_id);
	unacked_add(&in_flight->unacked, attempt);
}

bool in_flight_stop(struct in_flight *in_flight, struct attempt *attempt, enum stop_reason reason)
{
	switch (attempt->place) {
	case PLACE_READY:
		leave_ready(in_flight, attempt);
		end_unstarted(in_flight, attempt, reason);
		return true;
	case PLACE_TAKEN:
		if (!attempt_stop(attempt, reason))
			return false;
		attempt_notify(attempt);
		return true;
	case PLACE_UNACKED:
		if (reason != STOP_ABANDON)
			return false;
		unacked_remove(&in_flight->unacked, attempt);
		in_flight_forget(in_flight, attempt);
		return true;
	case PLACE_REPORTED: return false;
	}
	assert(!"an attempt in no place");
	return false;
}

void in_flight_stop_all(struct in_flight *in_flight, enum stop_reason reason)
{
	in_flight_stop_ready(in_flight, reason);
	in_flight_stop_taken(in_flight, reason);
}

void in_flight_stop_ready(struct in_flight *in_flight, enum stop_reason reason)
{
	while (in_flight->ready)
		in_flight_stop(in_flight, in_flight->ready, reason);
}

void in_flight_stop_taken(struct in_flight *in_flight, enum stop_reason reason)
{
	struct attempt *attempt;

	for (attempt = in_flight->all; attempt; attempt = attempt->hh.next)
		if (attempt->place == PLACE_TAKEN)
			in_flight_stop(in_flight, attempt, reason);
}

void in_flight_wake_slots(struct in_flight *in_flight, int64_t cost_us)
{
	int64_t wanted = (cost_us + HANDLER_COST_FULL_US - 1) / HANDLER_COST_FULL_US;

	for (int i = 0; i < in_flight->idle_slots && i < wanted; i++)
		pthread_cond_signal(&in_flight->work);
}
