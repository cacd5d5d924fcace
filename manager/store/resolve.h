/*
 * Resolves host names off the loop: libpq's PQconnectPoll would do it synchronously and stop everything meanwhile. One
 * thread a question; the answer comes on the loop.
 */
#ifndef REEVE_MANAGER_STORE_RESOLVE_H
#define REEVE_MANAGER_STORE_RESOLVE_H

#include <event2/event.h>

struct resolve;

/* `hosts` and `addresses` are what libpq takes as host and hostaddr, as many of one as of the other: all addresses of a
 * single name, the first of each of several. Or NULL with a sentence in `problem`. They live only during the call; the
 * resolve is gone afterwards. */
typedef void resolve_done(void *arg, const char *hosts, const char *addresses, const char *problem);

/* Starts resolving a comma-separated list of host names. */
struct resolve *resolve_start(struct event_base *base, const char *hosts, resolve_done *done, void *arg);

/* Gives it up: `done` is not called any more. */
void resolve_cancel(struct resolve *resolve);

#endif
