/*
 * HTTP POSTs on an event loop, which they never block: libcurl's multi interface, driven by the loop's events. libcurl
 * looks up names on its own threads.
 *
 * Only the status of an answer is used; its body is read up to a limit and discarded. Redirects are not followed.
 * Certificates are verified. Not thread-safe: all calls must come from the loop's thread.
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
	int64_t timeout_ms;  /* of a call, from its start to the end of the answer */
	const char *ca_file; /* certificates to trust, PEM; NULL: the system's */
	int connections;     /* maximum kept open for later calls */
	bool private;        /* calls may go to addresses that are not of the Internet (address.h) */
};

struct http_answer {
	int status;             /* HTTP status; 0: no answer */
	const char *problem;    /* why there was no answer, for people; "" if there was one. Valid until `done` returns */
	int64_t retry_after_ms; /* the answer's Retry-After; 0: none */
};

typedef void http_done(void *arg, const struct http_answer *answer);

/* Creates a client. Copies the options, except the string ca_file. Returns NULL with *error. */
struct http *http_create(struct event_base *base, const struct http_options *options, struct reeve_error *error);

/* Ends all calls without calling `done`, and frees the client. Does not block. `http` may be NULL. */
void http_destroy(struct http *http);

/* Starts a call. `headers` is a list of "Name: value" that ends with NULL. The URL, headers and body are copied.
 * `done` is called once, from the loop, never from within this function. The call is freed when it returns. */
void http_post(struct http *http, const char *url, const char *const *headers, const char *body, size_t length,
    http_done *done, void *arg);

#endif
