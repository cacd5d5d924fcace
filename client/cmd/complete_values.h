/* Names and ids for completion, which the manager lists. */
#ifndef REEVE_CLIENT_CMD_COMPLETE_VALUES_H
#define REEVE_CLIENT_CMD_COMPLETE_VALUES_H

#include <reeve/client.h>
#include <stdbool.h>

enum { COMPLETE_MS = 1000 }; /* how long to wait for a manager, and for its answer */

typedef void complete_put(void *arg, const char *word, const char *about);

/* Returns whether there are values of a kind: that of a noun or an option, "queue" or "batch". */
bool complete_known(const char *kind);

/* Passes them to `put`, each once. */
void complete_values(struct reeve_client *client, const char *kind, complete_put *put, void *arg);

#endif
