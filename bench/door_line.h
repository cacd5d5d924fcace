/* A connection to a manager by HTTP, on a libevent loop, with one call at a time: for bench-doors. */
#ifndef REEVE_BENCH_DOOR_LINE_H
#define REEVE_BENCH_DOOR_LINE_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

enum door_kind { DOOR_JSON, DOOR_BINARY, DOOR_GRPC }; /* Connect by HTTP/1.1 with either content, and gRPC by HTTP/2 */

struct door_line;

/* Receives the content of an answer without an error. It is valid during the call. Others end the program. */
typedef void door_done(void *arg, const uint8_t *bytes, size_t length);

/* Starts to connect to an address like http://127.0.0.1:7172. Gives up if it is invalid. */
struct door_line *door_connect(struct event_base *base, const char *url, enum door_kind kind);

/* Sends a call of a method ("/reeve.v1.TaskService/Submit") whose content is JSON or protobuf's bytes. */
void door_call(
    struct door_line *line, const char *method, const void *bytes, size_t length, door_done *done, void *arg);

/* Closes the connection; an open call is not answered. Do not call it from a callback. */
void door_close(struct door_line *line);

#endif
