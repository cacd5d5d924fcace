/* Attempts move: received → ready → taken (slots.c) → unacknowledged (unacked.c) → forgotten. */
#include "worker/held.h"

#include "worker/heartbeat.h"
#include "worker/slots.h"

#include <assert.h>
#include <utlist.h>

struct attempt *held_find(const struct reeve_worker *worker, int64_t task_id, int64_t token)
{
	struct attempt_key key = {task_id, token};
	struct attempt *attempt;

	HASH_FIND(hh, worker->held, &key, sizeof key, attempt);
	return attempt;
}

void held_receive(struct reeve_worker *worker, struct attempt **attempts, size_t count)
{
	int64_t cost_us = 0;

	for (size_t i = 0; i < count; i++) {
		struct attempt *attempt = attempts[i];

		if (held_find(worker, attempt->key.task_id, attempt->key.token)) {
			attempt_free(attempt);
			continue;
		}
		attempt->worker = worker;
		worker->begun |= !worker->draining;
		HASH_ADD(hh, worker->held, key, sizeof attempt->key, attempt);
		if (worker->draining) {
			attempt_stop(attempt, STOP_DRAIN);
			attempt_end_stopped(attempt, STOP_DRAIN);
			attempt_seal(attempt, 0);
			held_finish(worker, attempt);
			continue;
		}
		attempt->place = PLACE_READY;
		DL_APPEND(worker->ready, attempt);
		worker->ready_count++;
		cost_us += slots_cost(attempt);
	}
	slots_wake(worker, cost_us);
}

void held_forget(struct reeve_worker *worker, struct attempt *attempt)
{
	HASH_DEL(worker->held, attempt);
	attempt_free(attempt);
	/* Once no attempt is left, the managers' tables must show the counts soon, not only after the next regular
	 * heartbeat. */
	if (!worker->held && !worker->draining)
		heartbeat_soon(worker, false);
}

/* Counts an attempt by its outcome. A returned attempt does not count. */
static void count_end(struct reeve_worker *worker, const struct attempt *attempt)
{
	switch (attempt->result.outcome) {
	case REEVE__V1__OUTCOME__OUTCOME_COMPLETED:
		worker->succeeded++;
		break;
	case REEVE__V1__OUTCOME__OUTCOME_FAILED:
	case REEVE__V1__OUTCOME__OUTCOME_FATAL:
		worker->failed++;
		break;
	case REEVE__V1__OUTCOME__OUTCOME_CANCELLED:
		worker->cancelled++;
		break;
	default:
		return;
	}
	if (worker->once)
		worker->draining = true;
}

void held_finish(struct reeve_worker *worker, struct attempt *attempt)
{
	if (atomic_load(&attempt->stop) == STOP_ABANDON) {
		held_forget(worker, attempt);
		return;
	}
	count_end(worker, attempt);
	unacked_add(&worker->unacked, attempt);
}

static void leave_ready(struct reeve_worker *worker, struct attempt *attempt)
{
	DL_DELETE(worker->ready, attempt);
	worker->ready_count--;
}

bool held_stop(struct reeve_worker *worker, struct attempt *attempt, enum stop_reason reason)
{
	switch (attempt->place) {
	case PLACE_READY:
		attempt_stop(attempt, reason);
		leave_ready(worker, attempt);
		attempt_end_stopped(attempt, reason);
		attempt_seal(attempt, 0);
		held_finish(worker, attempt);
		return true;
	case PLACE_TAKEN:
		if (!attempt_stop(attempt, reason))
			return false;
		slots_notify(attempt);
		return true;
	case PLACE_UNACKED:
		if (reason != STOP_ABANDON)
			return false;
		unacked_remove(&worker->unacked, attempt);
		held_forget(worker, attempt);
		return true;
	case PLACE_REPORTED:
		return false;
	}
	assert(!"an attempt in no place");
	return false;
}

void held_stop_all(struct reeve_worker *worker, enum stop_reason reason)
{
	struct attempt *attempt, *next;

	HASH_ITER(hh, worker->held, attempt, next)
	{
		if (attempt->place == PLACE_READY || attempt->place == PLACE_TAKEN)
			held_stop(worker, attempt, reason);
	}
}

void held_stop_taken(struct reeve_worker *worker, enum stop_reason reason)
{
	struct attempt *attempt;

	for (attempt = worker->held; attempt; attempt = attempt->hh.next)
		if (attempt->place == PLACE_TAKEN)
			held_stop(worker, attempt, reason);
}
