/*
 * The threads that run handlers, and their batches.
 *
 * A slot runs its batch without the lock: `next` is the index of the next attempt to start, `done` the number of ended
 * ones. Control, under the lock, may collect the ended ones. It may also take over those not started, by moving `next`
 * past the end in one atomic step: each index is either started by the slot or taken over, never both.
 *
 * Nothing starts without a lease. C functions, which only the watchdog can end, start only while the lease's count of
 * them is raised (lease.h).
 */
#include "worker/slots.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/fetch_report.h"
#include "worker/held.h"
#include "worker/state.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

static const int64_t REST_MAX_MS = INT64_C(365) * 24 * 3600 * 1000;

enum {
	LOG_FAILURES_MAX = 10, /* failed tasks that are logged per second */
	/* A slot that runs programs has an eventfd and its ends of four pipes; during a start also the program's ends. */
	SLOT_FDS = 9,
	OTHER_FDS = 40, /* what else the worker needs */
};

struct slot {
	struct reeve_worker *worker;
	pthread_t thread;
	int index;
	bool ended; /* the thread has returned, or is about to */
	struct handler_context context;

	struct attempt *batch[SLOT_BATCH_MAX]; /* only the slot changes it, under the lock */
	unsigned count;
	unsigned collected; /* ended attempts that were collected so far */
	bool taken_over;    /* control has moved the attempts not started back to the ready list */
	int64_t taken_ms;
	int64_t rest_ms; /* the resting period after this batch */
	_Atomic unsigned next;
	_Atomic unsigned done;
};

void slots_init(struct slots *slots)
{
	pthread_condattr_t attributes;

	pthread_cond_init(&slots->work, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&slots->rest, &attributes);
	pthread_condattr_destroy(&attributes);
}

void slots_destroy(struct slots *slots)
{
	pthread_cond_destroy(&slots->work);
	pthread_cond_destroy(&slots->rest);
	free(slots->all);
}

int slots_cost(const struct attempt *attempt)
{
	int cost = attempt->handler ? atomic_load_explicit(&attempt->handler->cost_us, memory_order_relaxed) : 0;

	if (attempt->assignment->resting_ms > 0) /* the slot rests after it */
		return HANDLER_COST_FULL_US;
	return cost > 0 ? cost : 1;
}

void slots_wake(struct reeve_worker *worker, int64_t cost_us)
{
	int64_t wanted = (cost_us + HANDLER_COST_FULL_US - 1) / HANDLER_COST_FULL_US;

	for (int i = 0; i < worker->slots.idle && i < wanted; i++)
		pthread_cond_signal(&worker->slots.work);
}

void slots_notify(struct attempt *attempt)
{
	int fd = attempt->slot->context.event_fd;
	uint64_t one = 1;

	if (fd >= 0 && write(fd, &one, sizeof one) < 0)
		assert(errno == EAGAIN);
}

int slots_busy(const struct reeve_worker *worker)
{
	int busy = 0;

	for (int i = 0; i < worker->slots.room; i++)
		busy += worker->slots.all[i] && worker->slots.all[i]->count > 0;
	return busy;
}

/* Logs an attempt that did not complete, up to LOG_FAILURES_MAX per second. */
static void log_failure(struct reeve_worker *worker, const struct attempt *attempt)
{
	int64_t second = clock_monotonic_ms() / 1000;
	int64_t was = atomic_load(&worker->log_second);
	char name[48];
	int count;

	if (second != was && atomic_compare_exchange_strong(&worker->log_second, &was, second)) {
		count = atomic_exchange(&worker->log_count, 0);
		if (count > LOG_FAILURES_MAX)
			log_info(worker->object, "%d more tasks did not complete", count - LOG_FAILURES_MAX);
	}
	if (atomic_fetch_add(&worker->log_count, 1) < LOG_FAILURES_MAX)
		log_info(attempt_name(attempt, name), "%s%s: %.200s", attempt->public.type,
		    attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_FATAL ? " failed for good"
		                                                                 : " did not complete",
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
	} else if (!handler && atomic_load(&slot->worker->reloads)) {
		/* A reload removed its handler while the Fetch was in flight. */
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "no-handler",
		    "this worker has no handler for type %s any more", attempt->public.type);
	} else if (!handler) {
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "no-handler",
		    "this worker has no handler for type %s", attempt->public.type);
	} else if (attempt_stale(attempt, start_us / 1000)) {
		attempt_end(attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "waited",
		    "waited too long at the worker to be started before it expires");
	} else {
		attempt->started_ms = (start_us + 999) / 1000;
		limit =
		    attempt->started_ms + (attempt->timeout_ms < INT64_MAX / 2 ? attempt->timeout_ms : INT64_MAX / 2);
		if (limit > attempt_last_moment(attempt))
			limit = attempt_last_moment(attempt);
		atomic_store(&attempt->timeout_at_ms, limit);
		slot->rest_ms = attempt->assignment->resting_ms;
		handler->run(handler, &slot->context, attempt);
		took_us = clock_monotonic_us() - start_us;
		learn_cost(handler, took_us);
	}
	attempt_seal(attempt, took_us / 1000);
	if (attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_FAILED ||
	    attempt->result.outcome == REEVE__V1__OUTCOME__OUTCOME_FATAL)
		log_failure(slot->worker, attempt);
}

static void run_batch(struct slot *slot)
{
	/* A program is always alone in its batch, and the supervisor kills it at the lease's end anyway. */
	bool functions = !slot->batch[0]->handler || !slot->batch[0]->handler->processes;

	if (functions)
		atomic_fetch_add(&slot->worker->lease->functions, 1);
	for (;;) {
		unsigned i = atomic_fetch_add(&slot->next, 1);

		if (i >= slot->count)
			break;
		run(slot, slot->batch[i]);
		atomic_store(&slot->done, i + 1);
	}
	if (functions)
		atomic_fetch_sub(&slot->worker->lease->functions, 1);
}

/* Collects the ended attempts of the batch: moves them to the unacknowledged results. Called with the lock. */
static void collect(struct slot *slot)
{
	struct reeve_worker *worker = slot->worker;
	unsigned done = atomic_load(&slot->done);

	if (slot->collected == done)
		return;
	for (; slot->collected < done; slot->collected++) {
		struct attempt *attempt = slot->batch[slot->collected];

		attempt->slot = NULL;
		worker->taken_count--;
		held_finish(worker, attempt);
	}
	if (fetch_report_has_report(worker) || worker->draining || worker->phase == PHASE_LOST)
		worker_wake(worker);
}

/* Fills the batch from the ready list. False: the list is empty, or the lease is over. Called with the lock. */
static bool take(struct slot *slot)
{
	struct reeve_worker *worker = slot->worker;
	struct attempt *attempt;
	int cost = 0;

	slot->count = slot->collected = 0;
	/* Ready attempts wait for the renewal of the lease, which wakes the slots. */
	if (!lease_runs(worker->lease, clock_monotonic_ms()))
		return false;
	while ((attempt = worker->ready) && slot->count < SLOT_BATCH_MAX) {
		cost += slots_cost(attempt);
		if (slot->count && cost > HANDLER_COST_FULL_US)
			break;
		DL_DELETE(worker->ready, attempt);
		worker->ready_count--;
		worker->taken_count++;
		attempt->place = PLACE_TAKEN;
		attempt->slot = slot;
		slot->batch[slot->count++] = attempt;
	}
	if (!slot->count)
		return false;
	slot->taken_over = false;
	slot->taken_ms = clock_monotonic_ms();
	atomic_store(&slot->done, 0);
	atomic_store(&slot->next, 0);
	if (slot->count > 1) {
		worker->slots.open_batches++;
		if (!worker->slots.swept_soon)
			worker_wake(worker);
	}
	if (worker->ready && worker->slots.idle)
		pthread_cond_signal(&worker->slots.work);
	return true;
}

/* Moves the attempts that a slot has not started back to the ready list. Called with the lock. */
static void take_over(struct slot *slot)
{
	struct reeve_worker *worker = slot->worker;
	unsigned first = atomic_exchange(&slot->next, 2 * SLOT_BATCH_MAX);
	int64_t cost_us = 0;

	slot->taken_over = true;
	for (unsigned i = slot->count; i-- > first;) {
		struct attempt *attempt = slot->batch[i];

		attempt->slot = NULL;
		attempt->place = PLACE_READY;
		worker->taken_count--;
		DL_PREPEND(worker->ready, attempt);
		worker->ready_count++;
		if (atomic_load(&attempt->stop) != STOP_NONE)
			held_stop(worker, attempt, atomic_load(&attempt->stop));
		else
			cost_us += HANDLER_COST_FULL_US; /* the estimate of its cost was wrong */
	}
	slots_wake(worker, cost_us);
}

void slots_sweep(struct reeve_worker *worker, int64_t now_ms)
{
	worker->slots.swept_soon = worker->slots.open_batches > 0;
	for (int i = 0; i < worker->slots.room && worker->slots.open_batches; i++) {
		struct slot *slot = worker->slots.all[i];

		if (!slot || slot->count < 2 || now_ms - slot->taken_ms < SLOT_SWEEP_MS)
			continue;
		collect(slot);
		if (!slot->taken_over)
			take_over(slot);
	}
}

/* Waits for the resting period, if the batch has set one. Called with the lock, which it releases while it waits. */
static void rest(struct slot *slot)
{
	struct reeve_worker *worker = slot->worker;
	struct slots *slots = &worker->slots;
	int64_t rest_ms = slot->rest_ms < REST_MAX_MS ? slot->rest_ms : REST_MAX_MS;
	int64_t until_ms = clock_monotonic_ms() + rest_ms;
	struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};

	slot->rest_ms = 0;
	if (rest_ms <= 0)
		return;
	slots->resting++;
	while (!slots->end && slot->index < slots->wanted && clock_monotonic_ms() < until_ms)
		pthread_cond_timedwait(&slots->rest, &worker->lock, &until);
	slots->resting--;
	worker_wake(worker);
}

static void *slot_main(void *arg)
{
	struct slot *slot = arg;
	struct reeve_worker *worker = slot->worker;
	struct slots *slots = &worker->slots;

	pthread_mutex_lock(&worker->lock);
	while (!slots->end && slot->index < slots->wanted) {
		if (!take(slot)) {
			slots->idle++;
			pthread_cond_wait(&slots->work, &worker->lock);
			slots->idle--;
			continue;
		}
		pthread_mutex_unlock(&worker->lock);
		run_batch(slot);
		pthread_mutex_lock(&worker->lock);
		if (slot->count > 1)
			slots->open_batches--;
		collect(slot);
		slot->count = 0;
		rest(slot);
	}
	slot->ended = true;
	if (worker->ready && slots->idle)
		pthread_cond_signal(&slots->work); /* the signal may have been for attempts that are still ready */
	worker_wake(worker);
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

/* Returns true if handlers must be notified through a descriptor. */
static bool needs_events(const struct reeve_worker *worker)
{
	const struct handler *handler;

	for (handler = worker->handlers; handler; handler = handler->hh.next)
		if (handler->processes)
			return true;
	return worker->files.count > 0; /* a reload may add one */
}

/* Returns how many slots can run a program each, even if all start one at once. A slot without a free descriptor would
 * fail its task. */
static int slots_max(const struct reeve_worker *worker)
{
	struct rlimit limit;

	if (!needs_events(worker) || getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur >= (rlim_t)SLOT_FDS * WORKER_CONCURRENCY_MAX + OTHER_FDS)
		return WORKER_CONCURRENCY_MAX;
	return limit.rlim_cur < SLOT_FDS + OTHER_FDS ? 1 : ((int)limit.rlim_cur - OTHER_FDS) / SLOT_FDS;
}

static void slot_free(struct slot *slot)
{
	if (slot->context.event_fd >= 0)
		close(slot->context.event_fd);
	free(slot);
}

/* Starts the thread of a slot that no other thread uses yet. */
static bool slot_start(struct slot *slot, const sigset_t *signals, struct reeve_error *error)
{
	struct reeve_worker *worker = slot->worker;
	sigset_t before;
	int problem;

	slot->context = (struct handler_context){.supervisor = worker->supervisor,
	    .event_fd = -1,
	    .kill_grace_ms = worker->kill_grace_ms,
	    .managers = worker->managers};
	if (needs_events(worker)) {
		slot->context.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (slot->context.event_fd < 0)
			return error_set(error, STATUS(RESOURCE_EXHAUSTED), "cannot open an eventfd for a slot: %s",
			    strerror(errno));
	}
	pthread_sigmask(SIG_SETMASK, signals, &before);
	problem = pthread_create(&slot->thread, NULL, slot_main, slot);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (problem)
		return error_set(
		    error, STATUS(RESOURCE_EXHAUSTED), "cannot start a thread for a slot: %s", strerror(problem));
	return true;
}

/* Grows the table to `room` slots. */
static void make_room(struct slots *slots, int room)
{
	if (room <= slots->room)
		return;
	slots->all = realloc(slots->all, (size_t)room * sizeof *slots->all);
	if (!slots->all)
		abort();
	while (slots->room < room)
		slots->all[slots->room++] = NULL;
}

bool slots_resize(struct reeve_worker *worker, int wanted, struct reeve_error *error)
{
	struct slots *slots = &worker->slots;
	int most = slots_max(worker);
	bool fits = wanted <= most, good = true;

	pthread_mutex_lock(&worker->lock);
	if (!fits) {
		error_set(error, STATUS(RESOURCE_EXHAUSTED),
		    "as many descriptors as this process may have (ulimit -n) are enough for %d programs at once", most);
		slots->wanted = wanted = most;
	}
	make_room(slots, wanted);
	for (int i = 0; i < slots->room; i++) {
		struct slot *slot = slots->all[i];

		if (slot && slot->ended) {
			slots->all[i] = NULL;
			pthread_mutex_unlock(&worker->lock);
			pthread_join(slot->thread, NULL);
			slot_free(slot);
			pthread_mutex_lock(&worker->lock);
		}
		if (slots->all[i] || i >= wanted || !good)
			continue;
		slot = calloc(1, sizeof *slot);
		if (!slot)
			abort();
		slot->worker = worker;
		slot->index = i;
		if (slot_start(slot, &slots->signals, error)) {
			slots->all[i] = slot;
		} else {
			slot_free(slot);
			good = false;
			slots->wanted = i;
		}
	}
	pthread_cond_broadcast(&slots->work);
	pthread_cond_broadcast(&slots->rest);
	pthread_mutex_unlock(&worker->lock);
	return good && fits;
}

void slots_end(struct reeve_worker *worker)
{
	struct slots *slots = &worker->slots;

	pthread_mutex_lock(&worker->lock);
	slots->end = true;
	pthread_cond_broadcast(&slots->work);
	pthread_cond_broadcast(&slots->rest);
	pthread_mutex_unlock(&worker->lock);
	for (int i = 0; i < slots->room; i++) {
		if (!slots->all[i])
			continue;
		pthread_join(slots->all[i]->thread, NULL);
		slot_free(slots->all[i]);
		slots->all[i] = NULL;
	}
}
