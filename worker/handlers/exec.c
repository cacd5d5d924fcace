/*
 * Handlers that are programs: one process per attempt, started by the supervisor, in a session of its own.
 *
 * The slot's thread communicates with the process through four pipes, and is notified of its end and of requests to
 * stop through an eventfd. The attempt ends with the process: the supervisor then kills the rest of its group, so the
 * pipes' content is complete. On the fourth pipe, descriptor 3, the program may send messages (messages.h); programs
 * that do not use it are not affected.
 */
#include "worker/handlers/run.h"

#include "common/mem.h"
#include "worker/handlers/arguments.h"
#include "worker/handlers/kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct exec_handler {
	struct handler base;
	struct handler_spec spec;
};

/* Reads what standard output has. False: nothing more for now. */
static bool read_output(struct run *run)
{
	ssize_t length;

	if (run->output < 0)
		return false;
	if (run->result_size - run->result_length < RUN_READ_BYTES + 1) {
		run->result_size = 2 * run->result_size + RUN_READ_BYTES + 1;
		run->result = mem_realloc(run->result, run->result_size);
	}
	length = read(run->output, run->result + run->result_length, RUN_READ_BYTES);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length > 0)
		run->result_length += (size_t)length;
	run->too_long = run->result_length > run->spec->max_output_bytes;
	if (length <= 0 || run->too_long)
		run_close(&run->output);
	return run->output >= 0;
}

static void exec_run(struct handler *handler, const struct handler_context *context, struct attempt *attempt)
{
	struct run run = {.context = context,
	    .spec = &((struct exec_handler *)handler)->spec,
	    .attempt = attempt,
	    .input = -1,
	    .output = -1,
	    .error = {.fd = -1},
	    .messages = {.fd = -1, .source = "descriptor 3"},
	    .details = attempt->public.details,
	    .details_left = strlen(attempt->public.details)};
	char **environment = attempt_environment(attempt);
	struct spawn_end end;
	sigset_t before;

	run.messages.about = attempt_name(attempt, run.name);
	run_block_sigpipe(&before);
	if (run_start(&run, (const char *const *)environment, SPAWN_FDS)) {
		if (!run.details_left)
			run_close(&run.input);
		run_follow(&run, read_output, &end);
		run_read_rest(&run, read_output);
		if (!run_set_stopped(&run, &end))
			run_set_reported(&run, end.status);
		run_add_messages(&run);
	}
	run_clear(&run);
	for (int i = 0; environment[i]; i++)
		free(environment[i]);
	free(environment);
	run_unblock_sigpipe(&before);
}

void handler_spec_clear(struct handler_spec *spec)
{
	arguments_free(spec->argv);
	arguments_free(spec->environment);
	free(spec->command);
	free(spec->path);
	free(spec->directory);
	free(spec->user);
	free(spec->user_name);
	free(spec->home);
	*spec = (struct handler_spec){0};
}

static void exec_release(struct handler *handler)
{
	handler_spec_clear(&((struct exec_handler *)handler)->spec);
}

struct handler *exec_handler_create(const char *type, struct handler_spec *spec, struct reeve_error *error)
{
	struct exec_handler *handler = mem_calloc(1, sizeof *handler);

	handler_init(&handler->base, type);
	handler->base.timeout_ms = spec->timeout_ms;
	handler->base.processes = true;
	handler->base.run = exec_run;
	handler->base.release = exec_release;
	handler->spec = *spec;
	*spec = (struct handler_spec){0};
	(void)error;
	return &handler->base;
}
