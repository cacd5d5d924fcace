/* A connection to a manager by HTTP, on a libevent loop, with one call at a time: for bench-doors. */
#ifndef REEVE_BENCH_HTTP_LINE_H
#define REEVE_BENCH_HTTP_LINE_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

enum http_line_kind {
	HTTP_LINE_JSON,
	HTTP_LINE_BINARY,
	HTTP_LINE_GRPC
}; /* Connect by HTTP/1.1 with either content, and gRPC by HTTP/2 */

struct http_line;

/* Receives the content of an answer without an error. It is valid during the call. Others end the program. */
typedef void http_line_done(void *arg, const uint8_t *bytes, size_t length);

/* Starts to connect to an address like http://127.0.0.1:7172 or tls+http://127.0.0.1:7172 (stream.h). Gives up if it is
 * invalid. */
struct http_line *http_line_connect(struct event_base *base, const char *url, enum http_line_kind kind);

/* Sends a call of a method ("/reeve.v1.TaskService/Submit") whose content is JSON or protobuf's bytes. */
void http_line_call(
    struct http_line *line, const char *method, const void *bytes, size_t length, http_line_done *done, void *arg);

/* Closes the connection; an open call is not answered. Do not call it from a callback. */
void http_line_close(struct http_line *line);

#endif
