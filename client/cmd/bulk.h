/* `reeve submit --bulk`. */
#ifndef REEVE_CLIENT_BULK_H
#define REEVE_CLIENT_BULK_H

#include "client/cmd/lines.h"

#include <reeve/client.h>
#include <stdbool.h>

/* How long a submit itself waits for its tasks. Until its answer Ctrl-C leaves open whether they are stored. */
enum { SUBMIT_WAIT_MS = 1000 };

/* Checks all lines of an open file, then submits its tasks and prints their ids in order; with `wait`, also waits for
 * them. `bare`: the lines are only details. Returns the exit code. */
int bulk_submit(struct reeve_client *client, struct lines *lines, bool bare, const Reeve__V1__TaskSpec *defaults,
    bool wait, bool json);

#endif
