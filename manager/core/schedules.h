/*
 * The keeper of schedules: has their ticks made when they are due. The database says which are, by its own clock and
 * its own time zones, and makes them, each in the transaction that takes the schedule's row; so that of any number of
 * managers one makes a tick, and one that is made is never made again. Here is only the job: the next time to ask.
 */
#ifndef REEVE_MANAGER_CORE_SCHEDULES_H
#define REEVE_MANAGER_CORE_SCHEDULES_H

#include "manager/core/base.h"

struct schedules *schedules_create(struct base *base);
void schedules_destroy(struct schedules *schedules);

#endif
