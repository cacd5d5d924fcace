/* `reeve stats --by`: how attempts went. */
#ifndef REEVE_CLIENT_EXECUTIONS_H
#define REEVE_CLIENT_EXECUTIONS_H

#include <reeve/client.h>

/* Reads and prints them. Returns the exit code; the user was told of a failure. */
int executions_show(struct reeve_client *client, const struct reeve_executions_query *query, bool json);

#endif
