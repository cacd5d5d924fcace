/*
 * Handlers: what runs the tasks of a type. Each kind (handlers/ *.c) creates a `struct handler` with its own `run`,
 * which a slot calls. The table changes only when the handlers files are reloaded (handler_set.c), under the worker's
 * lock. A handler in the table is read-only, except for `cost_us`, `users`, `running` and `resume_ms`.
 */
#ifndef REEVE_WORKER_HANDLER_H
#define REEVE_WORKER_HANDLER_H

#include "common/error.h"
#include "common/hash.h"
#include "worker/include/reeve/worker.h"

#include <stdatomic.h>

struct attempt;
struct supervisor_client;
struct tls_files;

/* What a slot passes to the handler that it runs. */
struct handler_context {
	struct supervisor_client *supervisor; /* starts processes; NULL: the worker has no supervisor */
	int event_fd;                         /* readable when the attempt must stop or its process has ended; −1: none */
	int64_t kill_grace_ms;                /* between SIGTERM and SIGKILL */
	const char *managers;                 /* the worker's managers, so that a process can submit tasks there */
	const char *result_store;             /* the directory for long results; NULL: none */
	const struct tls_files *tls;          /* the CA and revocation lists by which a process verifies managers */
};

/* A task of this cost or more gets a slot alone; cheaper ones are started several at a time (slots.h). */
enum { HANDLER_COST_FULL_US = 500 };

struct handler {
	char *type;         /* owned */
	int64_t timeout_ms; /* the handler's own limit, in addition to the task's; 0: none */
	void *user_data;    /* passed to C functions */
	bool processes;     /* starts processes: its slots need the supervisor and an event_fd */
	bool from_file;     /* from a handlers file */
	int max_running;    /* how many of its attempts run at once; 0: as many as there are slots */
	/* Under the worker's lock once it runs. */
	int users;    /* references of the table, of attempts and of promises */
	int running;  /* attempts that slots have */
	int promised; /* tasks that Fetches may bring (rooms.h) */

	/* Runs an attempt to its end and sets its outcome (attempt->outcome). Called on a slot's thread, by several slots
	 * at once. */
	void (*run)(struct handler *handler, const struct handler_context *context, struct attempt *attempt);
	/* Frees what this kind of handler has added; NULL: nothing to free. */
	void (*release)(struct handler *handler);

	/* The usual duration of a run, in microseconds: a moving average of up to HANDLER_COST_FULL_US, which is also the
	 * first value. It never changes for kinds that start processes. */
	_Atomic int cost_us;

	_Atomic int64_t resume_ms; /* nothing of it starts before this time (monotonic); 0: it may */

	UT_hash_handle hh; /* in the table of handlers, by type */
};

/* Adds a handler to the table (*handlers, a uthash head), which then owns it. False: the type is not a valid name or
 * already has a handler; *error has the reason, and the caller keeps the handler. */
bool handler_add(struct handler **handlers, struct handler *handler, struct reeve_error *error);

/* Sets *error: the type has two handlers. Returns false. */
bool handler_refuse_second(const char *type, struct reeve_error *error);

/* Returns the handler of a type, or NULL. */
struct handler *handler_find(struct handler *handlers, const char *type);

/* Adds or drops an attempt's reference to the handler. The last drop frees it. NULL is allowed. */
void handler_use(struct handler *handler);
void handler_drop(struct handler *handler);

/* handler_free frees a handler that no table and no attempt refers to. handlers_free drops all handlers of a table;
 * attempts keep theirs. */
void handler_free(struct handler *handler);
void handlers_free(struct handler **handlers);

/* Sets the common fields of a new handler. */
void handler_init(struct handler *handler, const char *type);

/* Creates a handler that calls a function (handlers/function.c). */
struct handler *function_handler_create(const char *type, reeve_handler *function, void *user_data);

/* The settings of a handler in a handlers file; those of programs (handlers/exec.c, handlers/stdio.c) first. */
struct handler_spec {
	char *path;             /* absolute, or relative to the directory where the worker was started */
	char **argv;            /* ends with NULL */
	char *directory;        /* its working directory; NULL: the worker's */
	char *user;             /* whose program it is, as struct spawn_spec has it; NULL: the worker's */
	char *user_name, *home; /* the same, for its environment */
	char **environment;     /* the worker's variables that it gets (NAME, or the prefix NAME*), ends with NULL;
	                            NULL: all */
	char *command; /* the value that names the program, the URL (handlers/http.c) or the file (handlers/plugin.c) */
	int64_t timeout_ms;      /* 0: only the task's limit */
	size_t max_output_bytes; /* longer standard output, of stdio handlers a longer line, fails the attempt */
	int children;            /* of stdio handlers: how many processes at most; 0: one for each slot */
};

/* Frees the spec's strings. */
void handler_spec_clear(struct handler_spec *spec);

/* Lets handlers files have `http` (handlers/http.c). Only the program reeve-worker has it, so that the library does not
 * need libcurl. Called once, before there are threads. */
void http_handlers_enable(void);

/* Reads a handlers file (handlers/file.c) and adds its handlers to the table. False: *error names the file, the section
 * and the line; the table may already have the handlers before that line. */
bool handlers_read_file(struct handler **handlers, const char *path, struct reeve_error *error);

#endif
