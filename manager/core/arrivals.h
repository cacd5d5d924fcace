/*
 * Tasks that were submitted by SQL in an application's transaction and could not be made whole there, because that would have
 * kept others waiting until it commits: they have no route yet, or are to be counted into a batch. They wait in the table
 * `arrivals`, and are admitted right after the commit by whichever manager comes to them first, each once. A notification
 * tells of them; the job counts finds those of whom nobody has heard.
 */
#ifndef REEVE_MANAGER_CORE_ARRIVALS_H
#define REEVE_MANAGER_CORE_ARRIVALS_H

#include "manager/core/base.h"

struct task_events;

struct arrivals *arrivals_create(struct base *base, struct task_events *events);
void arrivals_destroy(struct arrivals *arrivals);

#endif
