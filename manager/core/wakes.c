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
	FAILED_REST_MS = 500, /* after a notification that could not be sent */
	STREAMS_MOST = 4096, /* gathered; beyond that, any */
	STREAM_BYTES = 48,   /* as text, at most */
	HEARD_MS = 50,       /* a kind of notification makes this manager read so often at most */
};

struct wake {
	struct {
		int32_t route, priority;
	} key;
	int64_t run_at_us;
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
	int64_t send_ms;
	struct store_wake op;
	struct {
		bool wanted;
		int64_t next_ms;
	} heard[WORDS];
};

struct wakes *wakes_create(struct core *core)
{
	struct wakes *w = calloc(1, sizeof *w);
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

static void send_in(struct wakes *w, int64_t ms)
{
	w->send_ms = core_now(w->core) + ms;
	core_alarm(w->core, w->send_ms);
}

void wakes_others(struct wakes *w, bool others)
{
	if (others && !w->others) { /* they began before they were seen here, and were not notified */
		w->any_us = STORE_TIME_BEGIN;
		if (!w->sending)
			send_in(w, GATHER_MS);
	}
	w->others = others;
}

void wakes_tell(struct wakes *w, int route, int32_t priority, int64_t run_at_us)
{
	struct wake *wake, look = {.key = {route, priority}};
	if (!w->others || !route)
		return;
	if (!gathered(w) && !w->sending)
		send_in(w, GATHER_MS);
	HASH_FIND(hh, w->waiting, &look.key, sizeof look.key, wake);
	if (wake) {
		wake->run_at_us = run_at_us < wake->run_at_us ? run_at_us : wake->run_at_us;
	} else if (HASH_COUNT(w->waiting) == STREAMS_MOST) {
		w->any_us = run_at_us < w->any_us ? run_at_us : w->any_us;
	} else {
		wake = calloc(1, sizeof *wake);
		*wake = look;
		wake->run_at_us = run_at_us;
		HASH_ADD(hh, w->waiting, key, sizeof wake->key, wake);
	}
}

/* --- sending ----------------------------------------------------------------------------------------------------- */

static void on_sent(struct store_op *op, const struct reeve_error *error)
{
	struct wakes *w = (struct wakes *)((char *)op - offsetof(struct wakes, op));
	w->sending = false;
	if (error) /* which streams it named is not known any more */
		w->any_us = STORE_TIME_BEGIN;
	if (gathered(w))
		send_in(w, error ? FAILED_REST_MS : GATHER_MS);
}

static void send_next(struct wakes *w)
{
	char *payload = w->op.payload;
	w->op = (struct store_wake){.op.done = on_sent, .op.deadline_ms = core_now(w->core) + 5000};
	int length = snprintf(payload, sizeof w->op.payload, "%" PRId64, store_manager_id(w->core->store));
	char before = ' ';
	if (w->any_us != STORE_TIME_NEVER) {
		length += snprintf(payload + length, sizeof w->op.payload - (size_t)length, " 0 0 %" PRId64, w->any_us);
		w->any_us = STORE_TIME_NEVER;
		before = ';';
	}
	for (; w->waiting && length + STREAM_BYTES < (int)sizeof w->op.payload; before = ';') {
		struct wake *wake = w->waiting;
		length += snprintf(payload + length, sizeof w->op.payload - (size_t)length, "%c%" PRId32 " %" PRId32 " %" PRId64, before,
		    wake->key.route, wake->key.priority, wake->run_at_us);
		forget(w, wake);
	}
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
	else if (!routes_get(w->core->routes, route))
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
	    routes_get(w->core->routes, route)) {
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
	if (now_ms >= w->send_ms)
		send_next(w);
	else if (w->send_ms < next_ms)
		next_ms = w->send_ms;
	return next_ms;
}
