/* What the commands of `reeve queue` share. */
#ifndef REEVE_CLIENT_CMD_QUEUE_H
#define REEVE_CLIENT_CMD_QUEUE_H

#include <reeve/v1/queue_calls.h>
#include <stdbool.h>

/* Prints a queue's settings; returns the exit code. */
int queue_print_settings(struct reeve_client *client, const char *queue, bool json);

#endif
