/*
 * The inside of libreeve, over common/rpc/client.h. call.c makes calls, blocking and under way, and ends them when the
 * client is interrupted; client.c is creation and the first contact; check.c judges tasks and batch.c packs them;
 * the other files are the public functions by group.
 */
#ifndef REEVE_CLIENT_INTERNAL_H
#define REEVE_CLIENT_INTERNAL_H

#include "common/rpc/client.h"

#include <pthread.h>
#include <reeve/client.h>
#include <reeve/v1/admin.pb-c.h>
#include <reeve/v1/batch.pb-c.h>
#include <reeve/v1/pipeline.pb-c.h>
#include <reeve/v1/metric.pb-c.h>
#include <reeve/v1/queue.pb-c.h>
#include <reeve/v1/schedule.pb-c.h>
#include <reeve/v1/task.pb-c.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdatomic.h>

struct reeve_client {
	struct rpc_client *rpc;
	char *managers;
	int64_t connect_timeout_ms;
	int64_t call_timeout_ms;
	atomic_bool met; /* some manager has been there */
	void (*absent)(void *arg, bool back);
	void *absent_arg;
	void (*refused)(void *arg, const char *message);
	void (*waiting)(void *arg, const char *message);
	pthread_mutex_t lock;
	/* Behind the lock. */
	bool interrupted;
	pthread_cond_t interrupt;   /* on the monotonic clock */
	int64_t absent_ms;          /* since when no manager has been there, 0: one is */
	bool absent_told;
	int64_t refused_ms;         /* since when calls have been refused for now, 0: the last one was not */
	bool refused_told;
	int64_t waiting_ms;         /* since when a call waits for a manager that cannot answer it, 0: none does */
	bool waiting_told;
	struct pending_call *calls; /* under way */
};

/* A call under way. */
struct pending_call {
	struct reeve_client *client;
	rpc_call_id id;
	bool done;
	pthread_cond_t changed;
	struct rpc_answer answer;
	struct pending_call *prev, *next;
};

/* How often who waits looks whether there is a manager. */
enum { LOOK_MS = 100 };

/* Notes whether some manager is there, and tells the program if it wants to know. Without the lock. */
void client_look(struct reeve_client *client, bool there);

/* Fills *failure (which may be NULL) and returns false. */
bool fail(struct reeve_failure *failure, reeve_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts a call; its request may go at once. It must be ended by pending_end. `call` must not move meanwhile. */
void pending_start(struct pending_call *call, struct reeve_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const uint8_t *request_id, int64_t timeout_ms);

/* Waits for the answer, which is the caller's from then on, and lets go of the call. */
struct rpc_answer pending_end(struct pending_call *call);

/* Whether the same call may be made again shortly after this answer. Notes it, and tells the program if it goes on for long and the
 * program wants to know. */
bool worth_another_try(struct reeve_client *client, const struct rpc_answer *answer);

/* How long to rest before the n-th further try (from 0), with a random part. */
int64_t rest_ms(int tries);

/* Rests; false if the client was interrupted. */
bool client_rest(struct reeve_client *client, int64_t ms);

/* Makes a call and waits for its answer; tries again where that helps. `request_id` NULL: one is made; timeout_ms 0:
 * the client's. NULL: *failure says why. */
ProtobufCMessage *client_call(struct reeve_client *client, const ProtobufCServiceDescriptor *service,
    const char *method, ProtobufCMessage *request, const uint8_t *request_id, int64_t timeout_ms,
    struct reeve_failure *failure);

/* Says what is wrong with a task, as "details is not UTF-8", into `out`; NULL if nothing is. max_details 0: not
 * known. */
const char *spec_problem(const struct reeve_task_spec *spec, size_t max_details, char *out, size_t size);

/* The length of the task's details. */
size_t spec_details_length(const struct reeve_task_spec *spec);

/* Fills in what is public of a task; its text points into the message. */
void task_from_message(struct reeve_task *task, const Reeve__V1__Task *message);
struct reeve_waiting waiting_from_message(const Reeve__V1__Waiting *message);

/* Leaves a text out of the message's JSON if the manager did not send it: of what is not sent, "" would say that it is empty. */
void leave_out(char **text);

/* Fills a message, which then points to the policy's delays: not to be freed as an unpacked one. */
void policy_to_message(Reeve__V1__RetryPolicy *message, const struct reeve_retry_policy *policy);

/* The other way round; its delays are the message's. */
void policy_from_message(struct reeve_retry_policy *policy, const Reeve__V1__RetryPolicy *message);

/* A filter as a message; its text is the filter's, and it must not be moved. */
struct where_message {
	Reeve__V1__TaskFilter filter;
	Reeve__V1__TaskStatus statuses[8];
};
void where_to_message(struct where_message *message, const struct reeve_where *where);

/* Fill in what is public of a worker and of a batch; their text points into the messages. */
void worker_from_message(struct reeve_worker_info *worker, const Reeve__V1__Worker *message);
void batch_from_message(struct reeve_batch *batch, const Reeve__V1__Batch *message);

/* Answers of the pages of a list, which its items lead to. */
struct pages {
	ProtobufCMessage **pages;
	size_t count;
};

/* Keeps an answer; returns it. */
void *pages_add(struct pages *pages, void *page);

/* Frees all of them. */
void pages_free(struct pages *pages);

/* Appends pointers to messages to a list of them, which may be NULL; returns the list, to be freed with free(). */
void *gather(void *list, size_t *count, void *more, size_t n_more);

/* Sorts a list of pointers (`compare` gets pointers to them) and adds those that are equal up: `add` adds to the first of them what
 * another has. Returns how many are left. */
size_t add_up(
    void *list, size_t count, int (*compare)(const void *a, const void *b), void (*add)(void *to, void *more));

/* calloc() that does not fail. */
void *allocate(size_t count, size_t size);

#endif
