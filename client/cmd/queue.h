/* The parts of `reeve queue`. */
#ifndef REEVE_CLIENT_CMD_QUEUE_H
#define REEVE_CLIENT_CMD_QUEUE_H

#include "client/cmd/command.h"

/* Run an action with the arguments of `reeve queue`; the action's name is among them. */
int queue_set(int argc, char **argv);
int queue_status(int argc, char **argv);
int queue_progress(int argc, char **argv);

/* Shows a queue's settings; returns the exit code. */
int queue_describe(const char *queue, const struct shared_options *shared);

/* Returns the queue's name from the operands ACTION NAME. Returns NULL with *code set after an error message. */
const char *queue_operand(const struct option_table *table, int operands, char **argv, int *code);

#endif
