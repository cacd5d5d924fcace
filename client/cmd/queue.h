/* The parts of `reeve queue`. */
#ifndef REEVE_CLIENT_CMD_QUEUE_H
#define REEVE_CLIENT_CMD_QUEUE_H

#include "client/cmd/command.h"

/* Each runs with argv[1] the action's name among its arguments, as `reeve queue` got them. */
int queue_set(int argc, char **argv);
int queue_status(int argc, char **argv);
int queue_progress(int argc, char **argv);

/* Shows a queue's settings; returns the exit code. */
int queue_describe(const char *queue, const struct shared_options *shared);

/* Takes the operands ACTION NAME: the queue's name. NULL: the user was told, *code is set. */
const char *queue_operand(const struct option_table *table, int operands, char **argv, int *code);

#endif
