/*
 * HTTP POSTs on an event loop, which they never block: libcurl's multi interface, woken by the loop's events. Names are
 * looked up on threads of libcurl's own.
 *
 * An answer's status decides; its body is read up to a bound and thrown away. Redirects are not followed. Certificates are
 * verified. One thread; nothing here is thread-safe.
 */
#ifndef REEVE_MANAGER_CALLBACKS_HTTP_H
#define REEVE_MANAGER_CALLBACKS_HTTP_H

#include "common/error.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http;
struct http_post;

struct http_options {
	int64_t timeout_ms;  /* of a call, from its begin to the end of the answer */
	const char *ca_file; /* certificates to trust, PEM; NULL: the system's */
	int connections;     /* kept open for later calls */
};

struct http_answer {
	int status;          /* of HTTP; 0: there was no answer */
	const char *problem; /* why not, for people; "" if there was one. Valid during the call */
	int64_t retry_after_ms; /* what the answer asked for; 0: nothing */
};

typedef void http_done(void *arg, const struct http_answer *answer);

/* Makes the calling side; the options are copied, ca_file is not. NULL: *error says why. */
struct http *http_create(struct event_base *base, const struct http_options *options, struct reeve_error *error);

/* Ends all calls without calling `done`, and frees everything. Waits for nobody. NULL is allowed. */
void http_destroy(struct http *http);

/* Begins a call. `headers` is a list of "Name: value" that ends with NULL; everything is copied. `done` is called once,
 * from the loop, never from within; the post is gone when it returns. */
void http_post(struct http *http, const char *url, const char *const *headers, const char *body, size_t length,
    http_done *done, void *arg);

#endif
