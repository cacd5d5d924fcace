/*
 * One attempt at a task, from the assignment to the manager's verdict on its result.
 *
 * An attempt is always in one place: ready (waits for a slot), taken (a slot has it), in the outbox, or in a report
 * that is under way. Places and links change under the worker's lock; the outcome is written by the slot that has the
 * attempt, without it; `stop` may be set at any time.
 */
#ifndef REEVE_WORKER_ATTEMPT_H
#define REEVE_WORKER_ATTEMPT_H

#include "common/hash.h"
#include "worker/include/reeve/worker.h"

#include <reeve/v1/worker.pb-c.h>
#include <stdatomic.h>
#include <stddef.h>

struct handler;
struct lease;
struct reeve_worker;
struct slot;

enum attempt_place {
	PLACE_READY,    /* in the queue of those to be started */
	PLACE_TAKEN,    /* in a slot's batch: running, about to run, or just ended */
	PLACE_OUTBOX,   /* has a result that waits to be reported */
	PLACE_REPORTED, /* its result is in a report that has not been answered, or rests before it goes into the next */
};

/* Why a handler is to stop before it has ended by itself. */
enum stop_reason {
	STOP_NONE,
	STOP_CANCEL,  /* a cancel was ordered */
	STOP_DRAIN,   /* the worker stops */
	STOP_LEASE,   /* the worker's lease is about to end */
	STOP_LOST,    /* the incarnation was lost: somebody else may have the attempt by now */
	STOP_ABANDON, /* it is not ours any more: nothing is to be reported */
};

/* What a handler says. The texts are owned, NULL for none. */
struct reeve_outcome {
	Reeve__V1__Outcome kind; /* UNSPECIFIED: nothing said yet */
	char *result;
	char *error;
	char *code;
	char *remark; /* these four stay whatever becomes of the attempt */
	char *stack;
	char *stage; /* that is to follow if it completes */
	int64_t retry_in_ms; /* 0: as the task's policy says */
};

/* Its name. */
struct attempt_key {
	int64_t task_id;
	int64_t token;
};

struct attempt {
	struct reeve_attempt public; /* first, so that the one is found from the other */
	struct attempt_key key;
	Reeve__V1__Assignment *assignment; /* owned: the texts of `public` are its */
	struct handler *handler;           /* kept as long as the attempt; NULL: there is none for this type */
	size_t max_result_bytes;
	const struct lease *lease;   /* the worker's */
	struct reeve_worker *worker; /* once it is held */

	/* On the monotonic clock, milliseconds. */
	_Atomic int64_t expires_ms;    /* the manager takes the attempt back; INT64_MAX: never */
	bool roomy;                    /* on arrival there was time for the whole time-out before that */
	int64_t timeout_ms;            /* how long it may run, after its handler's own limit; INT64_MAX: no limit */
	int64_t started_ms;            /* when it began to run */
	_Atomic int64_t timeout_at_ms; /* when its time is over; INT64_MAX until it runs */
	bool refusal_logged;           /* more time was refused, once at least */
	_Atomic bool extending;        /* a manager has been asked whether it may run longer (extend.h) */

	_Atomic int stop; /* enum stop_reason */
	enum attempt_place place;
	struct slot *slot; /* while taken */
	uint64_t group;    /* in the outbox: goes in a report with no other group's results; 0: any (outbox.h) */
	bool refused;      /* the manager called its result invalid; this is the one in its place */
	int64_t later_ms;  /* the manager could not judge its result: how long it rests before it is reported again, */
	int64_t later_until_ms; /* and until when */

	/* What its handler has remarked and no manager has got yet (heartbeat.h). Guarded by the worker's lock. */
	char *remark;     /* owned; NULL: nothing */
	bool remark_sent; /* it is in the heartbeat that is under way */

	struct reeve_outcome outcome;
	Reeve__V1__Result result; /* what is reported; complete once in the outbox */
	size_t result_bytes;      /* its size in a message, roughly */

	struct attempt *prev, *next; /* in the list of its place */
	UT_hash_handle hh;           /* in the table of held attempts, by key */
};

/* Makes an attempt of an assignment, which it owns from now on, that was claimed at `claimed_ms` or later. Never NULL. This and
 * attempt_free count the handler's users: under the worker's lock once it runs. */
struct attempt *attempt_create(Reeve__V1__Assignment *assignment, struct handler *handler, const struct lease *lease,
    size_t max_result_bytes, int64_t claimed_ms);

/* Frees it. NULL is allowed. */
void attempt_free(struct attempt *attempt);

/* Asks to stop, unless something else already did (but what was lost or abandoned overrides what was not). True if that
 * is new. */
bool attempt_stop(struct attempt *attempt, enum stop_reason reason);

/* True if so little time is left before the attempt expires, after waiting here, that its handler might not end by
 * itself: it must be given back instead of started. */
bool attempt_stale(const struct attempt *attempt, int64_t now_ms);

/* The last moment at which a handler of the attempt may still run. */
int64_t attempt_last_moment(const struct attempt *attempt);

/* Sets what the attempt ended with, in place of what the handler said. `format` and on is the error; `code` may be
 * NULL. */
void attempt_end(struct attempt *attempt, Reeve__V1__Outcome kind, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Ends an attempt that was stopped for this reason, whatever its handler said. */
void attempt_end_stopped(struct attempt *attempt, enum stop_reason reason);

/* Ends an attempt whose time is over; `said` is what its handler had to say, "" for nothing. */
void attempt_end_late(struct attempt *attempt, const char *said);

/* Completes `result` from the outcome: checks that texts are UTF-8 and not too long; if the result is not, the attempt
 * ends as fatal instead. */
void attempt_seal(struct attempt *attempt, int64_t run_ms);

/* Writes "task 12/3" (id/attempt) into `out` and returns it: whom a log line is about. */
const char *attempt_name(const struct attempt *attempt, char out[48]);

#endif
