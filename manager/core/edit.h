/* Changes by hand, and what follows from them. */
#ifndef REEVE_MANAGER_CORE_EDIT_H
#define REEVE_MANAGER_CORE_EDIT_H

#include "manager/core/core.h"

/* Carries an edit out. The caller's `op->op.done` is called when it is committed; everything must live until then. */
void edit_tasks(struct core *core, struct store_edit *op);

/* What follows from changes that are committed. */
void edit_settle(struct core *core, const struct store_edited *tasks, int count);

#endif
