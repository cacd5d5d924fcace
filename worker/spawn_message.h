/*
 * The messages between the worker and its supervisor: one struct per packet over a SOCK_SEQPACKET pair, and some shared
 * memory. Both are the same program, so the structs need no encoding.
 */
#ifndef REEVE_WORKER_SPAWN_MESSAGE_H
#define REEVE_WORKER_SPAWN_MESSAGE_H

#include "common/limits.h"
#include "worker/lease.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
	SPAWN_MAX = 2 * LIMIT_CONCURRENCY, /* processes at once */
	SPAWN_TEXT_MAX = 128 * 1024,       /* program, directory, arguments and environment of a process, with their NULs */
	SPAWN_ARGUMENTS_MAX = 4096,        /* arguments of a process */
	SPAWN_ENVIRONMENT_MAX = 16,        /* variables added to the worker's own */
	SPAWN_FDS = 4,                     /* maximum number of descriptors of a process */
	SPAWN_GROUPS_MAX = 256,            /* groups of its user */
};

#define SPAWN_ALL_NAMES UINT32_MAX

enum spawn_request_kind {
	SPAWN_START,  /* start a process, but not at or after the time `value` (monotonic, ms; 0: no limit) */
	SPAWN_SIGNAL, /* send the signal `value` to a process's group; ignored if the process has ended */
	SPAWN_END,    /* kill a process's group at the time `value` (monotonic, ms), unless the process has ended by then */
	SPAWN_LEASE,  /* the lease has changed: read it */
};

/* A message from the worker. A packet with SPAWN_START carries the process's descriptors from 0 on. These strings
 * follow it, each with its NUL: the program, its directory (empty: the worker's), its user (the numbers of the user and
 * of its groups, with blanks; empty: the worker's), the arguments, the added variables
 * ("NAME=value"), and the names of those of the worker's variables that it gets (NAME, or the prefix NAME*). */
struct spawn_request {
	uint32_t kind;
	uint32_t index; /* identifies the process: its place in both tables, below SPAWN_MAX */
	uint64_t id;    /* a number that is never reused */
	int64_t value;
	uint32_t arguments;   /* number of arguments */
	uint32_t environment; /* number of added variables */
	uint32_t fds;         /* number of descriptors */
	uint32_t names;       /* number of names; SPAWN_ALL_NAMES: it gets all of the worker's variables */
};

/* In place of an errno: the process was not started because the lease was over, or the time limit of its start had
 * passed. */
enum { SPAWN_LEASE_OVER = -1 };

/* Memory that the worker and the supervisor share, and each process until it executes its program. */
struct spawn_shared {
	struct lease lease;
	/* By index. Set to 0 before a SPAWN_START. */
	struct {
		_Atomic int32_t pid;   /* set by the process itself just before it executes its program */
		_Atomic int32_t error; /* set by the process if it failed to: an errno, or SPAWN_LEASE_OVER */
	} processes[SPAWN_MAX];
};

/* A message from the supervisor: a process and its entire group have ended, or it could not be started. */
struct spawn_exit {
	uint32_t index;
	uint64_t id;
	int32_t status;      /* as from waitpid */
	int32_t start_error; /* errno of a failed start; 0: the program ran */
	int32_t signalled;   /* 1: it got a SPAWN_SIGNAL before it ended */
	int32_t lease;       /* 1: it was killed or not started because the lease was over, or it was too late to start */
};

#endif
