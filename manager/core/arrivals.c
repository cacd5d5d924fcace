/* One walk at a time over what waits, from the lowest id up; a kick meanwhile has another follow. */
#include "manager/core/arrivals.h"

#include "common/log.h"
#include "manager/core/batches.h"
#include "manager/core/waits.h"
#include "manager/core/window.h"

#include <stdlib.h>

/* A walk costs the more the more rows there are of those that were admitted and cannot be cleaned up yet, some old
 * transaction being open: the next one waits a multiple of what it took, so that others of the connection have their
 * turn. */
enum { TASKS_MOST = 1000, REST_TIMES = 2 };

struct arrivals {
	struct core *core;
	bool busy, kicked;
	int64_t began_ms, next_ms;
	struct store_admit op;
};

struct arrivals *arrivals_create(struct core *core)
{
	struct arrivals *a = mem_calloc(1, sizeof *a);
	a->core = core;
	return a;
}

void arrivals_destroy(struct arrivals *arrivals)
{
	free(arrivals);
}

static void admit(struct arrivals *a, int64_t beyond);

/* Those that were admitted are told of by the database, to all managers. */
static void tell(const struct arrivals *a)
{
	struct core *core = a->core;
	for (int i = 0; i < a->op.ended; i++) {
		log_warn(
		    NULL, "task %lld, submitted by SQL, ended dead: %s", (long long)a->op.ended_ids[i], a->op.reason);
		window_drop(core->window, a->op.ended_ids[i]);
		waits_ended(core->waits, a->op.ended_ids[i]);
	}
	core->counters.submitted += a->op.admitted;
	if (a->op.admitted)
		batches_kick(core->batches);
}

static void on_admitted(struct store_op *op, const struct reeve_error *error)
{
	struct arrivals *a = (struct arrivals *)((char *)op - offsetof(struct arrivals, op));
	int64_t now = core_now(a->core);
	if (!error) {
		tell(a);
		if (a->op.walked) {
			/* As many as fitted: those that go with it may not all have been admitted. */
			admit(a, a->op.admitted + a->op.ended < TASKS_MOST ? a->op.walked : a->op.walked - 1);
			return;
		}
	}
	a->busy = false;
	a->next_ms = now + REST_TIMES * (now - a->began_ms);
	if (a->kicked) /* what failed is tried again with the next tick */
		core_alarm(a->core, a->next_ms);
}

static void admit(struct arrivals *a, int64_t beyond)
{
	a->op = (struct store_admit){.op.done = on_admitted, .beyond = beyond, .limit = TASKS_MOST};
	store_admit(a->core->store, &a->op);
}

void arrivals_kick(struct arrivals *a)
{
	a->kicked = true;
	if (!a->busy)
		core_alarm(a->core, a->next_ms);
}

int64_t arrivals_turn(struct arrivals *a, int64_t now_ms)
{
	if (a->busy || !a->kicked)
		return INT64_MAX;
	if (now_ms < a->next_ms)
		return a->next_ms;
	a->busy = true;
	a->kicked = false;
	a->began_ms = now_ms;
	admit(a, 0);
	return INT64_MAX;
}
