/* What the commands of `reeve queue` share. */
#ifndef REEVE_CLIENT_CMD_QUEUE_H
#define REEVE_CLIENT_CMD_QUEUE_H

#include "client/cmd/command.h"

/* Prints a queue's settings; returns the exit code. */
int queue_print_settings(const char *queue, const struct shared_options *shared);

#endif
