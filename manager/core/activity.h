/*
 * The history of what managers do, by minute and hour, for charts: each manager adds its numbers (traffic.h) to the
 * table `activity` every few seconds, and when it stops. A manager that is killed loses the numbers since then.
 */
#ifndef REEVE_MANAGER_CORE_ACTIVITY_H
#define REEVE_MANAGER_CORE_ACTIVITY_H

#include "manager/core/base.h"

struct activity;

/* Binds the job "activity". */
struct activity *activity_create(struct base *base);
void activity_destroy(struct activity *activity);

typedef void activity_done(void *arg);

/* Adds the numbers at once, and calls `done` once, from the loop, when they are added or that has failed. */
void activity_finish(struct activity *activity, activity_done *done, void *arg);

#endif
