/* Manual changes of tasks. */
#ifndef REEVE_MANAGER_CORE_EDIT_H
#define REEVE_MANAGER_CORE_EDIT_H

#include "manager/core/base.h"

struct dispatch;
struct edits;
struct task_events;
struct verbose;

struct edits *edits_create(
    struct base *base, struct task_events *events, struct dispatch *dispatch, const struct verbose *verbose);
void edits_destroy(struct edits *edits);

/* Makes a change. Calls the caller's `op->op.done` when it is committed or has failed; `op` and all it points to must
 * live until then. */
void edit_tasks(struct edits *edits, struct store_edit *op);

/* Applies changes that `op` has committed: informs the ready cache, the other managers, waiting calls and workers. If
 * `op` was repeated, an earlier try may have made changes that are not among `tasks`: then everything is read again
 * from the top. */
void edit_apply(struct edits *edits, const struct store_op *op, const struct store_edited *tasks, int count);

#endif
