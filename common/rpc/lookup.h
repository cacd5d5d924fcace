/*
 * Looks up the addresses of a host name on a separate thread. nng resolves names, and numeric addresses, too, on four
 * threads that the process shares: a few names whose servers do not answer would block all dialing for as long as the C
 * library waits, half a minute or more.
 */
#ifndef REEVE_COMMON_RPC_LOOKUP_H
#define REEVE_COMMON_RPC_LOOKUP_H

#include <stdbool.h>

struct lookup;

enum { LOOKUP_ADDRESSES_MAX = 8, LOOKUP_ADDRESS_BYTES = 64 };

/* Returns true if the host is a numeric address. Does not block. */
bool lookup_numeric(const char *host);

/* Starts a lookup. `done` is called once, on the lookup's thread, unless lookup_free comes first. Returns NULL without
 * memory or a thread. */
struct lookup *lookup_start(const char *host, void (*done)(void *arg), void *arg);

/* After `done`: returns the i-th address in numeric form, in the order in which to try them; NULL if there are no
 * more. */
const char *lookup_address(const struct lookup *lookup, int i);

/* Frees the lookup at any time, without waiting for the name servers: afterwards `done` has returned, or is never
 * called. Do not call it from `done`, or with a lock held that `done` takes. */
void lookup_free(struct lookup *lookup);

#endif
