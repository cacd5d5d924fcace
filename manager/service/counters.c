/* Lists the counters of this manager and of its store's roles. */
#include "manager/service/counters.h"

#include "manager/core/cluster.h"
#include "manager/core/ready.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counters_writer {
	const struct services *services;
	struct store_metrics_own op;
	int count; /* of the last write */
	struct counter counters[COUNTERS_MAX];
	struct store_own_counter given[COUNTERS_MAX];
};

static void add(struct counter *all, int *count, const char *name, const char *of, int64_t value)
{
	assert(*count < COUNTERS_MAX);
	struct counter *c = &all[(*count)++];
	memset(c, 0, sizeof *c);
	snprintf(c->name, sizeof c->name, "%s%s", name, of);
	c->value = value;
}

int counters_read(const struct services *s, struct counter all[COUNTERS_MAX])
{
	const struct core *core = s->core;
	const struct core_counters *n = &core->base.counters;
	const struct callbacks_counters *callbacks = callbacks_counters(s->callbacks);
	const struct {
		const char *name;
		int64_t value;
	} counters[] = {
	    {"submitted", n->submitted},
	    {"duplicates", n->duplicates},
	    {"restarted", n->restarted},
	    {"claims_tried", n->claims_tried},
	    {"claims_won", n->claims_won},
	    {"completed", n->completed},
	    {"ended", n->ended},
	    {"failed", n->failed},
	    {"returned", n->returned},
	    {"expired", n->expired},
	    {"lost", n->lost},
	    {"reclaimed", n->reclaimed},
	    {"requeued", n->requeued},
	    {"extended", n->extended},
	    {"late_results", n->late},
	    {"fetches", n->fetches},
	    {"redelivered", n->redelivered},
	    {"pages_read", n->pages},
	    {"trailing_scans", n->trailing_scans},
	    {"schedule_firings", n->firings},
	    {"callbacks_delivered", callbacks->delivered},
	    {"callbacks_failed", callbacks->failed},
	    {"callbacks_given_up", callbacks->given_up},
	    {"managers", cluster_alive(core->cluster)},
	    {"ready_cache_tasks", ready_size(core->cache)},
	    {"ready_cache_streams", ready_streams(core->cache)},
	    {"calls", rpc_server_calls(s->server)},
	    {"open_calls", rpc_server_open_calls(s->server)},
	    {"calls_refused", rpc_server_refused(s->server) + n->refused},
	    {"calls_denied", rpc_server_denied(s->server)},
	};
	int count = 0;
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		add(all, &count, counters[i].name, "", counters[i].value);
	const char *role;
	int64_t batches, operations;
	for (int i = 0; store_counters(core->base.store, i, &role, &batches, &operations); i++) {
		add(all, &count, role, "_batches", batches);
		add(all, &count, role, "_operations", operations);
	}
	return count;
}

/* --- metrics ----------------------------------------------------------------------------------------------------- */

static void on_written(struct store_op *op, const struct reeve_error *error)
{
	struct counters_writer *w = (struct counters_writer *)((char *)op - offsetof(struct counters_writer, op));
	jobs_done(w->services->core->base.jobs, JOB_COUNTERS, error, false);
	if (error)
		w->count = 0; /* the next run writes all of them */
}

/* Returns whether a counter has changed, apart from those that change with each write of the counters. */
static bool have_changed(const struct counters_writer *w, const struct counter *now, int count)
{
	if (count != w->count)
		return true;
	for (int i = 0; i < count; i++)
		if (now[i].value != w->counters[i].value && strncmp(now[i].name, "maintenance_", 12) != 0 &&
		    strncmp(now[i].name, "heartbeat_", 10) != 0)
			return true;
	return false;
}

static bool write_changed(void *arg)
{
	struct counters_writer *w = arg;
	struct counter now[COUNTERS_MAX];
	if (!store_up(w->services->core->base.store) || !store_manager_id(w->services->core->base.store))
		return false;
	int count = counters_read(w->services, now);
	if (!have_changed(w, now, count))
		return false;
	w->count = count;
	memcpy(w->counters, now, sizeof *now * (size_t)count);
	for (int i = 0; i < count; i++)
		w->given[i] = (struct store_own_counter){w->counters[i].name, w->counters[i].value};
	w->op = (struct store_metrics_own){.op.done = on_written, .count = count, .counters = w->given};
	store_metrics_own(w->services->core->base.store, &w->op);
	return true;
}

struct counters_writer *counters_writer_create(const struct services *services)
{
	struct counters_writer *w = mem_calloc(1, sizeof *w);
	w->services = services;
	jobs_bind(services->core->base.jobs, JOB_COUNTERS, write_changed, w);
	return w;
}

void counters_writer_destroy(struct counters_writer *w)
{
	free(w);
}
