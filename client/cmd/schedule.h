/* The parts of `reeve schedule`. */
#ifndef REEVE_CLIENT_CMD_SCHEDULE_H
#define REEVE_CLIENT_CMD_SCHEDULE_H

#include "client/cmd/command.h"

/* Run an action; argv[0] is its name, argv[1 …] the arguments after it. */
int schedule_add(int argc, char **argv);
int schedule_edit(int argc, char **argv);
int schedule_list(int argc, char **argv);
int schedule_show(int argc, char **argv);
int schedule_runs(int argc, char **argv);

/* Returns the only operand, a schedule's name. Returns NULL with *code set after an error message. */
const char *schedule_operand(const struct option_table *table, int operands, char **argv, int *code);

/* Writes a schedule as text, or as JSON. */
void schedule_print(const struct reeve_schedule *schedule, bool json);

#endif
