/* Worker commands, which come in the answers to Fetches and heartbeats. A command may come many times, also for an
 * attempt that ended long ago; it is applied if it changes something. */
#ifndef REEVE_WORKER_COMMANDS_H
#define REEVE_WORKER_COMMANDS_H

#include "worker/slots.h"

struct commands {
	struct shared *shared;
	struct life *life;
	struct in_flight *in_flight;
	struct slots *slots;
	struct heartbeat_timer *timer;
	int64_t new_ms; /* when new commands last came */
};

/* Applies the new commands of a Fetch's answer. Called with the lock. */
void commands_apply_new(struct commands *commands, Reeve__V1__WorkerCommand *const *list, size_t count);

/* Applies the commands of the answer to a heartbeat that was sent at `sent_ms`. These are all commands in force; so if
 * PAUSE is not among them, a pause is over. But if new commands have come since, the answer may not know them: it
 * changes neither mode nor concurrency. Called with the lock. */
void commands_apply_all(
    struct commands *commands, Reeve__V1__WorkerCommand *const *list, size_t count, int64_t sent_ms);

#endif
