/*
 * The addresses of a host name, found on a thread of its own. nng resolves names, and numeric addresses with them, on four
 * threads that the whole process shares: a few names whose servers do not answer would hold up all dialling for as long as
 * the C library is patient, half a minute and more.
 */
#ifndef REEVE_COMMON_RPC_LOOKUP_H
#define REEVE_COMMON_RPC_LOOKUP_H

#include <stdbool.h>

struct lookup;

enum { LOOKUP_ADDRESSES_MOST = 8, LOOKUP_ADDRESS_BYTES = 64 };

/* True if the host is an address already. Does not block. */
bool lookup_numeric(const char *host);

/* Begins to look a name up. `done` is called once, on the lookup's thread, unless lookup_free comes first. NULL: no memory,
 * or no thread. */
struct lookup *lookup_start(const char *host, void (*done)(void *arg), void *arg);

/* After `done`: the i-th address in numbers, in the order in which they should be tried; NULL: there is none. */
const char *lookup_address(const struct lookup *lookup, int i);

/* Frees it, at any time, without waiting for the name servers: `done` is not called any more, or has returned. Not from
 * `done`, nor with a lock held that it takes. */
void lookup_free(struct lookup *lookup);

#endif
