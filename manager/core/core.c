/* Creates and connects the core's modules. A module that must call a later one gets a function of this file for
 * that. */
#include "manager/core/core.h"

#include "manager/core/activity.h"
#include "manager/core/batches.h"
#include "manager/core/cluster.h"
#include "manager/core/control.h"
#include "manager/core/db_clock.h"
#include "manager/core/dispatch.h"
#include "manager/core/edit.h"
#include "manager/core/inbox.h"
#include "manager/core/leases.h"
#include "manager/core/maintenance.h"
#include "manager/core/notifications.h"
#include "manager/core/notifier.h"
#include "manager/core/queue_ends.h"
#include "manager/core/queues.h"
#include "manager/core/ready.h"
#include "manager/core/report.h"
#include "manager/core/rescan.h"
#include "manager/core/routes.h"
#include "manager/core/schedules.h"
#include "manager/core/sessions.h"
#include "manager/core/spans.h"
#include "manager/core/submit.h"
#include "manager/core/task_events.h"
#include "manager/core/verbose.h"
#include "manager/core/waits.h"

#include <stdlib.h>

/* --- callbacks to later modules ----------------------------------------------------------------------------------- */

static void on_route_known(void *arg, int route)
{
	const struct core *core = arg;
	dispatch_route(core->dispatch, route);
}

static void on_route_forgotten(void *arg, int route)
{
	struct core *core = arg;
	dispatch_forget_route(core->dispatch, route);
	traffic_forget(&core->base.traffic, route);
}

static void on_routes_changed(void *arg)
{
	struct core *core = arg;
	base_dispatch(&core->base);
}

static void on_queues_changed(void *arg)
{
	const struct core *core = arg;
	ready_rewind_all(core->cache);
}

static bool fetch_waits(void *arg)
{
	const struct core *core = arg;
	return dispatch_waiting(core->dispatch);
}

static bool fetch_wants(void *arg, int route)
{
	const struct core *core = arg;
	return dispatch_wants(core->dispatch, route);
}

static bool fetch_takes(void *arg, int route, int candidates, int all)
{
	const struct core *core = arg;
	return dispatch_takes(core->dispatch, route, candidates, all);
}

/* --- modules ------------------------------------------------------------------------------------------------------ */

/* Creates the modules that know the database's settings and this manager's workers. */
static void create_knowledge(struct core *core)
{
	struct base *base = &core->base;
	core->clock = db_clock_create(base);
	core->routes =
	    routes_create(base, &(struct routes_listener){on_route_known, on_route_forgotten, on_routes_changed, core});
	core->queues = queues_create(base, core->routes, on_queues_changed, core);
	core->sessions = sessions_create(base, dispatch_lost);
	core->verbose = verbose_create(base, core->clock, core->routes, core->queues);
	core->spans = spans_create(base, core->routes);
}

/* Creates the modules that assign tasks to Fetches, and the waiting calls. */
static void create_dispatch(struct core *core)
{
	struct base *base = &core->base;
	core->cache = ready_create(base, core->clock, &(struct ready_fetches){fetch_waits, fetch_wants, fetch_takes, core});
	core->late = rescan_create(base, core->cache);
	core->dispatch = dispatch_create(base,
	    &(struct dispatch_neighbours){
	        .clock = core->clock,
	        .cache = core->cache,
	        .routes = core->routes,
	        .queues = core->queues,
	        .sessions = core->sessions,
	        .verbose = core->verbose,
	        .spans = core->spans,
	    });
	core->notifier = notifier_create(base, core->clock, core->cache, core->dispatch);
	core->waits = waits_create(base);
}

/* Creates the modules that change tasks. */
static void create_changes(struct core *core)
{
	struct base *base = &core->base;
	core->events = task_events_create(base,
	    &(struct task_events_neighbours){
	        .routes = core->routes,
	        .cache = core->cache,
	        .notifier = core->notifier,
	        .waits = core->waits,
	    });
	core->reports = reports_create(base, core->events, core->queues, core->verbose, core->spans, core->clock);
	core->edits = edits_create(base, core->events, core->dispatch, core->verbose);
	core->submits = submits_create(base,
	    &(struct submits_neighbours){
	        .queues = core->queues,
	        .routes = core->routes,
	        .events = core->events,
	        .verbose = core->verbose,
	        .spans = core->spans,
	    });
}

/* Creates the modules that run jobs, or act on notifications and heartbeats. */
static void create_jobs(struct core *core)
{
	struct base *base = &core->base;
	core->control = control_create(base, core->dispatch, core->sessions);
	core->leases =
	    leases_create(base, &(struct leases_neighbours){core->sessions, core->reports, core->control, core->verbose});
	core->cluster = cluster_create(base, &(struct cluster_neighbours){core->notifier, core->waits, core->cache});
	core->batches = batches_create(base, core->events);
	core->inbox = inbox_create(base, core->events);
	core->schedules = schedules_create(base);
	core->queue_stops = queue_stops_create(base, core->queues, core->edits);
	core->notifications = notifications_create(base,
	    &(struct notifications_neighbours){
	        .routes = core->routes,
	        .cache = core->cache,
	        .late = core->late,
	        .control = core->control,
	    });
	core->activity = activity_create(base);
	core->maintenance = maintenance_create(base,
	    &(struct maintenance_neighbours){
	        .clock = core->clock,
	        .cluster = core->cluster,
	        .routes = core->routes,
	        .queues = core->queues,
	        .cache = core->cache,
	        .reports = core->reports,
	    });
}

struct core *core_create(
    struct store *store, struct jobs *jobs, const struct core_options *options, const struct core_host *host)
{
	struct core *core = mem_calloc(1, sizeof *core);
	core->base.store = store;
	core->base.jobs = jobs;
	core->base.options = *options;
	core->base.host = *host;
	traffic_init(&core->base.traffic, options->traffic_routes);
	create_knowledge(core);
	create_dispatch(core);
	create_changes(core);
	create_jobs(core);
	return core;
}

/* Ends Fetches and waits first, because that calls other modules. */
void core_destroy(struct core *core)
{
	dispatch_destroy(core->dispatch);
	waits_destroy(core->waits);
	maintenance_destroy(core->maintenance);
	activity_destroy(core->activity);
	notifications_destroy(core->notifications);
	queue_stops_destroy(core->queue_stops);
	schedules_destroy(core->schedules);
	inbox_destroy(core->inbox);
	batches_destroy(core->batches);
	cluster_destroy(core->cluster);
	leases_destroy(core->leases);
	control_destroy(core->control);
	submits_destroy(core->submits);
	edits_destroy(core->edits);
	reports_destroy(core->reports);
	task_events_destroy(core->events);
	notifier_destroy(core->notifier);
	rescan_destroy(core->late);
	ready_destroy(core->cache);
	spans_destroy(core->spans);
	verbose_destroy(core->verbose);
	sessions_destroy(core->sessions);
	queues_destroy(core->queues);
	routes_destroy(core->routes);
	db_clock_destroy(core->clock);
	traffic_destroy(&core->base.traffic);
	free(core);
}

/* --- calls by the host -------------------------------------------------------------------------------------------- */

void core_turn(struct core *core)
{
	jobs_run(core->base.jobs);
	base_dispatch(&core->base); /* the jobs may have made tasks claimable */
}

void core_dispatch(struct core *core)
{
	dispatch_run(core->dispatch);
}

void core_eased(struct core *core)
{
	dispatch_eased(core->dispatch);
}

int64_t core_database_us(const struct core *core)
{
	return db_clock_us(core->clock);
}

int64_t core_clock_us(const struct core *core)
{
	return db_clock_shown_us(core->clock);
}

bool core_database_fresh(const struct core *core)
{
	return maintenance_fresh(core->maintenance);
}

void core_notified(struct core *core, const char *payload)
{
	notifications_receive(core->notifications, payload);
}

void core_listening(struct core *core)
{
	struct jobs *jobs = core->base.jobs;
	jobs_at(jobs, JOB_ROUTES, 0);
	jobs_at(jobs, JOB_QUEUES, 0);
	jobs_at(jobs, JOB_SCHEDULES, 0);
	jobs_at(jobs, JOB_INBOX, 0);
	ready_rewind_all(core->cache);
}
