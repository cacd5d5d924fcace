/* The parts of exec.c: a running program, and the outcome of one that has ended. */
#ifndef REEVE_WORKER_HANDLERS_EXEC_INTERNAL_H
#define REEVE_WORKER_HANDLERS_EXEC_INTERNAL_H

#include "worker/attempt.h"
#include "worker/handler.h"
#include "worker/handlers/answer.h"
#include "worker/handlers/messages.h"
#include "worker/handlers/tail.h"
#include "worker/supervisor_client.h"

/* One process. */
struct run {
	const struct handler_context *context;
	const struct exec_spec *spec;
	struct attempt *attempt;
	struct spawned spawned;

	int input, output;        /* our ends of its pipes; −1: closed */
	struct tail error;        /* … of the third, standard error, */
	struct messages messages; /* … and of the fourth */
	struct answer answer;     /* what it reported there about its outcome */
	bool remarked;            /* a remark has come */
	char name[48];
	int64_t ask_from_ms;     /* when a manager may be asked for more time again */
	int64_t extend_until_ms; /* it wants to run until then, and no manager was asked yet; 0: it does not */
	const char *details;     /* the input that is still to be written … */
	size_t details_left;     /* … and its number of bytes */
	char *result;            /* its standard output */
	size_t result_length, result_size;

	bool too_long; /* its output is too long */
	bool timed_out;
	bool asked_to_end;  /* it was sent SIGTERM or SIGKILL */
	bool reached;       /* … while its supervisor was alive */
	bool killed;        /* it was sent SIGKILL */
	int64_t kill_at_ms; /* when it will be, once asked to end */
};

/* Sets the outcome of the attempt, from how the program ended and what it has reported. */
void exec_set_outcome(struct run *run, const struct spawn_end *end);

#endif
