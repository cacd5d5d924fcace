/* The parts of supervisor.c: its state, and the start of processes. */
#ifndef REEVE_WORKER_SUPERVISOR_INTERNAL_H
#define REEVE_WORKER_SUPERVISOR_INTERNAL_H

#include "worker/spawn_message.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One handler process. */
struct child {
	uint64_t id; /* 0: free */
	pid_t pid;
	int start_error;
	int status;
	int64_t end_ms; /* when its group is killed (SPAWN_END); 0: not set */
	bool lingers;   /* it has ended, and others of its session have yet to */
	bool ended;     /* not yet reported to the worker */
	bool signalled; /* the worker had a signal sent to it */
	bool lease;     /* killed or not started, because the lease was over or it was too late to start */
};

struct supervisor {
	int socket;
	int signals;
	int worker; /* a pidfd: the worker's children may keep the socket open after its death; −1: unsupported */
	pid_t pid, parent;
	int policy, niceness;   /* how the worker is scheduled, and so its programs */
	struct child *children; /* SPAWN_MAX, by index */
	struct spawn_shared *shared;
	uint32_t used;       /* entries from this index on were never used */
	uint32_t running;    /* children that have not ended, or linger */
	uint32_t lingering;  /* children that linger */
	bool unreaped;       /* children may have ended that were not reaped yet, and no signal will come for them */
	uint32_t unreported; /* ended children, not yet reported to the worker */
	int64_t over_ms;     /* the end of the lease at which everything was last killed */
	int64_t next_end_ms; /* the earliest end_ms of a child; INT64_MAX: none */
	bool worker_killed;
	size_t inherited; /* how many variables the worker's environment has */
	char **variables; /* those of the process that is being started: space for all and SPAWN_ENVIRONMENT_MAX more */
	char packet[sizeof(struct spawn_request) + SPAWN_TEXT_MAX];
	char *arguments[SPAWN_ARGUMENTS_MAX + 1];
};

/* Marks a child as ended; it is reported to the worker soon. */
void supervisor_child_ended(struct supervisor *supervisor, struct child *child, int status);

/* Counts the worker's variables, which its handlers inherit. */
void supervisor_take_environment(struct supervisor *supervisor);

/* Starts the process of a request of `length` bytes in supervisor->packet. */
void supervisor_start(struct supervisor *supervisor, size_t length, const int fds[SPAWN_FDS]);

#endif
