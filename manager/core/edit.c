/* What follows from a change: the window, waiters, orders to workers. */
#include "manager/core/edit.h"

#include "manager/core/batches.h"
#include "manager/core/dispatch.h"
#include "manager/core/verbose.h"
#include "manager/core/waits.h"
#include "manager/core/wakes.h"
#include "manager/core/window.h"

#include <stdlib.h>

struct edit {
	struct core *core;
	struct store_edit op;
	struct store_edit *given;
};

void edit_settle(struct core *core, const struct store_edited *tasks, int count)
{
	for (int i = 0; i < count; i++) {
		const struct store_edited *t = &tasks[i];
		if (t->ended) {
			verbose_say(core, t->route, t->id, "%s, as it waited", t->status);
			window_drop(core->window, t->id);
			waits_ended(core->waits, t->id);
			batches_kick(core->batches);
		}
		if (t->waits && t->route) { /* one without a route waits to be admitted */
			window_note(core->window, t->route, t->priority, t->id, t->version, t->due_us, -1);
			wakes_tell(core->wakes, t->route, t->priority, t->due_us);
		}
		if (t->ordered_worker) {
			struct store_order order = {.kind = "cancel", .task_id = t->id, .token = t->token};
			dispatch_orders(core->dispatch, t->ordered_worker, &order, 1);
		}
	}
	dispatch_soon(core->dispatch);
}

static void on_edited(struct store_op *op, const struct reeve_error *error)
{
	struct edit *e = (struct edit *)((char *)op - offsetof(struct edit, op));
	for (int i = 0; !error && e->op.kind == STORE_RETRY && i < e->op.found; i++)
		if (e->op.tasks[i].changed && e->op.tasks[i].waits)
			verbose_say(e->core, e->op.tasks[i].route, e->op.tasks[i].id, "retried by %s", e->op.actor);
	e->given->tasks = e->op.tasks;
	e->given->found = e->op.found;
	e->given->missing = e->op.missing;
	e->given->missing_count = e->op.missing_count;
	e->given->next_after_id = e->op.next_after_id;
	struct reeve_error mismatch;
	if (!error && e->op.mismatch) {
		error_set(&mismatch, STATUS(INVALID_ARGUMENT), "the request id was used for another call");
		error = &mismatch;
	}
	e->given->op.done(&e->given->op, error);
	if (!error)
		edit_settle(e->core, e->op.tasks, e->op.found);
	free(e);
}

void edit_tasks(struct core *core, struct store_edit *op)
{
	struct edit *e = mem_calloc(1, sizeof *e);
	e->core = core;
	e->given = op;
	e->op = *op;
	e->op.op.done = on_edited;
	store_edit(core->store, &e->op);
}
