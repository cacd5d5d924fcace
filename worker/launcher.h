/*
 * The worker's side of the spawner: starts processes, signals their groups, and tells when they have ended.
 *
 * Thread-safe. Each process is followed by one thread, the one that started it, which is told through an eventfd of its
 * own.
 */
#ifndef REEVE_WORKER_LAUNCHER_H
#define REEVE_WORKER_LAUNCHER_H

#include "common/error.h"
#include "worker/lease.h"
#include "worker/spawn_message.h"

#include <stdbool.h>
#include <stdint.h>

struct launcher;

/* Forks the spawner; to be called before the process has threads. NULL: *error says why. */
struct launcher *launcher_create(struct reeve_error *error);

/* Starts to listen to the spawner, on a thread. `died` is called on that thread if the spawner ends unasked; every
 * process has then ended, too. False: *error says why. */
bool launcher_watch(struct launcher *launcher, void (*died)(void *arg), void *arg, struct reeve_error *error);

/* Ends the spawner and what it still runs, and frees everything. No process may be followed any more. NULL is allowed.
 */
void launcher_destroy(struct launcher *launcher);

/* A process that was asked for. */
struct launch {
	uint32_t index;
	uint64_t id;
};

/* What is to be started. All of it together is at most SPAWN_TEXT_MAX bytes. */
struct launch_spec {
	const char *path;
	const char *directory;          /* NULL: the worker's */
	char *const *arguments;         /* ends with NULL */
	const char *const *environment; /* what is added to the worker's own, ends with NULL */
	char *const *names;             /* which of the worker's own it gets (NAME, or NAME* for all that begin so), ends with NULL;
	                                   NULL: all */
	int fds[SPAWN_FDS];             /* its descriptors from 0 on; stay the caller's */
	int event_fd;                   /* an eventfd, written when it has ended */
	int64_t latest_ms;              /* from then on it is not started (clock_monotonic_ms); 0: there is no such time */
};

/* Asks for a process. False: it cannot be asked for, *error says why; UNAVAILABLE: the spawner has died. Afterwards it
 * may still turn out that it cannot be started: then it ends with start_error. */
bool launcher_start(
    struct launcher *launcher, const struct launch_spec *spec, struct launch *launch, struct reeve_error *error);

/* Sends a signal to the group of a process; ignored if that has ended. False: the spawner has died. */
bool launcher_signal(struct launcher *launcher, const struct launch *launch, int signal_number);

/* How a process ended. */
struct launch_end {
	int status;      /* as waitpid gives it */
	int start_error; /* errno; 0: it had started */
	bool signalled;  /* launcher_signal reached it before it ended by itself */
	bool lease;      /* the guard killed it, or did not start it, because the lease was over or it was too late */
	bool lost;       /* the spawner has died, and it with it; of the rest only this means something: */
	bool begun;      /* it had become its program */
};

/* True once the process has ended, with what is known in *end; from then on `launch` means nothing. */
bool launcher_ended(struct launcher *launcher, const struct launch *launch, struct launch_end *end);

/* The lease that the spawner goes by. Lives as long as the launcher. */
struct lease *launcher_lease(struct launcher *launcher);

/* Tells the spawner that the lease has changed. A spawner that has not looked at it for long, though told to, stands
 * still, and is killed: it would not do its duty. Never waits; calls must not overlap. */
void launcher_renewed(struct launcher *launcher);

/* Kills the spawner, and with it all that it started. */
void launcher_kill(struct launcher *launcher);

#endif
