/* Gathers wakes by stream and sends one NOTIFY at a time; too many different streams become "any". */
#include "manager/core/wakes.h"

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

enum { MOST_STREAMS = 16, GATHER_MS = 10 };

struct wake {
	int route;
	int32_t priority;
	int64_t run_at_us;
};

struct wakes {
	struct core *core;
	bool others, sending;
	struct wake waiting[MOST_STREAMS];
	int count;
	bool any;
	int64_t send_ms;
	struct store_wake op;
};

struct wakes *wakes_create(struct core *core)
{
	struct wakes *w = calloc(1, sizeof *w);
	w->core = core;
	return w;
}

void wakes_destroy(struct wakes *wakes)
{
	free(wakes);
}

void wakes_others(struct wakes *wakes, bool others)
{
	wakes->others = others;
}

void wakes_tell(struct wakes *w, int route, int32_t priority, int64_t run_at_us)
{
	if (!w->others || w->any)
		return;
	for (int i = 0; i < w->count; i++)
		if (w->waiting[i].route == route && w->waiting[i].priority == priority) {
			if (run_at_us < w->waiting[i].run_at_us)
				w->waiting[i].run_at_us = run_at_us;
			return;
		}
	if (w->count == 0 && !w->sending) {
		w->send_ms = core_now(w->core) + GATHER_MS;
		core_alarm(w->core, w->send_ms);
	}
	if (w->count == MOST_STREAMS)
		w->any = true;
	else
		w->waiting[w->count++] = (struct wake){route, priority, run_at_us};
}

static void send_next(struct wakes *w);

static void on_sent(struct store_op *op, const struct reeve_error *error)
{
	struct wakes *w = (struct wakes *)((char *)op - offsetof(struct wakes, op));
	(void)error; /* a hint */
	w->sending = false;
	if (w->count)
		core_alarm(w->core, core_now(w->core) + GATHER_MS);
}

static void send_next(struct wakes *w)
{
	struct wake wake = w->any ? (struct wake){0} : w->waiting[--w->count];
	if (w->any) {
		w->any = false;
		w->count = 0;
	}
	w->op = (struct store_wake){.op.done = on_sent, .op.deadline_ms = core_now(w->core) + 5000};
	snprintf(w->op.payload, sizeof w->op.payload, "%" PRId64 " %d %" PRId32 " %" PRId64, store_manager_id(w->core->store),
	    wake.route, wake.priority, wake.run_at_us);
	w->sending = true;
	store_wake(w->core->store, &w->op);
}

int64_t wakes_turn(struct wakes *w, int64_t now_ms)
{
	if (w->sending || !(w->count || w->any))
		return INT64_MAX;
	if (now_ms < w->send_ms)
		return w->send_ms;
	send_next(w);
	return INT64_MAX;
}

void wakes_hear(struct wakes *w, const char *payload)
{
	int64_t manager, run_at, until;
	int route;
	int32_t priority;
	if (!strcmp(payload, "queues")) {
		queues_reload(w->core->queues);
		return;
	}
	if (!strcmp(payload, "schedules")) {
		schedules_look(w->core->schedules);
		return;
	}
	if (!strncmp(payload, "order ", 6)) {
		control_heard(w->core, payload + 6);
		return;
	}
	if (!strcmp(payload, "arrivals")) {
		arrivals_kick(w->core->arrivals);
		return;
	}
	int found = sscanf(payload, "%" SCNd64 " %d %" SCNd32 " %" SCNd64 " %" SCNd64, &manager, &route, &priority, &run_at, &until);
	if (found < 4)
		return; /* not ours; whoever may use the channel can say anything */
	if (manager == store_manager_id(w->core->store))
		return;
	if (route == 0) {
		window_rewind_all(w->core->window);
		return;
	}
	if (!routes_get(w->core->routes, route)) {
		routes_heard(w->core->routes); /* its streams are looked for then */
		return;
	}
	if (found == 5)
		window_rewind_to(w->core->window, route, priority, run_at, until);
	else
		window_rewind(w->core->window, route, priority, run_at);
	dispatch_run(w->core->dispatch);
}
