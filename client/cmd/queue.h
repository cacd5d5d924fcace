/* What the commands of `reeve queue` share. */
#ifndef REEVE_CLIENT_CMD_QUEUE_H
#define REEVE_CLIENT_CMD_QUEUE_H

#include "client/cmd/table.h"

#include <reeve/v1/queue_calls.h>
#include <stdbool.h>

/* The columns of a table of QueueCounts. */
extern const struct column queue_count_columns[];

/* Prints a queue's settings; returns the exit code. */
int queue_print_settings(struct reeve_client *client, const char *queue, bool json);

#endif
