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
};

/* Applies the commands. `all`: they are all commands in force, as in a heartbeat's answer; so if PAUSE is not among
 * them, a pause is over. Called with the lock. */
void commands_apply(struct commands *commands, Reeve__V1__WorkerCommand *const *list, size_t count, bool all);

#endif
