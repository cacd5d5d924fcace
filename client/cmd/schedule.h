/* What the commands of `reeve schedule` share. */
#ifndef REEVE_CLIENT_CMD_SCHEDULE_H
#define REEVE_CLIENT_CMD_SCHEDULE_H

#include "client/cmd/command.h"

/* Writes a schedule as text, or as JSON. */
void schedule_print(const struct reeve_schedule *schedule, bool json);

#endif
