/*
 * Extensions: letting an attempt run longer than its timeout. A manager decides; its grant moves the attempt's timeout
 * and expiry, never to an earlier time. reeve_attempt_extend (worker.h) is the blocking version for C functions.
 */
#ifndef REEVE_WORKER_EXTENSIONS_H
#define REEVE_WORKER_EXTENSIONS_H

#include "worker/session.h"

struct extensions {
	struct shared *shared;
	struct session *session;
	struct in_flight *in_flight;

	pthread_mutex_t lock; /* locked while a call is started; taken before the worker's lock if both are */
	bool ended;           /* guarded by it */
};

void extensions_init(
    struct extensions *extensions, struct shared *shared, struct session *session, struct in_flight *in_flight);
void extensions_destroy(struct extensions *extensions);

/* Asks a manager to let the attempt run `run_ms` longer, counted from now. Called by the slot that runs the attempt,
 * and not again until attempt->extending is false; by then the answer, if any, has been applied and the slot notified
 * (attempt_notify). Never blocks. */
void extensions_request(struct attempt *attempt, int64_t run_ms);

/* Prevents further calls, because the client will be destroyed. Called without the lock. */
void extensions_end(struct extensions *extensions);

#endif
