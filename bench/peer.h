/*
 * A connection to a manager that carries any number of calls, on a libevent loop. One thread can have thousands of
 * them; Reeve's own client, with its threads and pings, is not made for that.
 */
#ifndef REEVE_BENCH_PEER_H
#define REEVE_BENCH_PEER_H

#include <event2/event.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;

/* Receives an answer: the status code, and the response's bytes if it is 0, else those of the error message. They are
 * valid during the call. */
typedef void peer_done(void *arg, uint32_t code, const uint8_t *bytes, size_t length);

/* Called once when the connection has ended unexpectedly, with the reason. Its open calls are not answered. */
typedef void peer_ended(void *arg, const char *why);

/* Starts to connect to an address like tcp://127.0.0.1:7171 or tls+tcp://127.0.0.1:7171 (stream.h). Gives up if the
 * address is invalid. */
struct peer *peer_connect(struct event_base *base, const char *url, peer_ended *ended, void *arg);

/* Sends a call of a method ("/reeve.v1.WorkerService/Fetch"). */
void peer_call(struct peer *peer, const char *method, const ProtobufCMessage *request, peer_done *done, void *arg);

/* Returns when the last answer came, in terms of now_ns(); 0: none has. */
int64_t peer_heard_ns(const struct peer *peer);

/* Closes the connection; open calls are not answered. Do not call it from a callback of this peer. */
void peer_close(struct peer *peer);

#endif
