/*
 * A program that runs an attempt: its process, its pipes, what it has reported, and how it is stopped. Of an exec
 * handler the process is the attempt's own (exec.c); a child of a stdio handler runs one attempt after another
 * (stdio.c).
 */
#ifndef REEVE_WORKER_HANDLERS_RUN_H
#define REEVE_WORKER_HANDLERS_RUN_H

#include "worker/attempt.h"
#include "worker/handler.h"
#include "worker/handlers/answer.h"
#include "worker/handlers/messages.h"
#include "worker/handlers/tail.h"
#include "worker/supervisor_client.h"

#include <signal.h>

enum { RUN_READ_BYTES = 64 * 1024 };

struct run {
	const struct handler_context *context;
	const struct handler_spec *spec;
	struct attempt *attempt;
	struct spawned spawned;

	int input, output;        /* our ends of its pipes; −1: closed */
	struct tail error;        /* … of the third, standard error */
	struct messages messages; /* of the fourth; of a stdio handler only the problem is used */
	struct answer answer;     /* what it reported about its outcome */
	bool remarked;            /* a remark has come */
	char name[48];
	int64_t ask_from_ms;     /* when a manager may be asked for more time again */
	int64_t extend_until_ms; /* it wants to run until then, and no manager was asked yet; 0: it does not */
	const char *details;     /* the input that is still to be written */
	size_t details_left;     /* the number of bytes of `details` */
	bool keeps_input;        /* its input stays open after that */
	char *result;            /* its standard output, or the result in its answer; has space for a NUL */
	size_t result_length, result_size;

	bool answered;     /* a stdio handler has answered */
	int64_t broken_ms; /* from then on it is killed, as no answer can come any more; 0: one can */
	bool too_long;     /* its output is too long */
	bool timed_out;
	bool asked_to_end;  /* it was sent SIGTERM or SIGKILL */
	bool reached;       /* … while its supervisor was alive */
	bool killed;        /* it was sent SIGKILL */
	int64_t kill_at_ms; /* when it will be, once asked to end */
};

/* Requests the process from the supervisor, with `fds` descriptors, and these variables (NULL: none) in addition to
 * those of every program. False: the attempt has ended with the error. */
bool run_start(struct run *run, const char *const *environment, int fds);

/* Writes what the process takes of its input. */
void run_write(struct run *run);

/* Follows the process until it has ended (true, with *end), or has answered and need not end (false). `read_output`
 * reads what standard output has; it returns false if there is nothing more for now. */
bool run_follow(struct run *run, bool (*read_output)(struct run *run), struct spawn_end *end);

/* Reads the rest, once the process has ended. */
void run_read_rest(struct run *run, bool (*read_output)(struct run *run));

/* Handles a message from the program; `arg` is the run. */
void run_take_message(void *arg, const json_t *message);

/* Closes the pipes and frees what the program has reported. */
void run_clear(struct run *run);

/* Closes one of our ends of its pipes. */
void run_close(int *fd);

/* Lets writes to a pipe without a reader fail without a signal on this thread; `before` is for run_unblock_sigpipe. */
void run_block_sigpipe(sigset_t *before);
void run_unblock_sigpipe(const sigset_t *before);

/* Sets the outcome of an attempt whose process did not end on its own, or not in time. False: it ended on its own. */
bool run_set_stopped(struct run *run, const struct spawn_end *end);

/* Sets the outcome by what the program has reported, and its exit status (as from waitpid). */
void run_set_reported(struct run *run, int status);

/* Adds what else the program has reported to the outcome. */
void run_add_messages(struct run *run);

#endif
