/*
 * The job that fires schedules when they are due. The database finds the due schedules, by its own clock and time
 * zones, and fires each in the transaction that locks the schedule's row. So exactly one of several managers fires it,
 * and no firing happens twice. This module only runs the job, and computes when it must run next.
 */
#ifndef REEVE_MANAGER_CORE_SCHEDULES_H
#define REEVE_MANAGER_CORE_SCHEDULES_H

#include "manager/core/base.h"

struct schedules *schedules_create(struct base *base);
void schedules_destroy(struct schedules *schedules);

#endif
