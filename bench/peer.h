/*
 * A connection to a manager that carries any number of calls, on a libevent loop: thousands of them fit into one thread,
 * which Reeve's own client with its threads and pings is not made for.
 */
#ifndef REEVE_BENCH_PEER_H
#define REEVE_BENCH_PEER_H

#include <event2/event.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;

/* An answer: the status code, and the response's bytes if it is 0, else the message's. They live during the call. */
typedef void peer_done(void *arg, uint32_t code, const uint8_t *bytes, size_t length);

/* Told once, when the connection has ended by itself, and why; its calls are not answered. */
typedef void peer_ended(void *arg, const char *why);

/* Begins to connect to an address of the form tcp://127.0.0.1:7171. Gives up if it is none. */
struct peer *peer_connect(struct event_base *base, const char *url, peer_ended *ended, void *arg);

/* Sends a call of a method ("/reeve.v1.WorkerService/Fetch"). */
void peer_call(struct peer *peer, const char *method, const ProtobufCMessage *request, peer_done *done, void *arg);

/* When an answer came last, as now_ns() tells; 0: none has. */
int64_t peer_heard_ns(const struct peer *peer);

/* Closes it; calls that are open are not answered. Not from a callback of this peer. */
void peer_close(struct peer *peer);

#endif
