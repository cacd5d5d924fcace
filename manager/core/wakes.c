/* Gathers wakes by stream and sends one NOTIFY at a time, with as many streams as it holds; too many become "any". */
#include "manager/core/wakes.h"

#include "common/hash.h"
#include "manager/core/arrivals.h"
#include "manager/core/control.h"
#include "manager/core/dispatch.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"
#include "manager/core/schedules.h"
#include "manager/core/window.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of the year 9999. */
#define LATEST_US INT64_C(253402300799000000)

enum {
	GATHER_MS = 10,
	TAKE_MS = 50,         /* so long a task that is about to be claimed here may take before others are told of it */
	NEAR_US = 1000000,    /* our reckoning of the database's clock is behind it by less */
	FAILED_REST_MS = 500, /* after a notification that could not be sent */
	STREAMS_MOST = 4096, /* gathered; beyond that, any */
	STREAM_BYTES = 48,   /* as text, at most */
	HEARD_MS = 50,       /* a kind of notification makes this manager read so often at most */
};

struct wake {
	struct {
		int32_t route, priority;
	} key;
	int64_t run_at_us, latest_us; /* of what it is about */
	bool certain;     /* it is sent whether or not its tasks are claimed here */
	int64_t due_ms;   /* it is sent then, */
	int64_t until_ms; /* … or, while what it is about is about to be claimed here, later, but not after this */
	UT_hash_handle hh;
};

static void heard_queues(struct core *core)
{
	queues_reload(core->queues);
}

static void heard_schedules(struct core *core)
{
	schedules_look(core->schedules);
}

static void heard_arrivals(struct core *core)
{
	arrivals_kick(core->arrivals);
}

/* Notifications that are one word. */
static const struct word {
	const char *payload;
	void (*act)(struct core *core);
} words[] = {{"queues", heard_queues}, {"schedules", heard_schedules}, {"arrivals", heard_arrivals}};

enum { WORDS = sizeof words / sizeof *words };

struct wakes {
	struct core *core;
	bool others, sending;
	struct wake *waiting; /* hash, by stream */
	int64_t any_us;       /* STORE_TIME_NEVER: all that gathered is in `waiting`; else the earliest time of what is not */
	int64_t send_ms;      /* not before then, */
	int64_t due_ms;       /* and not before the first of `waiting` is due */
	struct store_wake op;
	struct {
		bool wanted;
		int64_t next_ms;
	} heard[WORDS];
};

struct wakes *wakes_create(struct core *core)
{
	struct wakes *w = mem_calloc(1, sizeof *w);
	w->core = core;
	w->any_us = STORE_TIME_NEVER;
	return w;
}

static void forget(struct wakes *w, struct wake *wake)
{
	HASH_DEL(w->waiting, wake);
	free(wake);
}

void wakes_destroy(struct wakes *w)
{
	while (w->waiting)
		forget(w, w->waiting);
	free(w);
}

static bool gathered(const struct wakes *w)
{
	return w->waiting || w->any_us != STORE_TIME_NEVER;
}

/* When the next notification is sent, with what has gathered. */
static int64_t send_at_ms(const struct wakes *w)
{
	return w->any_us == STORE_TIME_NEVER && w->due_ms > w->send_ms ? w->due_ms : w->send_ms;
}

static void alarm_send(struct wakes *w)
{
	if (gathered(w) && !w->sending)
		core_alarm(w->core, send_at_ms(w));
}

void wakes_others(struct wakes *w, bool others)
{
	if (others && !w->others) { /* they began before they were seen here, and were not notified */
		w->any_us = STORE_TIME_BEGIN;
		alarm_send(w);
	}
	w->others = others;
}

/* A task that is due later, or at a time that is not known, is not claimed now. */
static bool due_now(const struct wakes *w, int64_t run_at_us)
{
	return run_at_us != STORE_TIME_BEGIN && run_at_us <= core_clock_us(w->core) + NEAR_US;
}

static void wake_add(struct wakes *w, int route, int32_t priority, int64_t run_at_us)
{
	struct wake *wake = mem_calloc(1, sizeof *wake);
	wake->key.route = route;
	wake->key.priority = priority;
	wake->run_at_us = wake->latest_us = run_at_us;
	wake->certain = !due_now(w, run_at_us);
	wake->due_ms = core_now(w->core) + GATHER_MS;
	wake->until_ms = core_now(w->core) + TAKE_MS;
	if (!w->waiting || wake->due_ms < w->due_ms)
		w->due_ms = wake->due_ms;
	HASH_ADD(hh, w->waiting, key, sizeof wake->key, wake);
}

/* One more task of a stream that others are to be told of. */
static void wake_extend(const struct wakes *w, struct wake *wake, int64_t run_at_us)
{
	wake->run_at_us = run_at_us < wake->run_at_us ? run_at_us : wake->run_at_us;
	wake->latest_us = run_at_us > wake->latest_us ? run_at_us : wake->latest_us;
	wake->certain |= !due_now(w, run_at_us);
}

void wakes_tell(struct wakes *w, int route, int32_t priority, int64_t run_at_us)
{
	struct wake *wake, look = {.key = {route, priority}};
	if (!w->others || !route)
		return;
	HASH_FIND(hh, w->waiting, &look.key, sizeof look.key, wake);
	if (wake)
		wake_extend(w, wake, run_at_us);
	else if (HASH_COUNT(w->waiting) == STREAMS_MOST)
		w->any_us = run_at_us < w->any_us ? run_at_us : w->any_us;
	else
		wake_add(w, route, priority, run_at_us);
	alarm_send(w);
}

/* --- sending ----------------------------------------------------------------------------------------------------- */

static void on_sent(struct store_op *op, const struct reeve_error *error)
{
	struct wakes *w = (struct wakes *)((char *)op - offsetof(struct wakes, op));
	w->sending = false;
	if (error) /* which streams it named is not known any more */
		w->any_us = STORE_TIME_BEGIN;
	w->send_ms = core_now(w->core) + (error ? FAILED_REST_MS : GATHER_MS);
	alarm_send(w);
}

/* Whether others are to be told: they would try in vain for what has been claimed here, or is about to be, and keep their claims
 * busy. */
enum verdict { TELL, WAIT, DROP };

static enum verdict judge(const struct wakes *w, const struct wake *wake, int64_t now_ms)
{
	enum window_has has;
	if (wake->certain)
		return TELL;
	has = window_has(w->core->window, wake->key.route, wake->key.priority, wake->latest_us);
	if (has == WINDOW_NOTHING)
		return DROP;
	if (now_ms >= wake->until_ms || has == WINDOW_OTHERS)
		return TELL;
	return has == WINDOW_CLAIMING || dispatch_takes(w->core->dispatch, wake->key.route) ? WAIT : TELL;
}

/* Adds to the payload what is due and fits. Returns the payload's length. */
static int add_waiting(struct wakes *w, int length, char before)
{
	char *payload = w->op.payload;
	struct wake *wake, *next;
	int64_t now_ms = core_now(w->core);
	w->due_ms = INT64_MAX;
	HASH_ITER (hh, w->waiting, wake, next) {
		bool fits = length + STREAM_BYTES < (int)sizeof w->op.payload;
		enum verdict verdict = WAIT;
		if (fits && wake->due_ms <= now_ms) {
			verdict = judge(w, wake, now_ms);
			wake->due_ms = now_ms + GATHER_MS; /* of one that waits */
		}
		if (verdict == WAIT) {
			w->due_ms = wake->due_ms < w->due_ms ? wake->due_ms : w->due_ms;
			continue;
		}
		if (verdict == TELL) {
			length += snprintf(payload + length, sizeof w->op.payload - (size_t)length, "%c%" PRId32 " %" PRId32 " %" PRId64,
			    before, wake->key.route, wake->key.priority, wake->run_at_us);
			before = ';';
		}
		forget(w, wake);
	}
	return length;
}

static void send_next(struct wakes *w)
{
	char *payload = w->op.payload;
	w->op = (struct store_wake){.op.done = on_sent, .op.deadline_ms = core_now(w->core) + 5000};
	int head = snprintf(payload, sizeof w->op.payload, "%" PRId64, store_manager_id(w->core->store)), length = head;
	if (w->any_us != STORE_TIME_NEVER)
		length += snprintf(payload + length, sizeof w->op.payload - (size_t)length, " 0 0 %" PRId64, w->any_us);
	w->any_us = STORE_TIME_NEVER;
	if (add_waiting(w, length, length == head ? ' ' : ';') == head)
		return; /* nothing is left to be told */
	w->sending = true;
	store_wake(w->core->store, &w->op);
}

/* --- hearing ----------------------------------------------------------------------------------------------------- */

/* Acts on a word, unless it did so a moment ago: then later, once. */
static void word_heard(struct wakes *w, int i)
{
	int64_t now_ms = core_now(w->core);
	w->heard[i].wanted = now_ms < w->heard[i].next_ms;
	if (w->heard[i].wanted) {
		core_alarm(w->core, w->heard[i].next_ms);
		return;
	}
	w->heard[i].next_ms = now_ms + HEARD_MS;
	words[i].act(w->core);
}

static void stream_heard(struct wakes *w, int route, int32_t priority, int64_t run_at_us)
{
	if (route == 0)
		window_look_again(w->core->window, run_at_us);
	else if (!routes_known(w->core->routes, route))
		routes_heard(w->core->routes); /* its streams are looked for then */
	else
		window_rewind(w->core->window, route, priority, run_at_us);
}

/* A time that somebody notified: whatever it is, the database can be asked for it. */
static int64_t heard_time(int64_t us)
{
	return us < 0 ? STORE_TIME_BEGIN : us > LATEST_US ? STORE_TIME_NEVER : us;
}

/* Reads "MANAGER ROUTE PRIORITY RUN_AT…". What is not understood is passed over: anything may be said here. */
static void wake_heard(struct wakes *w, const char *payload)
{
	int64_t manager, run_at, until;
	int32_t priority;
	int route, length, found;
	if (sscanf(payload, "%" SCNd64 "%n", &manager, &length) != 1 || manager == store_manager_id(w->core->store))
		return;
	if (manager == 0 && sscanf(payload + length, " %d %" SCNd32 " %" SCNd64 " %" SCNd64, &route, &priority, &run_at, &until) == 4 &&
	    routes_known(w->core->routes, route)) {
		window_rewind_to(w->core->window, route, priority, heard_time(run_at), heard_time(until));
	} else {
		for (const char *at = payload + length; *at; at += found + (at[found] == ';')) {
			if (sscanf(at, " %d %" SCNd32 " %" SCNd64 "%n", &route, &priority, &run_at, &found) != 3)
				break;
			stream_heard(w, route, priority, heard_time(run_at));
			if (at[found] && at[found] != ';')
				break;
		}
	}
	dispatch_soon(w->core->dispatch);
}

void wakes_hear(struct wakes *w, const char *payload)
{
	for (int i = 0; i < WORDS; i++)
		if (!strcmp(payload, words[i].payload)) {
			word_heard(w, i);
			return;
		}
	if (!strncmp(payload, "order ", 6))
		control_heard(w->core, payload + 6);
	else
		wake_heard(w, payload);
}

int64_t wakes_turn(struct wakes *w, int64_t now_ms)
{
	int64_t next_ms = INT64_MAX;
	for (int i = 0; i < WORDS; i++) {
		if (w->heard[i].wanted && now_ms >= w->heard[i].next_ms)
			word_heard(w, i);
		if (w->heard[i].wanted && w->heard[i].next_ms < next_ms)
			next_ms = w->heard[i].next_ms;
	}
	if (w->sending || !gathered(w))
		return next_ms;
	if (now_ms >= send_at_ms(w))
		send_next(w);
	if (gathered(w) && !w->sending && send_at_ms(w) < next_ms)
		next_ms = send_at_ms(w);
	return next_ms;
}
