/* Collects notifications by stream and sends one NOTIFY at a time, with as many streams as fit. With too many streams
 * it sends "any stream" instead. */
#include "manager/core/notifier.h"

#include "common/hash.h"
#include "manager/core/db_clock.h"
#include "manager/core/dispatch.h"
#include "manager/core/ready.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GATHER_MS = 10,
	TAKE_MS = 50,       /* how long a claim of the task may take here before other managers are notified */
	NEAR_US = 1000000,  /* the estimate of the database's clock lags by less than this */
	STREAMS_MAX = 4096, /* waiting streams; with more, "any stream" is sent */
	STREAM_BYTES = 48,  /* the maximum length of one as text */
};

struct notice {
	struct {
		int32_t route, priority;
	} key;
	int64_t run_at_us, latest_us; /* the first and the last time of its tasks */
	bool certain;                 /* it is sent even if its tasks are claimed here */
	int64_t due_ms;               /* when it is sent */
	int64_t until_ms;             /* the latest time for that, while its tasks are about to be claimed here */
	UT_hash_handle hh;
};

struct notifier {
	struct base *base;
	const struct db_clock *clock;
	struct ready_cache *cache;
	struct dispatch *dispatch;
	bool others;
	struct notice *waiting; /* hash, by stream */
	int64_t any_us;         /* the earliest time of what is not in `waiting`; STORE_TIME_NEVER: everything is */
	int64_t send_ms;        /* not sent before this time */
	int64_t due_ms;         /* nor before the first of `waiting` is due: this time */
	struct store_notify op;
};

static void forget(struct notifier *w, struct notice *notice)
{
	HASH_DEL(w->waiting, notice);
	free(notice);
}

void notifier_destroy(struct notifier *w)
{
	struct notice *notice, *next;

	HASH_ITER (hh, w->waiting, notice, next)
		forget(w, notice);
	free(w);
}

static bool has_waiting(const struct notifier *w)
{
	return w->waiting || w->any_us != STORE_TIME_NEVER;
}

/* Returns when the next notification is sent, with all that waits by then. */
static int64_t send_at_ms(const struct notifier *w)
{
	return w->any_us == STORE_TIME_NEVER && w->due_ms > w->send_ms ? w->due_ms : w->send_ms;
}

static void send_later(struct notifier *w)
{
	if (has_waiting(w))
		jobs_at(w->base->jobs, JOB_NOTIFY, send_at_ms(w));
}

void notifier_others(struct notifier *w, bool others)
{
	if (others && !w->others) { /* they started before this manager saw them, and were not notified */
		w->any_us = STORE_TIME_BEGIN;
		send_later(w);
	}
	w->others = others;
}

/* Returns whether a task may be claimed now: not if it is due later, or at an unknown time. */
static bool due_now(const struct notifier *w, int64_t run_at_us)
{
	return run_at_us != STORE_TIME_BEGIN && run_at_us <= db_clock_shown_us(w->clock) + NEAR_US;
}

static void wake_add(struct notifier *w, int route, int32_t priority, int64_t run_at_us)
{
	struct notice *notice = mem_calloc(1, sizeof *notice);
	notice->key.route = route;
	notice->key.priority = priority;
	notice->run_at_us = notice->latest_us = run_at_us;
	notice->certain = !due_now(w, run_at_us);
	notice->due_ms = base_now(w->base) + GATHER_MS;
	notice->until_ms = base_now(w->base) + TAKE_MS;
	if (!w->waiting || notice->due_ms < w->due_ms)
		w->due_ms = notice->due_ms;
	HASH_ADD(hh, w->waiting, key, sizeof notice->key, notice);
}

/* Adds a task to the notification about its stream. */
static void notice_extend(const struct notifier *w, struct notice *notice, int64_t run_at_us)
{
	notice->run_at_us = run_at_us < notice->run_at_us ? run_at_us : notice->run_at_us;
	notice->latest_us = run_at_us > notice->latest_us ? run_at_us : notice->latest_us;
	notice->certain |= !due_now(w, run_at_us);
}

void notifier_send(struct notifier *w, int route, int32_t priority, int64_t run_at_us)
{
	struct notice *notice, wanted = {.key = {route, priority}};
	if (!w->others || !route)
		return;
	HASH_FIND(hh, w->waiting, &wanted.key, sizeof wanted.key, notice);
	if (notice)
		notice_extend(w, notice, run_at_us);
	else if (HASH_COUNT(w->waiting) == STREAMS_MAX)
		w->any_us = run_at_us < w->any_us ? run_at_us : w->any_us;
	else
		wake_add(w, route, priority, run_at_us);
	send_later(w);
}

/* --- sending ----------------------------------------------------------------------------------------------------- */

static void on_sent(struct store_op *op, const struct reeve_error *error)
{
	struct notifier *w = (struct notifier *)((char *)op - offsetof(struct notifier, op));
	if (error) /* it is not known any more which streams it named */
		w->any_us = STORE_TIME_BEGIN;
	w->send_ms = base_now(w->base) + GATHER_MS;
	jobs_done(w->base->jobs, JOB_NOTIFY, error, false);
	send_later(w);
}

/* Whether to notify the other managers. They would try in vain for tasks that have been claimed here, or are about to
 * be, and delay their own claims. */
enum decision { NOTIFY, WAIT, DROP };

static enum decision decide(const struct notifier *w, const struct notice *notice, int64_t now_ms)
{
	enum ready_has has;
	if (notice->certain)
		return NOTIFY;
	has = ready_has(w->cache, notice->key.route, notice->key.priority, notice->latest_us);
	if (has == READY_NOTHING)
		return DROP;
	if (now_ms >= notice->until_ms || has == READY_OTHERS)
		return NOTIFY;
	return has == READY_CLAIMING || dispatch_takes(w->dispatch, notice->key.route, 1, ready_size(w->cache)) ? WAIT
	                                                                                                        : NOTIFY;
}

/* Adds what is due and fits to the payload. Returns the payload's length. */
static int add_waiting(struct notifier *w, int length, char before)
{
	char *payload = w->op.payload;
	struct notice *notice, *next;
	int64_t now_ms = base_now(w->base);
	w->due_ms = INT64_MAX;
	HASH_ITER (hh, w->waiting, notice, next) {
		bool fits = length + STREAM_BYTES < (int)sizeof w->op.payload;
		enum decision decision = WAIT;
		if (fits && notice->due_ms <= now_ms) {
			decision = decide(w, notice, now_ms);
			notice->due_ms = now_ms + GATHER_MS; /* the next check, if it waits */
		}
		if (decision == WAIT) {
			w->due_ms = notice->due_ms < w->due_ms ? notice->due_ms : w->due_ms;
			continue;
		}
		if (decision == NOTIFY) {
			length +=
			    snprintf(payload + length, sizeof w->op.payload - (size_t)length, "%c%" PRId32 " %" PRId32 " %" PRId64,
			        before, notice->key.route, notice->key.priority, notice->run_at_us);
			before = ';';
		}
		forget(w, notice);
	}
	return length;
}

static bool send_next(void *arg)
{
	struct notifier *w = arg;
	if (!has_waiting(w) || base_now(w->base) < send_at_ms(w)) {
		send_later(w); /* the tasks may have been claimed here */
		return false;
	}
	char *payload = w->op.payload;
	w->op = (struct store_notify){.op.done = on_sent, .op.deadline_ms = base_now(w->base) + 5000};
	int head = snprintf(payload, sizeof w->op.payload, "%" PRId64, store_manager_id(w->base->store)), length = head;
	if (w->any_us != STORE_TIME_NEVER)
		length += snprintf(payload + length, sizeof w->op.payload - (size_t)length, " 0 0 %" PRId64, w->any_us);
	w->any_us = STORE_TIME_NEVER;
	if (add_waiting(w, length, length == head ? ' ' : ';') == head) { /* no notification is left */
		send_later(w);
		return false;
	}
	store_notify(w->base->store, &w->op);
	return true;
}

struct notifier *notifier_create(
    struct base *base, const struct db_clock *clock, struct ready_cache *cache, struct dispatch *dispatch)
{
	struct notifier *w = mem_calloc(1, sizeof *w);
	w->base = base;
	w->clock = clock;
	w->cache = cache;
	w->dispatch = dispatch;
	w->any_us = STORE_TIME_NEVER;
	jobs_bind(base->jobs, JOB_NOTIFY, send_next, w);
	return w;
}
