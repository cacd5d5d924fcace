/* One list for both; the roles of the store add theirs. */
#include "manager/service/counters.h"

#include "manager/core/cluster.h"
#include "manager/core/window.h"

#include <assert.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_MS = 1000, EVERY_MS = 10000 };

struct counters_writer {
	const struct services *services;
	struct event *timer;
	struct store_metrics_own op;
	bool busy;
	int count;                                          /* what was written last */
	struct counter counters[COUNTERS_MOST];
	struct store_own_counter given[COUNTERS_MOST];
};

static void add(struct counter *all, int *count, const char *name, const char *of, int64_t value)
{
	assert(*count < COUNTERS_MOST);
	struct counter *c = &all[(*count)++];
	memset(c, 0, sizeof *c);
	snprintf(c->name, sizeof c->name, "%s%s", name, of);
	c->value = value;
}

int counters_read(const struct services *s, struct counter all[COUNTERS_MOST])
{
	const struct core *core = s->core;
	const struct core_counters *n = &core->counters;
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
	    {"taken_back", n->taken_back},
	    {"extended", n->extended},
	    {"late_results", n->late},
	    {"fetches", n->fetches},
	    {"redelivered", n->redelivered},
	    {"pages_read", n->pages},
	    {"trailing_looks", n->looks},
	    {"schedule_ticks", n->ticks},
	    {"callbacks_delivered", callbacks->delivered},
	    {"callbacks_failed", callbacks->failed},
	    {"callbacks_given_up", callbacks->given_up},
	    {"managers", cluster_alive(core->cluster)},
	    {"window_size", window_size(core->window)},
	    {"window_streams", window_streams(core->window)},
	    {"calls", rpc_server_calls(s->server)},
	    {"open_calls", rpc_server_open_calls(s->server)},
	    {"calls_refused", rpc_server_refused(s->server) + n->refused},
	};
	int count = 0;
	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		add(all, &count, counters[i].name, "", counters[i].value);
	const char *role;
	int64_t batches, operations;
	for (int i = 0; store_counters(core->store, i, &role, &batches, &operations); i++) {
		add(all, &count, role, "_batches", batches);
		add(all, &count, role, "_operations", operations);
	}
	return count;
}

/* --- among the metrics ------------------------------------------------------------------------------------------- */

static void on_written(struct store_op *op, const struct reeve_error *error)
{
	struct counters_writer *w = (struct counters_writer *)((char *)op - offsetof(struct counters_writer, op));
	w->busy = false;
	if (error)
		w->count = 0; /* all of them again */
}

/* Whether a counter other than those that count this very writing has changed. */
static bool have_changed(const struct counters_writer *w, const struct counter *now, int count)
{
	if (count != w->count)
		return true;
	for (int i = 0; i < count; i++)
		if (now[i].value != w->counters[i].value && strncmp(now[i].name, "upkeep_", 7) != 0 &&
		    strncmp(now[i].name, "heartbeat_", 10) != 0)
			return true;
	return false;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval every = {.tv_sec = EVERY_MS / 1000};
	struct counters_writer *w = arg;
	struct counter now[COUNTERS_MOST];
	(void)fd, (void)what;
	event_add(w->timer, &every);
	if (w->busy || !store_up(w->services->core->store) || !store_manager_id(w->services->core->store))
		return;
	int count = counters_read(w->services, now);
	if (!have_changed(w, now, count))
		return;
	w->busy = true;
	w->count = count;
	memcpy(w->counters, now, sizeof *now * (size_t)count);
	for (int i = 0; i < count; i++)
		w->given[i] = (struct store_own_counter){w->counters[i].name, w->counters[i].value};
	w->op = (struct store_metrics_own){.op.done = on_written, .count = count, .counters = w->given};
	store_metrics_own(w->services->core->store, &w->op);
}

struct counters_writer *counters_writer_create(struct event_base *base, const struct services *services)
{
	static const struct timeval first = {.tv_sec = FIRST_MS / 1000};
	struct counters_writer *w = mem_calloc(1, sizeof *w);
	w->services = services;
	w->timer = evtimer_new(base, on_timer, w);
	event_add(w->timer, &first);
	return w;
}

void counters_writer_destroy(struct counters_writer *w)
{
	if (!w)
		return;
	event_free(w->timer);
	free(w);
}
