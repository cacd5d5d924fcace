/* The parts of `reeve schedule`. */
#ifndef REEVE_CLIENT_CMD_SCHEDULE_H
#define REEVE_CLIENT_CMD_SCHEDULE_H

#include "client/cmd/command.h"

/* Each runs with argv[0] its word, argv[1 …] what follows. */
int schedule_add(int argc, char **argv);
int schedule_edit(int argc, char **argv);
int schedule_list(int argc, char **argv);
int schedule_show(int argc, char **argv);
int schedule_runs(int argc, char **argv);

/* Takes the one operand, a schedule's name. NULL: the user was told, *code is set. */
const char *schedule_operand(const struct option_table *table, int operands, char **argv, int *code);

/* Writes a schedule as text, or as JSON. */
void schedule_print(const struct reeve_schedule *schedule, bool json);

#endif
