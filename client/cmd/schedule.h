/* What the commands of `reeve schedule` share. */
#ifndef REEVE_CLIENT_CMD_SCHEDULE_H
#define REEVE_CLIENT_CMD_SCHEDULE_H

#include <reeve/v1/schedule.pb-c.h>

/* Describes a schedule in lines. */
void schedule_print(const Reeve__V1__Schedule *schedule, int64_t now_us);

#endif
