/*
 * Resolves host names in a thread per request, and returns the answer on the loop. libpq's PQconnectPoll would do it
 * synchronously and block the loop.
 */
#ifndef REEVE_MANAGER_STORE_RESOLVE_H
#define REEVE_MANAGER_STORE_RESOLVE_H

#include <event2/event.h>

struct resolve;

/* Receives the answer: `hosts` and `addresses` for libpq's host and hostaddr, with the same number of elements: all
 * addresses of a single name (up to a limit), or the first address of each of several. If resolving failed,
 * `addresses` is NULL, and `problem` has the reason. The strings are valid only during the call; the resolve is
 * freed afterwards. */
typedef void resolve_done(void *arg, const char *hosts, const char *addresses, const char *problem);

/* Starts resolving a comma-separated list of host names. */
struct resolve *resolve_start(struct event_base *base, const char *hosts, resolve_done *done, void *arg);

/* Abandons the resolve: `done` is not called any more. */
void resolve_cancel(struct resolve *resolve);

#endif
