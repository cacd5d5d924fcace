/* SIGINT (Ctrl-C) and SIGTERM while a command has calls in flight. */
#ifndef REEVE_CLIENT_INTERRUPTS_H
#define REEVE_CLIENT_INTERRUPTS_H

#include <reeve/client.h>
#include <stdbool.h>

/* Takes over SIGINT and SIGTERM; until a client is watched they still end the process. Must be called before the client
 * is created, because its threads inherit the signal mask. */
void interrupts_hold(void);

/* Makes these signals interrupt the client; with `gently` only the second one does, and interrupts_asked() reports the
 * first. `client` NULL: they end the process again. Called by the main thread. */
void interrupts_watch(struct reeve_client *client, bool gently);

/* Returns true after a signal has arrived. */
bool interrupts_asked(void);

#endif
