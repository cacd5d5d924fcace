/*
 * The inbox: tasks submitted by SQL that still need a route, or must be counted in a batch. The application's
 * transaction cannot do that itself, because its locks would make other transactions wait until it commits. The tasks
 * wait in the table `inbox`; right after the commit any manager ingests them, each once. A notification announces
 * them; the job counts finds them if it was missed.
 */
#ifndef REEVE_MANAGER_CORE_INBOX_H
#define REEVE_MANAGER_CORE_INBOX_H

#include "manager/core/base.h"

struct task_events;

struct inbox *inbox_create(struct base *base, struct task_events *events);
void inbox_destroy(struct inbox *inbox);

#endif
