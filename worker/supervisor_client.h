/*
 * The worker's client of the supervisor: starts processes, signals their process groups, and reports their end.
 *
 * Thread-safe. The thread that starts a process follows it, and is notified through an eventfd of its own, until it
 * hands the process to another thread or retires it.
 */
#ifndef REEVE_WORKER_SUPERVISOR_CLIENT_H
#define REEVE_WORKER_SUPERVISOR_CLIENT_H

#include "common/error.h"
#include "worker/lease.h"
#include "worker/spawn_message.h"

#include <stdbool.h>
#include <stdint.h>

struct supervisor_client;

/* Forks the supervisor. Call it before the process has threads. NULL: *error has the reason. */
struct supervisor_client *supervisor_client_create(struct reeve_error *error);

/* Starts a thread that reads the supervisor's messages. The thread calls `died` if the supervisor ends unexpectedly;
 * all its processes have then ended too. False: *error has the reason. */
bool supervisor_client_watch(
    struct supervisor_client *client, void (*died)(void *arg), void *arg, struct reeve_error *error);

/* Waits until all retired processes have ended, ends the supervisor, and frees everything. No thread may still follow
 * a process. NULL is allowed. */
void supervisor_client_destroy(struct supervisor_client *client);

/* A process that supervisor_client_start has requested. */
struct spawned {
	uint32_t index;
	uint64_t id;
};

/* What to start. All strings together are limited to SPAWN_TEXT_MAX bytes. */
struct spawn_spec {
	const char *path;
	const char *directory;          /* NULL: the worker's */
	const char *user;               /* numbers, as struct spawn_request has them; NULL: the worker's */
	char *const *arguments;         /* ends with NULL */
	const char *const *environment; /* added to the worker's own, ends with NULL */
	char *const *names;             /* the worker's variables that it gets (NAME, or the prefix NAME*), ends with
	                                   NULL; NULL: all */
	int fds[SPAWN_FDS];             /* its descriptors from 0 on, at least one, then −1; the caller keeps ownership */
	int event_fd;                   /* an eventfd, written when it has ended; −1: none */
	int64_t latest_ms;              /* it is not started at or after this time (clock_monotonic_ms); 0: no limit */
};

/* Requests a process. False: the request failed, *error has the reason; UNAVAILABLE: the supervisor has died. After
 * true the start may still fail: then the process ends with start_error. */
bool supervisor_client_start(struct supervisor_client *client, const struct spawn_spec *spec, struct spawned *spawned,
    struct reeve_error *error);

/* Sends a signal to the group of a process; ignored if it has ended. False: the supervisor has died. */
bool supervisor_client_signal(struct supervisor_client *client, const struct spawned *spawned, int signal_number);

/* From now on a process that has not ended notifies this eventfd; −1: none. The caller checks whether it has ended. */
void supervisor_client_follow(struct supervisor_client *client, const struct spawned *spawned, int event_fd);

/* Forgets a process: `spawned` is invalid from then on. Its group is killed unless it has ended after this time. */
void supervisor_client_retire(struct supervisor_client *client, const struct spawned *spawned, int64_t grace_ms);

/* How a process ended. */
struct spawn_end {
	int status;      /* as from waitpid */
	int start_error; /* errno of a failed start; 0: it was started */
	bool signalled;  /* supervisor_client_signal reached it before it ended on its own */
	bool lease;      /* the watchdog killed or did not start it: the lease was over, or latest_ms had passed */
	bool lost;       /* it died with the supervisor; of the other fields only `begun` is valid */
	bool begun;      /* it was about to execute its program, or had */
};

/* Returns true once the process has ended, and sets *end; `spawned` is invalid from then on. */
bool supervisor_client_ended(struct supervisor_client *client, const struct spawned *spawned, struct spawn_end *end);

/* Returns the lease that the supervisor enforces. It lives as long as `client`. */
struct lease *supervisor_client_lease(struct supervisor_client *client);

/* Notifies the supervisor that the lease has changed. Kills a supervisor that has not read the lease for SILENT_MS
 * despite notifications: it hangs, and would not enforce the lease. Never blocks; calls must not overlap. */
void supervisor_client_renewed(struct supervisor_client *client);

/* Kills the supervisor and everything that it started. */
void supervisor_client_kill(struct supervisor_client *client);

#endif
