/* Puts the parts together, and turns them when the alarm goes off. */
#include "manager/core/core.h"

#include "manager/core/arrivals.h"
#include "manager/core/batches.h"
#include "manager/core/dispatch.h"
#include "manager/core/late.h"
#include "manager/core/leases.h"
#include "manager/core/cluster.h"
#include "manager/core/queue_ends.h"
#include "manager/core/queues.h"
#include "manager/core/routes.h"
#include "manager/core/schedules.h"
#include "manager/core/sessions.h"
#include "manager/core/upkeep.h"
#include "manager/core/waits.h"
#include "manager/core/wakes.h"
#include "manager/core/window.h"

#include <stdlib.h>

struct core *core_create(struct store *store, const struct core_options *options, const struct core_host *host)
{
	struct core *core = mem_calloc(1, sizeof *core);
	core->store = store;
	core->options = *options;
	core->host = *host;
	core->routes = routes_create(core);
	core->queues = queues_create(core);
	core->queue_stops = queue_stops_create(core);
	core->sessions = sessions_create(core);
	core->wakes = wakes_create(core);
	core->waits = waits_create(core);
	core->leases = leases_create(core);
	core->cluster = cluster_create(core);
	core->batches = batches_create(core);
	core->schedules = schedules_create(core);
	core->arrivals = arrivals_create(core);
	core->late = late_create(core);
	core->upkeep = upkeep_create(core);
	core->window = window_create(core);
	core->dispatch = dispatch_create(core);
	core_alarm(core, core_now(core));
	return core;
}

void core_destroy(struct core *core)
{
	dispatch_destroy(core->dispatch);
	waits_destroy(core->waits);
	window_destroy(core->window);
	upkeep_destroy(core->upkeep);
	leases_destroy(core->leases);
	schedules_destroy(core->schedules);
	late_destroy(core->late);
	arrivals_destroy(core->arrivals);
	batches_destroy(core->batches);
	cluster_destroy(core->cluster);
	wakes_destroy(core->wakes);
	sessions_destroy(core->sessions);
	queue_stops_destroy(core->queue_stops);
	queues_destroy(core->queues);
	routes_destroy(core->routes);
	free(core);
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void core_turn(struct core *core)
{
	int64_t now = core_now(core);
	int64_t next = upkeep_turn(core->upkeep, now);
	next = earlier(next, queue_stops_turn(core->queue_stops, now));
	next = earlier(next, leases_turn(core->leases, now));
	next = earlier(next, window_turn(core->window, now));
	next = earlier(next, dispatch_turn(core->dispatch, now));
	next = earlier(next, waits_turn(core->waits, now));
	next = earlier(next, wakes_turn(core->wakes, now));
	next = earlier(next, routes_turn(core->routes, now));
	next = earlier(next, batches_turn(core->batches, now));
	next = earlier(next, schedules_turn(core->schedules, now));
	next = earlier(next, arrivals_turn(core->arrivals, now));
	core_alarm(core, next);
}

void core_dispatch(struct core *core)
{
	dispatch_run(core->dispatch);
}

int64_t core_database_us(const struct core *core)
{
	return upkeep_database_us(core->upkeep);
}

int64_t core_clock_us(const struct core *core)
{
	return upkeep_clock_us(core->upkeep);
}

int64_t core_set_back_us(const struct core *core)
{
	return upkeep_set_back_us(core->upkeep);
}

bool core_database_fresh(const struct core *core)
{
	return upkeep_fresh(core->upkeep);
}

void core_notified(struct core *core, const char *payload)
{
	wakes_hear(core->wakes, payload);
}

void core_listening(struct core *core)
{
	routes_reload(core->routes);
	queues_reload(core->queues);
	schedules_look(core->schedules);
	arrivals_kick(core->arrivals);
	window_rewind_all(core->window);
}

void core_history_archived(struct core *core)
{
	upkeep_tables(core->upkeep);
}
