/* A connection to a manager, with TLS or without. */
#ifndef REEVE_BENCH_STREAM_H
#define REEVE_BENCH_STREAM_H

#include <event2/bufferevent.h>
#include <event2/event.h>

/* Starts to connect to URL, which begins with `plain` ("tcp://") or, for TLS, with `secure` ("tls+tcp://"), and goes on
 * with an address and a port. With TLS the connection is for this protocol ("h2"; NULL: none is named), and has the
 * certificate of the files that REEVE_TLS_CA, REEVE_TLS_CERT and REEVE_TLS_KEY name. Gives up if it cannot. */
struct bufferevent *stream_connect(
    struct event_base *base, const char *url, const char *plain, const char *secure, const char *protocol);

#endif
