/*
 * One attempt of a task, from its assignment until a manager acknowledges its result.
 *
 * An attempt is always in exactly one place: it waits for a slot, is in a slot's batch, has a result that waits to be
 * reported, or has a result in a report in flight. Places and links change under the worker's lock. The slot that has
 * the attempt writes the outcome without the lock. `stop` may be set at any time.
 */
#ifndef REEVE_WORKER_ATTEMPT_H
#define REEVE_WORKER_ATTEMPT_H

#include "common/credential.h"
#include "common/hash.h"
#include "worker/include/reeve/worker.h"

#include <pthread.h>
#include <reeve/v1/worker.pb-c.h>
#include <stdatomic.h>
#include <stddef.h>

struct extensions;
struct handler;
struct lease;
struct news;
struct progress;

enum attempt_place {
	PLACE_READY,    /* waits to be started */
	PLACE_TAKEN,    /* in a slot's batch: running, about to run, or just ended */
	PLACE_UNACKED,  /* its result waits to be reported */
	PLACE_REPORTED, /* its result is in a report in flight, or waits for its delay before it is reported again */
};

/* The error code of an attempt whose handler declined the task. */
#define ATTEMPT_SKIPPED "skipped"

/* Why a handler must stop before it has finished. */
enum stop_reason {
	STOP_NONE,
	STOP_CANCEL,  /* a worker command cancels the attempt */
	STOP_DRAIN,   /* the worker is stopping */
	STOP_LEASE,   /* the worker's lease is about to end */
	STOP_LOST,    /* the incarnation was lost: another worker may have the attempt now */
	STOP_ABANDON, /* the attempt is no longer ours: nothing is reported */
};

/* The outcome set by a handler. Strings are owned; NULL: not set. */
struct reeve_outcome {
	Reeve__V1__Outcome kind; /* UNSPECIFIED: not set yet */
	char *result;            /* followed by a NUL */
	size_t result_length;
	char *error;
	char *code;
	char *remark; /* this and the next three fields are kept when the outcome is replaced */
	char *stack_trace;
	char *stage;         /* the stage that follows if the attempt completes */
	int64_t retry_in_ms; /* 0: the task's retry policy decides */
};

/* Identifies an attempt. */
struct attempt_key {
	int64_t task_id;
	int64_t token;
};

struct attempt {
	struct reeve_attempt public; /* first, so that each can be found from the other */
	struct attempt_key key;
	UT_hash_handle hh;           /* in the table of attempts in flight, by key */
	struct attempt *prev, *next; /* in the list of its place */
	enum attempt_place place;
	_Atomic int stop; /* enum stop_reason */

	Reeve__V1__Assignment *assignment; /* owned; has the strings of `public` */
	struct handler *handler;           /* the attempt keeps a reference; NULL: no handler for this type */
	size_t max_result_bytes;
	const char *result_store; /* the directory for longer results; NULL: none, or it has not run */
	struct credential_signer signer;
	const struct lease *lease;     /* the worker's */
	pthread_mutex_t *lock;         /* the worker's; NULL until in_flight_receive, like the next one */
	struct extensions *extensions; /* for reeve_attempt_extend */

	/* In milliseconds on the monotonic clock. */
	_Atomic int64_t expires_ms;    /* when the manager reclaims the attempt; INT64_MAX: never */
	bool roomy;                    /* on arrival, the full timeout fitted in before the expiry */
	int64_t timeout_ms;            /* how long it may run, also limited by the handler's timeout; INT64_MAX: no limit */
	int64_t started_ms;            /* when it started to run */
	_Atomic int64_t timeout_at_ms; /* when it times out; INT64_MAX until it runs */
	bool refusal_logged;           /* a refused extension has been logged */
	_Atomic bool extending;        /* a manager has been asked for an extension (extensions.h) */

	int event_fd;     /* while taken, the eventfd of its slot (handler_context); −1: none */
	uint64_t group;   /* once sealed: never shares a report with another group's results; 0: no group (unacked.h) */
	bool refused;     /* the manager called its result invalid; `result` is the replacement */
	int64_t later_ms; /* the delay before a result with the ack LATER is reported again, */
	int64_t later_until_ms; /* and the time when that delay ends */

	_Atomic(struct news *) news; /* what its handler has reported; owned; NULL: nothing yet */
	struct progress *progress;   /* sends it; NULL until in_flight_receive */

	struct reeve_outcome outcome;
	Reeve__V1__Result result; /* the reported message; complete once it waits to be reported */
	size_t result_bytes;      /* its approximate size in a message */
};

/* Creates an attempt from an assignment and takes ownership of it. The assignment was claimed at `claimed_ms` or later,
 * and arrived at `now_ms`. Never returns NULL. This and attempt_free change the handler's reference count: call them
 * under the worker's lock once the worker runs. */
struct attempt *attempt_create(Reeve__V1__Assignment *assignment, struct handler *handler, const struct lease *lease,
    size_t max_result_bytes, int64_t claimed_ms, int64_t now_ms);

/* Frees the attempt. NULL is allowed. */
void attempt_free(struct attempt *attempt);

/* Requests the attempt to stop. The first reason stays, except that STOP_LOST and STOP_ABANDON override the ones before
 * them. Returns true if the reason was set. */
bool attempt_stop(struct attempt *attempt, enum stop_reason reason);

/* Returns from when on the attempt has waited here so long that its handler might not finish before it expires;
 * INT64_MAX: never. From then on it must be returned instead of started. */
int64_t attempt_stale_ms(const struct attempt *attempt);

/* Sets the outcome of such an attempt. */
void attempt_end_stale(struct attempt *attempt);

/* Returns the latest time at which a handler of the attempt may still run. */
int64_t attempt_last_moment(const struct attempt *attempt);

/* Completes the attempt with a result on the heap, which it takes; it need not be text, and has space for a NUL behind
 * it. NULL: an empty one. */
void attempt_complete(struct attempt *attempt, char *result, size_t length);

/* Sets the outcome, replacing the handler's. `format` and the arguments are the error; `code` may be NULL. */
void attempt_end(struct attempt *attempt, Reeve__V1__Outcome kind, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets the outcome of an attempt that was stopped for this reason, replacing the handler's. */
void attempt_end_stopped(struct attempt *attempt, enum stop_reason reason);

/* Sets the outcome of an attempt that timed out; `message` is the handler's, or "". */
void attempt_end_late(struct attempt *attempt, const char *message);

/* Returns the estimated cost of the attempt, in microseconds. */
int attempt_cost(const struct attempt *attempt);

/* Wakes the slot that has the attempt, because its `stop` has changed or its extension was answered. Called with the
 * worker's lock. */
void attempt_notify(const struct attempt *attempt);

/* Fills in `result` from the outcome and the news. Encodes a binary result, and cuts and repairs other strings; if the
 * result is too long and there is no store, or the stage is not a valid name, the attempt ends with a fatal error
 * instead. */
void attempt_seal(struct attempt *attempt, int64_t run_ms);

/* Returns the variables of the attempt for a program's environment, "NAME=VALUE", NULL at the end. The caller frees
 * each and the array. */
char **attempt_environment(const struct attempt *attempt);

/* Writes "task 12/3" (id/attempt) into `out` and returns it: the object of a log line. */
const char *attempt_name(const struct attempt *attempt, char out[48]);

#endif
