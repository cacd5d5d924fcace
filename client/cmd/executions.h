/* `reeve stats --by`: counts of ended attempts. */
#ifndef REEVE_CLIENT_EXECUTIONS_H
#define REEVE_CLIENT_EXECUTIONS_H

#include <reeve/client.h>

/* Reads and prints the counts. Returns the exit code, after an error message if it failed. */
int executions_show(struct reeve_client *client, const struct reeve_executions_query *query, bool json);

#endif
