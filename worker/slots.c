/*
 * A slot runs its batch without the lock: `next` is the index of the next attempt to start, `done` the number of ended
 * ones. Control, under the lock, may collect the ended ones. It may also take over those not started, by moving `next`
 * past the end in one atomic step: each index is either started by the slot or taken over, never both.
 *
 * Nothing starts without a lease. C functions, which only the watchdog can end, start only while the lease's count of
 * them is raised (lease.h).
 */
#include "worker/slots.h"

#include "common/clock.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

enum {
	LOG_FAILURES_MAX = 10, /* failed tasks that are logged per second */
	/* A slot that runs programs has an eventfd and its ends of four pipes; during a start also the program's ends. */
	SLOT_FDS = 9,
	OTHER_FDS = 40, /* what else the worker needs */
};

/* Fields without a remark belong to the slot's thread. */
struct slot {
	struct slots *slots;
	pthread_t thread;
	int index;
	bool ended; /* the thread has returned, or is about to; under the lock */
	struct handler_context context;

	/* Under the lock: only the slot changes the batch, … */
	struct attempt *batch[SLOT_BATCH_MAX];
	unsigned count;
	unsigned collected; /* … ended attempts that were collected so far */
	bool taken_over;    /* control has moved the attempts not started back to the ready list */
	bool functions;     /* the batch has no program; set before the lock is released, then the slot's */
	int64_t taken_ms;
	_Atomic unsigned next;
	_Atomic unsigned done;
};

void slots_init(struct slots *slots, struct shared *shared, struct in_flight *in_flight,
    const struct handler_set *handlers, const struct handler_context *context)
{
	slots->shared = shared;
	slots->in_flight = in_flight;
	slots->handlers = handlers;
	slots->context = *context;
	slots->requested = -1;
}

void slots_destroy(struct slots *slots)
{
	rests_clear(&slots->rests);
	free(slots->all);
}

int slots_busy(const struct slots *slots)
{
	int busy = 0;

	for (int i = 0; i < slots->all_count; i++)
		busy += slots->all[i] && slots->all[i]->count > 0;
	return busy;
}

/* Logs an attempt that did not complete, up to LOG_FAILURES_MAX per second. */
static void log_failure(struct slots *slots, const struct attempt *attempt)
{
	int64_t second = clock_monotonic_ms() / 1000;
	int64_t previous = atomic_load(&slots->log_second);
	char name[48];
	int count;

	if (second != previous && atomic_compare_exchange_strong(&slots->log_second, &previous, second)) {
		count = atomic_exchange(&slots->log_count, 0);
		if (count > LOG_FAILURES_MAX)
			log_info(slots->shared->object, "%d more tasks did not complete", count - LOG_FAILURES_MAX);
	}
	if (atomic_fetch_add(&slots->log_count, 1) < LOG_FAILURES_MAX)
		log_info(attempt_name(attempt, name), "%s%s: %.200s", attempt->public.type,
		    attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_FATAL ? " failed for good" : " did not complete",
		    attempt->result.error);
}

/* Updates the moving average of the handler's cost. */
static void learn_cost(struct handler *handler, int64_t took_us)
{
	int cost = atomic_load_explicit(&handler->cost_us, memory_order_relaxed);

	if (handler->processes)
		return;
	if (took_us > HANDLER_COST_FULL_US)
		took_us = HANDLER_COST_FULL_US;
	atomic_store_explicit(&handler->cost_us, (int)((7 * cost + took_us) / 8), memory_order_relaxed);
}

/* Runs one attempt to its end. */
static void run(struct slot *slot, struct attempt *attempt)
{
	int64_t start_us = clock_monotonic_us(), took_us = 0, limit;
	struct handler *handler = attempt->handler;
	enum stop_reason stop = atomic_load(&attempt->stop);

	if (stop != STOP_NONE) {
		attempt_end_stopped(attempt, stop);
	} else if (!lease_runs(attempt->lease, start_us / 1000)) {
		attempt_end_stopped(attempt, STOP_LEASE);
	} else if (!handler && atomic_load(&slot->slots->handlers->reload_requests)) {
		/* A reload removed its handler while the Fetch was in flight. */
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "no-handler",
		    "this worker has no handler for type %s any more", attempt->public.type);
	} else if (!handler) {
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "no-handler", "this worker has no handler for type %s",
		    attempt->public.type);
	} else if (start_us / 1000 >= attempt_stale_ms(attempt)) {
		attempt_end_stale(attempt);
	} else {
		attempt->started_ms = (start_us + 999) / 1000;
		limit = attempt->started_ms + (attempt->timeout_ms < INT64_MAX / 2 ? attempt->timeout_ms : INT64_MAX / 2);
		if (limit > attempt_last_moment(attempt))
			limit = attempt_last_moment(attempt);
		atomic_store(&attempt->timeout_at_ms, limit);
		attempt->result_store = slot->context.result_store;
		handler->run(handler, &slot->context, attempt);
		took_us = clock_monotonic_us() - start_us;
		learn_cost(handler, took_us);
	}
	attempt_seal(attempt, took_us / 1000);
	if (attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_FAILED ||
	    attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_FATAL)
		log_failure(slot->slots, attempt);
}

/* Reads no attempt before its index was taken from `next`: another slot may have run it, and it may be freed. */
static void run_batch(struct slot *slot)
{
	if (slot->functions)
		atomic_fetch_add(&slot->slots->shared->lease->functions, 1);
	for (;;) {
		unsigned i = atomic_fetch_add(&slot->next, 1);

		if (i >= slot->count)
			break;
		run(slot, slot->batch[i]);
		atomic_store(&slot->done, i + 1);
	}
	if (slot->functions)
		atomic_fetch_sub(&slot->slots->shared->lease->functions, 1);
}

/* Counts an attempt that a slot takes, or no longer has. Called with the lock. */
static void count_running(const struct attempt *attempt, int change)
{
	if (attempt->handler)
		attempt->handler->running += change;
}

/* Returns true if a ready attempt must not start now. Called with the lock. */
static bool is_blocked(struct slots *slots, const struct attempt *attempt, int64_t now_ms)
{
	const struct handler *handler = attempt->handler;
	int64_t resume_ms = handler ? atomic_load(&handler->resume_ms) : 0;

	if (slots->rests.count && rests_block(&slots->rests, slots->in_flight, attempt, slots->concurrency))
		return true;
	if (handler && handler->max_running && handler->running >= handler->max_running)
		return true;
	if (resume_ms <= now_ms)
		return false;
	if (!slots->resume_ms || resume_ms < slots->resume_ms) {
		slots->resume_ms = resume_ms;
		shared_wake(slots->shared); /* control wakes the slots then */
	}
	return true;
}

/* Begins the resting period that follows an attempt which has run. Called with the lock. */
static void rest_after(struct slots *slots, const struct attempt *attempt)
{
	int64_t ms = attempt->assignment->resting_ms;

	if (ms <= 0 || !attempt->started_ms)
		return;
	rests_begin(&slots->rests, attempt->public.queue,
	    clock_monotonic_ms() + (ms < DAYS_MS(LIMIT_PERIOD_DAYS) ? ms : DAYS_MS(LIMIT_PERIOD_DAYS)));
	shared_wake(slots->shared);
}

/* Collects the ended attempts of the batch: moves them to the unacknowledged results. Called with the lock. */
static void collect(struct slot *slot)
{
	struct slots *slots = slot->slots;
	struct in_flight *in_flight = slots->in_flight;
	unsigned done = atomic_load(&slot->done);
	bool stopped = false;

	if (slot->collected == done)
		return;
	for (; slot->collected < done; slot->collected++) {
		struct attempt *attempt = slot->batch[slot->collected];

		attempt->event_fd = -1;
		count_running(attempt, -1);
		in_flight->taken_count--;
		stopped = stopped || atomic_load(&attempt->stop) != STOP_NONE;
		rest_after(slots, attempt);
		in_flight_finish(in_flight, attempt);
	}
	/* Control waits for the end of what it has stopped. */
	if (unacked_report_due(&in_flight->unacked, (size_t)slots_capacity(slots)) || stopped ||
	    life_draining(in_flight->life))
		shared_wake(slots->shared);
}

/* Fills the batch from the ready list. False: nothing there may start now, or the lease is over. Called with the
 * lock. */
static bool take(struct slot *slot)
{
	struct slots *slots = slot->slots;
	struct in_flight *in_flight = slots->in_flight;
	struct attempt *attempt, *next;
	int64_t now_ms = clock_monotonic_ms();
	int cost = 0;

	slot->count = slot->collected = 0;
	/* Ready attempts wait for the renewal of the lease, which wakes the slots. */
	if (!lease_runs(slots->shared->lease, now_ms))
		return false;
	for (attempt = in_flight->ready; attempt && slot->count < SLOT_BATCH_MAX; attempt = next) {
		next = attempt->next;
		if (is_blocked(slots, attempt, now_ms))
			continue;
		cost += attempt_cost(attempt);
		if (slot->count && cost > HANDLER_COST_FULL_US)
			break;
		DL_DELETE(in_flight->ready, attempt);
		in_flight->ready_count--;
		in_flight->taken_count++;
		attempt->place = PLACE_TAKEN;
		count_running(attempt, 1);
		attempt->event_fd = slot->context.event_fd;
		slot->batch[slot->count++] = attempt;
	}
	if (!slot->count)
		return false;
	/* A program is always alone in its batch, and the supervisor kills it at the lease's end anyway. */
	slot->functions = !slot->batch[0]->handler || !slot->batch[0]->handler->processes;
	slot->taken_over = false;
	slot->taken_ms = now_ms;
	atomic_store(&slot->done, 0);
	atomic_store(&slot->next, 0);
	if (slot->count > 1) {
		slots->open_batches++;
		if (!slots->sweep_soon)
			shared_wake(slots->shared);
	}
	if (in_flight->ready && in_flight->idle_slots)
		pthread_cond_signal(&in_flight->work);
	return true;
}

/* Moves the attempts that a slot has not started back to the ready list. Called with the lock. */
static void take_over(struct slot *slot)
{
	struct in_flight *in_flight = slot->slots->in_flight;
	unsigned first = atomic_exchange(&slot->next, 2 * SLOT_BATCH_MAX);
	int64_t cost_us = 0;

	slot->taken_over = true;
	for (unsigned i = slot->count; i-- > first;) {
		struct attempt *attempt = slot->batch[i];

		attempt->event_fd = -1;
		count_running(attempt, -1);
		in_flight->taken_count--;
		in_flight_make_ready(in_flight, attempt, true);
		if (atomic_load(&attempt->stop) != STOP_NONE)
			in_flight_stop(in_flight, attempt, atomic_load(&attempt->stop));
		else
			cost_us += HANDLER_COST_FULL_US; /* the estimate of its cost was wrong */
	}
	in_flight_wake_slots(in_flight, cost_us);
}

void slots_sweep(struct slots *slots, int64_t now_ms)
{
	bool resume = slots->resume_ms && slots->resume_ms <= now_ms;

	if (resume)
		slots->resume_ms = 0;
	if ((slots->rests.count && rests_end(&slots->rests, now_ms)) || resume)
		in_flight_wake_slots(slots->in_flight, (int64_t)slots->in_flight->ready_count * HANDLER_COST_FULL_US);
	if (!slots->concurrency)
		in_flight_stop_ready(slots->in_flight, STOP_DRAIN);
	slots->sweep_soon = slots->open_batches > 0;
	for (int i = 0; i < slots->all_count && slots->open_batches; i++) {
		struct slot *slot = slots->all[i];

		if (!slot || slot->count < 2 || now_ms - slot->taken_ms < SLOT_SWEEP_MS)
			continue;
		collect(slot);
		if (!slot->taken_over)
			take_over(slot);
	}
}

int64_t slots_next_ms(const struct slots *slots, int64_t now_ms)
{
	int64_t rests_ms = rests_next_ms(&slots->rests);

	if (slots->sweep_soon)
		return now_ms + SLOT_SWEEP_MS;
	return slots->resume_ms && slots->resume_ms < rests_ms ? slots->resume_ms : rests_ms;
}

/* Returns true if the slot's thread must end. Called with the lock. */
static bool must_end(const struct slot *slot)
{
	return slot->slots->end || slot->index >= slot->slots->concurrency;
}

static void *slot_main(void *arg)
{
	struct slot *slot = arg;
	struct slots *slots = slot->slots;
	struct in_flight *in_flight = slots->in_flight;

	shared_lock(slots->shared);
	while (!must_end(slot)) {
		if (!take(slot)) {
			in_flight->idle_slots++;
			pthread_cond_wait(&in_flight->work, &slots->shared->lock);
			in_flight->idle_slots--;
			continue;
		}
		shared_unlock(slots->shared);
		run_batch(slot);
		shared_lock(slots->shared);
		if (slot->count > 1)
			slots->open_batches--;
		collect(slot);
		slot->count = 0;
	}
	slot->ended = true;
	if (in_flight->ready && in_flight->idle_slots)
		pthread_cond_signal(&in_flight->work); /* the signal may have been for attempts that are still ready */
	shared_wake(slots->shared);
	shared_unlock(slots->shared);
	return NULL;
}

/* Returns how many slots can run a program each, even if all start one at once. A slot without a free descriptor would
 * fail its task. */
static int startable_max(const struct slots *slots)
{
	struct rlimit limit;

	if (!handler_set_may_start_processes(slots->handlers) || getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur >= (rlim_t)SLOT_FDS * LIMIT_CONCURRENCY + OTHER_FDS)
		return LIMIT_CONCURRENCY;
	return limit.rlim_cur < SLOT_FDS + OTHER_FDS ? 1 : ((int)limit.rlim_cur - OTHER_FDS) / SLOT_FDS;
}

static void slot_free(struct slot *slot)
{
	if (slot->context.event_fd >= 0)
		close(slot->context.event_fd);
	free(slot);
}

/* Starts the thread of a slot that no other thread uses yet. */
static bool slot_start(struct slot *slot, struct reeve_error *error)
{
	struct slots *slots = slot->slots;
	sigset_t before;
	int problem;

	slot->context = slots->context;
	slot->context.event_fd = -1;
	if (handler_set_may_start_processes(slots->handlers)) {
		slot->context.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (slot->context.event_fd < 0)
			return error_set(
			    error, STATUS(RESOURCE_EXHAUSTED), "cannot open an eventfd for a slot: %s", strerror(errno));
	}
	pthread_sigmask(SIG_SETMASK, &slots->signals, &before);
	problem = pthread_create(&slot->thread, NULL, slot_main, slot);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (problem)
		return error_set(error, STATUS(RESOURCE_EXHAUSTED), "cannot start a thread for a slot: %s", strerror(problem));
	return true;
}

/* Grows the table to `count` slots. */
static void grow(struct slots *slots, int count)
{
	if (count <= slots->all_count)
		return;
	slots->all = mem_realloc(slots->all, (size_t)count * sizeof *slots->all);
	while (slots->all_count < count)
		slots->all[slots->all_count++] = NULL;
}

static bool resize(struct slots *slots, int wanted, struct reeve_error *error)
{
	int max = startable_max(slots);
	bool fits = wanted <= max, started = true;

	shared_lock(slots->shared);
	if (!fits) {
		error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "the limit of descriptors (ulimit -n) is enough for %d programs at once", max);
		slots->concurrency = wanted = max;
	}
	grow(slots, wanted);
	for (int i = 0; i < slots->all_count; i++) {
		struct slot *slot = slots->all[i];

		if (slot && slot->ended) {
			slots->all[i] = NULL;
			shared_unlock(slots->shared);
			pthread_join(slot->thread, NULL);
			slot_free(slot);
			shared_lock(slots->shared);
		}
		if (slots->all[i] || i >= wanted || !started)
			continue;
		slot = mem_calloc(1, sizeof *slot);
		slot->slots = slots;
		slot->index = i;
		if (slot_start(slot, error)) {
			slots->all[i] = slot;
		} else {
			slot_free(slot);
			started = false;
			slots->concurrency = i;
		}
	}
	pthread_cond_broadcast(&slots->in_flight->work);
	shared_unlock(slots->shared);
	return started && fits;
}

bool slots_start(struct slots *slots, struct reeve_error *error)
{
	pthread_sigmask(SIG_SETMASK, NULL, &slots->signals);
	slots->configured = slots->concurrency;
	return resize(slots, slots->concurrency, error);
}

void slots_set_concurrency(struct slots *slots, int concurrency)
{
	slots->concurrency = concurrency;
	slots->changed = true;
}

void slots_step(struct slots *slots)
{
	struct reeve_error error;
	bool changed;
	int wanted, have;

	shared_lock(slots->shared);
	wanted = slots->concurrency;
	changed = slots->changed;
	slots->changed = false; /* if another command arrives during this call, the next one applies it */
	shared_unlock(slots->shared);
	if (!changed || resize(slots, wanted, &error))
		return;
	shared_lock(slots->shared);
	have = slots->concurrency;
	shared_unlock(slots->shared);
	log_error(slots->shared->object, "%s; running %d at once instead of %d", error.message, have, wanted);
}

void slots_end(struct slots *slots)
{
	shared_lock(slots->shared);
	slots->end = true;
	pthread_cond_broadcast(&slots->in_flight->work);
	shared_unlock(slots->shared);
	for (int i = 0; i < slots->all_count; i++) {
		if (!slots->all[i])
			continue;
		pthread_join(slots->all[i]->thread, NULL);
		slot_free(slots->all[i]);
		slots->all[i] = NULL;
	}
}
