/*
 * What the worker and its spawner process say to each other: one struct a packet over a SOCK_SEQPACKET pair, and a few
 * words in memory that they share. Both are the same program, so the structs travel as they are.
 */
#ifndef REEVE_WORKER_SPAWN_MESSAGE_H
#define REEVE_WORKER_SPAWN_MESSAGE_H

#include "worker/lease.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
	SPAWN_MAX = 20000,           /* processes at once: twice the slots there may be */
	SPAWN_TEXT_MAX = 128 * 1024, /* program, directory, arguments and environment of one, with their NULs */
	SPAWN_ARGUMENTS_MAX = 4096,  /* arguments of one */
	SPAWN_ENVIRONMENT_MAX = 16,  /* variables added to the worker's own */
	SPAWN_FDS = 4,               /* descriptors of one */
};

#define SPAWN_ALL_NAMES UINT32_MAX

enum spawn_request_kind {
	SPAWN_START,  /* start a process, not from `value` on (monotonic, ms; 0: whenever); its descriptors from 0 on come along */
	SPAWN_SIGNAL, /* send `value`, a signal, to a process's group; one that has ended is ignored */
	SPAWN_LEASE,  /* the lease has changed: look at it */
};

/* From the worker. For SPAWN_START the texts follow, each with its NUL: the program, its directory (empty: the
 * worker's), the arguments, the variables ("NAME=value"), the names of those of the worker's variables that it gets (NAME, or
 * NAME* for all that begin so). */
struct spawn_request {
	uint32_t kind;
	uint32_t index; /* names the process: its place in both tables, below SPAWN_MAX … */
	uint64_t id;    /* … and a number never used twice */
	int64_t value;
	uint32_t arguments;   /* how many */
	uint32_t environment; /* how many */
	uint32_t names;       /* how many; SPAWN_ALL_NAMES: it gets all of the worker's variables */
};

/* In place of an errno: it was not started since the lease was over. */
enum { SPAWN_LEASE_OVER = -1 };

/* Memory that the worker, the spawner and, until it becomes its program, each process share. */
struct spawn_shared {
	struct lease lease;
	/* By index. Set to 0 before a SPAWN_START. */
	struct {
		_Atomic int32_t pid;   /* written by the process itself just before it becomes its program */
		_Atomic int32_t error; /* errno, likewise, if it could not; SPAWN_LEASE_OVER */
	} processes[SPAWN_MAX];
};

/* From the spawner: a process has ended (or could not be started), and with it its whole group. */
struct spawn_exit {
	uint32_t index;
	uint64_t id;
	int32_t status;      /* as waitpid gives it */
	int32_t start_error; /* errno of what went wrong before the program ran; 0: it ran */
	int32_t signalled;   /* 1: it was sent a SPAWN_SIGNAL before it ended */
	int32_t lease;       /* 1: it was killed, or not started, because the lease was over */
};

#endif
