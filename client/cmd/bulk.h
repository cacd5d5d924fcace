/* `reeve submit --bulk`. */
#ifndef REEVE_CLIENT_BULK_H
#define REEVE_CLIENT_BULK_H

#include "client/cmd/lines.h"

#include <reeve/client.h>
#include <stdbool.h>

/* Checks all lines of an open file, then submits its tasks and prints their ids in order; with `wait`, also waits for
 * them. `bare`: the lines are only details. Returns the exit code. */
int bulk_submit(struct reeve_client *client, struct lines *lines, bool bare, const Reeve__V1__TaskSpec *defaults,
    bool wait, bool json);

/* Prints the result for a submitted task: a JSON object on a line of its own. */
void submitted_print_json(const Reeve__V1__SubmittedTask *submitted);

#endif
