/*
 * What runs the tasks of a type. Each kind (handlers/ *.c) makes a `struct handler` with its own `run`; a slot calls it
 * and knows no more. The table changes when the handlers files are read again (reload.c), under the worker's lock; a handler
 * itself is only read once it is there, but for `cost_us`.
 */
#ifndef REEVE_WORKER_HANDLER_H
#define REEVE_WORKER_HANDLER_H

#include "common/error.h"
#include "common/hash.h"
#include "worker/attempt.h"

#include <stdatomic.h>

struct launcher;

/* What a slot lends to the handler that it runs. */
struct handler_context {
	struct launcher *launcher; /* starts processes; NULL: there is no spawner */
	int event_fd;          /* becomes readable when the attempt is to stop or its process has ended; −1: none */
	int64_t kill_grace_ms; /* between SIGTERM and SIGKILL */
	const char *managers;  /* where the worker's are: what it starts may submit tasks there */
};

/* From this cost on a task has a slot to itself; cheaper ones are started several at a time (slots.h). */
enum { HANDLER_COST_FULL_US = 500 };

struct handler {
	char *type;         /* owned */
	int64_t timeout_ms; /* its own limit beside the task's; 0: none */
	void *user_data;    /* passed to C functions */
	bool processes;     /* it starts processes, so its slots need a launcher and an event_fd */
	bool from_file;     /* of a handlers file */
	int users;          /* the table, and the attempts that have it; under the worker's lock once it runs */

	/* Runs an attempt to its end and sets its outcome (attempt->outcome). Called on a slot's thread, several at
	 * once. */
	void (*run)(struct handler *handler, const struct handler_context *context, struct attempt *attempt);
	/* Frees what the kind has added; NULL: nothing. */
	void (*release)(struct handler *handler);

	/* What a run usually takes, in microseconds: a moving average, at most HANDLER_COST_FULL_US, where it starts.
	 * Kinds that start processes stay there. */
	_Atomic int cost_us;

	UT_hash_handle hh; /* in the table of handlers, by type */
};

/* Adds a handler to the table (*handlers, a uthash head), which owns it from then on. False: the type is no name, or
 * has a handler; *error says so, and the handler stays the caller's. */
bool handler_add(struct handler **handlers, struct handler *handler, struct reeve_error *error);

/* Finds the handler of a type, or NULL. */
struct handler *handler_find(struct handler *handlers, const char *type);

/* An attempt has it, and so keeps it; and has it no more: the last user frees it. NULL is allowed. */
void handler_use(struct handler *handler);
void handler_drop(struct handler *handler);

/* Frees a handler that is in no table and has no users, and a whole table but for what attempts have. */
void handler_free(struct handler *handler);
void handlers_free(struct handler **handlers);

/* Sets the common part of a new handler. */
void handler_init(struct handler *handler, const char *type);

/* A handler that calls a function (handlers/function.c). */
struct handler *function_handler_create(const char *type, reeve_handler *function, void *user_data);

/* A handler that runs a program (handlers/exec.c). */
struct exec_spec {
	char *path;              /* absolute, or relative to where the worker was started */
	char **argv;             /* ends with NULL */
	char *directory;         /* where it runs; NULL: where the worker does */
	char **environment;      /* which of the worker's variables it gets (NAME, or NAME* for all that begin so), ends with NULL; NULL: all */
	int64_t timeout_ms;      /* 0: the task's alone */
	size_t max_output_bytes; /* longer standard output ends it */
};

/* Takes the spec's strings over. */
struct handler *exec_handler_create(const char *type, const struct exec_spec *spec);
void exec_spec_clear(struct exec_spec *spec);

/* Reads a handlers file (handlers/file.c) and adds its handlers to the table. False: *error names the file, the section
 * and the line; the table may hold those that came before. */
bool handlers_read_file(struct handler **handlers, const char *path, struct reeve_error *error);

#endif
