/* What the tests of the server share: plain sockets, and a client that must not notice what other clients do. */
#ifndef REEVE_TESTS_SERVER_SUPPORT_H
#define REEVE_TESTS_SERVER_SUPPORT_H

#include "fake_manager.h"

#include <nng/nng.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A request of the contract's current version. */
#define REQUEST_INIT                                                                                                   \
	{                                                                                                                  \
		.base = PROTOBUF_C_MESSAGE_INIT(&reeve__v1__request__descriptor), .method = "", .token = "", .actor = "",      \
		.contract = REEVE__V1__CONTRACT__CONTRACT_CURRENT                                                              \
	}

/* The hello of a REQ socket: 8 bytes. */
extern const char handshake[];

/* A client that makes calls, one at a time and with short pauses, until it is stopped. */
struct innocent {
	struct rpc_client *client;
	pthread_t thread;
	atomic_bool stop;
	atomic_int calls;
	int failures, resends;
	int64_t slowest_ms;
};

int port_of(const char *url);

/* Connects a plain TCP socket; dial_from: of the address 127.0.0.`host`. */
int dial_bare(int port);
int dial_from(int port, int host);

/* Connects a plain nng socket. */
nng_socket dial_req(const char *url);

/* Sends bytes as one request and reads the reply's code and message. */
uint32_t exchange(nng_socket socket, const void *bytes, size_t length, char message[512]);

void innocent_start(struct innocent *innocent, const char *url);

/* Lets the client make more than ten calls and stops it. All its calls must have succeeded, each sent once. */
void innocent_unharmed(struct innocent *innocent);

/* Answers all parked Waits, in one run of the loop. */
void answer_all(struct fake_manager *manager, void *arg);

void count_open(struct fake_manager *manager, void *arg);

/* Writes a request's frame and returns the position after it. */
uint8_t *write_frame(uint8_t *out, uint32_t id, const char *method, const ProtobufCMessage *body);

/* Reads a reply's frame and returns its id. */
uint32_t read_frame(int fd);

/* Writes, ignoring whether the peer still reads. */
void push(int fd, const void *bytes, size_t length);

/* Connects a plain socket and exchanges the hello. */
int dial_greeted(int port);

/* The same from the address 127.0.0.`host`. */
int dial_greeted_from(int port, int host);

/* Sends `count` equal calls on a plain socket. */
void ask(int fd, int count, const char *method, const ProtobufCMessage *body);

void count_connections(struct fake_manager *manager, void *arg);

void await_connections(struct fake_manager *manager, int number);

void check_memory(struct fake_manager *manager, void *arg);

/* Starts so many such Waits, and waits until each is parked at the manager or has been answered. */
void open_waits(struct fake_manager *manager, struct rpc_client *client, Reeve__V1__WaitRequest *request,
    struct fake_result *results, int calls);

#endif
