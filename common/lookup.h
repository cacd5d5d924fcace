/*
 * The addresses of host names. A lookup blocks for as long as the name servers take, half a minute or more if they do
 * not answer. lookup_start does it on a separate thread: nng resolves names, and numeric addresses, too, on four
 * threads that the process shares, so that a few such names would block all dialing.
 */
#ifndef REEVE_COMMON_LOOKUP_H
#define REEVE_COMMON_LOOKUP_H

#include "common/error.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { LOOKUP_ADDRESSES_MAX = 8, LOOKUP_ADDRESS_BYTES = 64 };

struct lookup_address {
	struct sockaddr_storage socket;
	socklen_t length;
	char text[LOOKUP_ADDRESS_BYTES]; /* "127.0.0.1", "::1" */
};

/* The addresses of a name, in the order in which to try them. */
struct lookup_addresses {
	int count;
	struct lookup_address list[LOOKUP_ADDRESSES_MAX];
};

/* Returns true if the host is a numeric address. Does not block. */
bool lookup_numeric(const char *host);

/* Looks up a host; an empty one stands for all IPv4 addresses of this machine. `port` is a number or the name of a
 * service, for the sockets' addresses; it may be NULL. Returns false with *error set ("cannot look up "db": …", or
 * INVALID_ARGUMENT: the port) if it found no address. Blocks. Any thread. */
bool lookup_now(const char *host, const char *port, struct lookup_addresses *found, struct reeve_error *error);

struct lookup;

/* Starts a lookup. `done` is called once, on the lookup's thread, unless lookup_free comes first. Returns NULL if no
 * thread can be started. */
struct lookup *lookup_start(const char *host, void (*done)(void *arg), void *arg);

/* After `done`: returns what was found, with a count of 0 if nothing was. */
const struct lookup_addresses *lookup_found(const struct lookup *lookup);

/* Frees the lookup at any time, without waiting for the name servers: afterwards `done` has returned, or is never
 * called. Do not call it from `done`, or with a lock held that `done` takes. */
void lookup_free(struct lookup *lookup);

#endif
