/* See task_events.h. */
#include "manager/core/task_events.h"

#include "manager/core/notifier.h"
#include "manager/core/ready.h"
#include "manager/core/routes.h"
#include "manager/core/waits.h"

#include <stdlib.h>

struct task_events {
	struct base *base;
	struct task_events_neighbours to;
};

struct task_events *task_events_create(struct base *base, const struct task_events_neighbours *neighbours)
{
	struct task_events *e = mem_calloc(1, sizeof *e);
	e->base = base;
	e->to = *neighbours;
	return e;
}

void task_events_destroy(struct task_events *e)
{
	free(e);
}

void task_ready(struct task_events *e, const struct ready_task *t)
{
	if (t->route == 0)
		return;
	if (routes_known(e->to.routes, t->route))
		ready_note(e->to.cache, t->route, t->priority, t->id, t->version, t->due_us, t->bytes);
	else
		jobs_ask(e->base->jobs, JOB_ROUTES);
	notifier_send(e->to.notifier, t->route, t->priority, t->due_us);
}

void tasks_may_be_ready(struct task_events *e, int route, int32_t priority)
{
	if (route)
		ready_rewind(e->to.cache, route, priority, STORE_TIME_BEGIN);
	else
		ready_poll_again(e->to.cache, STORE_TIME_BEGIN);
	notifier_send(e->to.notifier, route, priority, STORE_TIME_BEGIN);
}

void task_ended(struct task_events *e, int64_t id, bool waited)
{
	e->base->counters.ended++;
	if (waited)
		ready_drop(e->to.cache, id);
	waits_ended(e->to.waits, id);
}

void batches_changed(struct task_events *e)
{
	jobs_ask(e->base->jobs, JOB_BATCHES);
}

void task_events_end(struct task_events *e, bool unknown)
{
	base_dispatch(e->base);
	if (unknown)
		ready_rewind_all(e->to.cache);
}
