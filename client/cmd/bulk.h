/* `reeve submit --bulk`. */
#ifndef REEVE_CLIENT_BULK_H
#define REEVE_CLIENT_BULK_H

#include "client/cmd/lines.h"

#include <reeve/client.h>
#include <stdbool.h>

/* Checks all the lines of an open file, then submits its tasks, printing their ids in order; with `wait` waits for
 * them, too. Returns the exit code. */
int bulk_submit(struct reeve_client *client, struct lines *lines, const struct reeve_task_spec *defaults, bool wait,
    bool json);

#endif
