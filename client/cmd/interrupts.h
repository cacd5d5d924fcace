/* Ctrl-C, and being asked to end, while a subcommand has calls under way. */
#ifndef REEVE_CLIENT_INTERRUPTS_H
#define REEVE_CLIENT_INTERRUPTS_H

#include <reeve/client.h>
#include <stdbool.h>

/* Takes SIGINT and SIGTERM into our own hands; until a client is watched they still end the process. Called before the
 * client is created, whose threads inherit it. */
void interrupts_hold(void);

/* From now on such a signal interrupts the client; with `gently` only the second does, and the first is to be noticed
 * by interrupts_asked(). `client` NULL: they end the process again. Called by the main thread. */
void interrupts_watch(struct reeve_client *client, bool gently);

/* True once a signal has come. */
bool interrupts_asked(void);

#endif
