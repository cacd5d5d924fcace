/*
 * Internals of libreeve, on top of common/rpc/client.h. call.c makes calls, blocking and in flight, and ends them when
 * the client is interrupted; client.c creates clients and makes the first contact; the other files are the public
 * functions by group.
 */
#ifndef REEVE_CLIENT_INTERNAL_H
#define REEVE_CLIENT_INTERNAL_H

#include "common/rpc/client.h"

#include <pthread.h>
#include <reeve/client.h>
#include <reeve/v1/task_calls.h>
#include <reeve/v1/worker_calls.h>
#include <stdatomic.h>

struct reeve_client {
	struct rpc_client *rpc;
	char *managers;
	int64_t connect_timeout_ms;
	int64_t call_timeout_ms;
	atomic_bool met; /* a manager has been reached */
	void (*absent)(void *arg, bool back);
	void *absent_arg;
	void (*refused)(void *arg, const char *message);
	void (*waiting)(void *arg, const char *message);
	pthread_mutex_t lock;
	/* Protected by `lock`. */
	bool interrupted;
	pthread_cond_t interrupt; /* on the monotonic clock */
	int64_t absent_ms;        /* since when no manager is reachable; 0: one is */
	bool absent_notified;
	int64_t refused_ms; /* since when calls have been refused; 0: the last one was not */
	bool refused_notified;
	int64_t waiting_ms; /* since when a call waits for a manager that cannot answer; 0: none does */
	bool waiting_notified;
	struct pending_call *calls; /* in flight */
};

/* A call in flight. */
struct pending_call {
	struct reeve_client *client;
	rpc_call_id id;
	bool done;
	pthread_cond_t changed;
	struct rpc_answer answer;
	struct pending_call *prev, *next;
};

#define TASK_STATUS(name) REEVE__V1__TASK_STATUS__TASK_STATUS_##name

/* The interval at which waiting functions check for a manager. */
enum { POLL_MS = 100 };

/* Records whether a manager is reachable, and notifies the program if it has set a callback. Call without the lock. */
void client_poll(struct reeve_client *client, bool there);

/* Sets *failure (NULL is allowed) and returns false. */
bool fail(struct reeve_failure *failure, reeve_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts a call. The request may be freed at once. `call` must not be moved until pending_end has ended it. */
void pending_start(struct pending_call *call, struct reeve_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const uint8_t *request_id, int64_t timeout_ms);

/* Waits for the answer and removes the call. The caller then owns the answer. */
struct rpc_answer pending_end(struct pending_call *call);

/* Returns true if the same call can be repeated shortly after this answer. Records refusals, and notifies the program
 * if they continue for long and it has set a callback. */
bool worth_another_try(struct reeve_client *client, const struct rpc_answer *answer);

/* Returns the delay before the n-th retry (from 0), with a random part. */
int64_t retry_pause_ms(int tries);

/* Waits; returns false if the client was interrupted. */
bool client_pause(struct reeve_client *client, int64_t ms);

/* Makes a call and waits for its answer; retries where that helps. `request_id` NULL: creates one; timeout_ms 0: the
 * client's. Returns NULL with *failure set on an error. */
ProtobufCMessage *client_call(struct reeve_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const uint8_t *request_id, int64_t timeout_ms,
    struct reeve_failure *failure);

/* Sets the type of a message and of those that it points to, where the caller has not. */
void message_complete(void *message, const ProtobufCMessageDescriptor *descriptor);

#endif
