/* Makes manual changes of tasks, and applies the results: to the ready cache, waiting calls and workers. */
#include "manager/core/edit.h"

#include "manager/core/dispatch.h"
#include "manager/core/task_events.h"
#include "manager/core/verbose.h"

#include <stdlib.h>

struct edits {
	struct base *base;
	struct task_events *events;
	struct dispatch *dispatch;
	const struct verbose *verbose;
};

struct edits *edits_create(
    struct base *base, struct task_events *events, struct dispatch *dispatch, const struct verbose *verbose)
{
	struct edits *e = mem_calloc(1, sizeof *e);
	*e = (struct edits){base, events, dispatch, verbose};
	return e;
}

void edits_destroy(struct edits *edits)
{
	free(edits);
}

struct edit {
	struct edits *edits;
	struct store_edit op;
	struct store_edit *given;
};

void edit_apply(struct edits *edits, const struct store_op *op, const struct store_edited *tasks, int count)
{
	for (int i = 0; i < count; i++) {
		const struct store_edited *t = &tasks[i];
		if (t->ended) {
			verbose_log(edits->verbose, t->route, t->id, "%s, as it waited", t->status);
			task_ended(edits->events, t->id, true);
			traffic_ended(&edits->base->traffic, t->route, t->status);
			batches_changed(edits->events);
		}
		if (t->waits)
			task_ready(edits->events, &(struct ready_task){t->id, t->version, t->due_us, t->route, t->priority, -1});
		if (t->commanded_worker) {
			struct store_worker_command command = {.kind = "cancel", .task_id = t->id, .token = t->token};
			dispatch_commands(edits->dispatch, t->commanded_worker, &command, 1);
		}
	}
	task_events_end(edits->events, op->again);
}

static void on_edited(struct store_op *op, const struct reeve_error *error)
{
	struct edit *e = (struct edit *)((char *)op - offsetof(struct edit, op));
	for (int i = 0; !error && e->op.kind == STORE_RETRY && i < e->op.found; i++)
		if (e->op.tasks[i].changed && e->op.tasks[i].waits)
			verbose_log(e->edits->verbose, e->op.tasks[i].route, e->op.tasks[i].id, "retried by %s", e->op.actor);
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
	if (!error)
		edit_apply(e->edits, op, e->op.tasks, e->op.found);
	e->given->op.done(&e->given->op, error);
	free(e);
}

void edit_tasks(struct edits *edits, struct store_edit *op)
{
	struct edit *e = mem_calloc(1, sizeof *e);
	e->edits = edits;
	e->given = op;
	e->op = *op;
	e->op.op.done = on_edited;
	store_edit(edits->base->store, &e->op);
}
