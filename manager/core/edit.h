/* Changes by hand, and what follows from them. */
#ifndef REEVE_MANAGER_CORE_EDIT_H
#define REEVE_MANAGER_CORE_EDIT_H

#include "manager/core/base.h"

struct dispatch;
struct edits;
struct task_events;
struct verbose;

struct edits *edits_create(struct base *base, struct task_events *events, struct dispatch *dispatch, const struct verbose *verbose);
void edits_destroy(struct edits *edits);

/* Carries an edit out. The caller's `op->op.done` is called when it is committed; everything must live until then. */
void edit_tasks(struct edits *edits, struct store_edit *op);

/* What follows from changes that `op` has committed: for the window, the other managers, waiters and workers. If it was asked
 * again, an earlier try may have made changes that are not among `tasks`, and everything is read from the top. */
void edit_settle(struct edits *edits, const struct store_op *op, const struct store_edited *tasks, int count);

#endif
