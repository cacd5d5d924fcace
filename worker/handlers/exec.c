/*
 * Handlers that are programs: one process per attempt, started by the supervisor, in a session of its own.
 *
 * The slot's thread communicates with the process through four pipes, and is notified of its end and of requests to
 * stop through an eventfd. The attempt ends with the process: the supervisor then kills the rest of its group, so the
 * pipes' content is complete. On the fourth pipe, descriptor 3, the program may send messages (messages.h); programs
 * that do not use it are not affected.
 */
#include "worker/handlers/exec_internal.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/extensions.h"
#include "worker/handlers/arguments.h"
#include "worker/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	READ_BYTES = 64 * 1024,
	READS_LAST = 64,       /* of standard error, at the end; a pipe holds less than that */
	ASK_INTERVAL_MS = 200, /* between two requests of a handler for more time */
};

struct exec_handler {
	struct handler base;
	struct exec_spec spec;
};

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Opens a pipe whose end on our side does not block. False: errno has the reason. */
static bool open_pipe(int *ours, int *theirs, bool we_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	*ours = ends[we_write ? 1 : 0];
	*theirs = ends[we_write ? 0 : 1];
	return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

/* Returns the variables of the attempt, and those that every program of another user needs. */
static char **environment_of(const struct run *run)
{
	char **environment = attempt_environment(run->attempt, run->context->managers, run->context->tls);
	size_t count = 0;

	if (!run->spec->user)
		return environment;
	while (environment[count])
		count++;
	environment = mem_realloc(environment, (count + 4) * sizeof *environment);
	environment[count++] = mem_asprintf("HOME=%s", run->spec->home);
	environment[count++] = mem_asprintf("USER=%s", run->spec->user_name);
	environment[count++] = mem_asprintf("LOGNAME=%s", run->spec->user_name);
	environment[count] = NULL;
	return environment;
}

/* Requests the process from the supervisor. False: the attempt has ended with the error. */
static bool begin(struct run *run)
{
	int theirs[SPAWN_FDS] = {-1, -1, -1, -1};
	char **environment = environment_of(run);
	struct reeve_error error;
	bool started = open_pipe(&run->input, &theirs[0], true) && open_pipe(&run->output, &theirs[1], false) &&
	    open_pipe(&run->error.fd, &theirs[2], false) && open_pipe(&run->messages.fd, &theirs[3], false);

	if (!started) {
		error_set(&error, STATUS(RESOURCE_EXHAUSTED), "cannot open pipes for %s: %s", run->spec->path, strerror(errno));
	} else {
		struct spawn_spec spec = {
		    .path = run->spec->path,
		    .directory = run->spec->directory,
		    .user = run->spec->user,
		    .arguments = run->spec->argv,
		    .environment = (const char *const *)environment,
		    .names = run->spec->environment,
		    .fds = {theirs[0], theirs[1], theirs[2], theirs[3]},
		    .event_fd = run->context->event_fd,
		    .latest_ms = attempt_last_moment(run->attempt),
		};

		started = supervisor_client_start(run->context->supervisor, &spec, &run->spawned, &error);
	}
	for (int i = 0; i < SPAWN_FDS; i++)
		close_end(&theirs[i]);
	for (int i = 0; environment[i]; i++)
		free(environment[i]);
	free(environment);
	if (!started && error.code == STATUS(UNAVAILABLE))
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "supervisor", "%s", error.message);
	else if (!started)
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "exec", "%s", error.message);
	return started;
}

static void write_details(struct run *run)
{
	ssize_t written = write(run->input, run->details, run->details_left);

	if (written > 0) {
		run->details += written;
		run->details_left -= (size_t)written;
	} else if (written < 0 && errno != EAGAIN && errno != EINTR) {
		run->details_left = 0; /* it does not read its input */
	}
	if (!run->details_left)
		close_end(&run->input);
}

/* Reads what standard output has. False: nothing more for now. */
static bool read_output(struct run *run)
{
	ssize_t length;

	if (run->output < 0)
		return false;
	if (run->result_size - run->result_length < READ_BYTES + 1) {
		run->result_size = 2 * run->result_size + READ_BYTES + 1;
		run->result = mem_realloc(run->result, run->result_size);
	}
	length = read(run->output, run->result + run->result_length, READ_BYTES);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length > 0)
		run->result_length += (size_t)length;
	run->too_long = run->result_length > run->spec->max_output_bytes;
	if (length <= 0 || run->too_long)
		close_end(&run->output);
	return run->output >= 0;
}

/* {"extend": "10m"}: the program wants to run this much longer, counted from now. */
static void want_extension(struct run *run, const json_t *wanted)
{
	int64_t ms = 0;

	if (answer_duration(wanted, &ms) && ms > 0)
		run->extend_until_ms = clock_monotonic_ms() + ms;
	else
		messages_complain(&run->messages, "extend must be a duration (\"90s\", \"10m\", or a number of seconds)");
}

/* Handles a message from the program. Ignores unknown members, which newer workers may know. */
static void take_message(void *arg, const json_t *message)
{
	struct run *run = arg;
	const json_t *extend = json_object_get(message, "extend");
	char problem[160];

	if (extend && !json_is_null(extend))
		want_extension(run, extend);
	if (!answer_take(&run->answer, message, problem, sizeof problem))
		messages_complain(&run->messages, problem);
	run->remarked |= json_is_string(json_object_get(message, "remark"));
}

/* Asks a manager for the extension that the program wants, one at a time and no more than one per ASK_INTERVAL_MS; of
 * several, the last counts. Returns when to ask if it is too early now, else INT64_MAX. */
static int64_t ask_extension(struct run *run)
{
	int64_t now_ms = clock_monotonic_ms(), left_ms = run->extend_until_ms - now_ms;

	if (!run->extend_until_ms || atomic_load(&run->attempt->extending) || run->asked_to_end)
		return INT64_MAX;
	if (now_ms < run->ask_from_ms)
		return run->ask_from_ms;
	run->extend_until_ms = 0;
	run->ask_from_ms = now_ms + ASK_INTERVAL_MS;
	if (left_ms > 0)
		extensions_request(run->attempt, left_ms);
	return INT64_MAX;
}

/* Sends a signal to the entire group: SIGTERM first, SIGKILL later or at once. */
static void ask_to_end(struct run *run, int signal_number, int64_t now_ms)
{
	run->kill_at_ms = now_ms + run->context->kill_grace_ms;
	if (run->kill_at_ms > attempt_last_moment(run->attempt))
		run->kill_at_ms = attempt_last_moment(run->attempt);
	run->asked_to_end = true;
	run->killed = signal_number == SIGKILL;
	if (supervisor_client_signal(run->context->supervisor, &run->spawned, signal_number))
		run->reached = true;
}

/* Signals the process if the attempt must stop or has timed out. Returns when to check again. */
static int64_t watch(struct run *run)
{
	enum stop_reason stop = atomic_load(&run->attempt->stop);
	int64_t now_ms = clock_monotonic_ms(), timeout_at_ms = atomic_load(&run->attempt->timeout_at_ms);
	int64_t lease_kill_ms = atomic_load(&run->attempt->lease->kill_ms);
	int64_t kill_at_ms = run->kill_at_ms < lease_kill_ms ? run->kill_at_ms : lease_kill_ms;
	/* Another worker may have the attempt now: no grace. */
	bool at_once = run->too_long || stop == STOP_LOST || stop == STOP_ABANDON;

	/* While a manager is, or is about to be, asked for more time, only the attempt's last moment limits it. */
	if ((atomic_load(&run->attempt->extending) || run->extend_until_ms) &&
	    timeout_at_ms < attempt_last_moment(run->attempt))
		timeout_at_ms = attempt_last_moment(run->attempt);
	if (!run->killed && (at_once || (run->asked_to_end && now_ms >= kill_at_ms))) {
		ask_to_end(run, SIGKILL, now_ms);
	} else if (!run->asked_to_end && (stop != STOP_NONE || now_ms >= timeout_at_ms)) {
		run->timed_out = stop == STOP_NONE;
		ask_to_end(run, SIGTERM, now_ms);
	}
	if (run->killed)
		return INT64_MAX;
	if (!run->asked_to_end)
		return timeout_at_ms;
	return run->kill_at_ms < lease_kill_ms ? run->kill_at_ms : lease_kill_ms;
}

/* Waits for an event, then reads and writes what the pipes allow. */
static void move(struct run *run, int64_t until_ms)
{
	struct pollfd ready[] = {
	    {.fd = run->context->event_fd, .events = POLLIN},
	    {.fd = run->input, .events = POLLOUT},
	    {.fd = run->output, .events = POLLIN},
	    {.fd = run->error.fd, .events = POLLIN},
	    {.fd = run->messages.fd, .events = POLLIN},
	};
	int64_t left_ms = until_ms == INT64_MAX ? -1 : until_ms - clock_monotonic_ms();
	uint64_t count;

	if (until_ms != INT64_MAX && left_ms < 0)
		left_ms = 0;
	if (poll(ready, sizeof ready / sizeof *ready, left_ms > 3600 * 1000 ? 3600 * 1000 : (int)left_ms) <= 0)
		return;
	if (ready[0].revents && read(run->context->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
		abort();
	if (ready[1].revents)
		write_details(run);
	if (ready[2].revents)
		read_output(run);
	if (ready[3].revents)
		tail_read(&run->error);
	if (ready[4].revents)
		messages_read(&run->messages, take_message, run);
	if (run->remarked)
		attempt_set_remark(run->attempt, run->answer.remark);
	run->remarked = false;
}

/* Lets writes to a pipe without a reader fail without a signal on this thread; `before` is for unblock_sigpipe. */
static void block_sigpipe(sigset_t *before)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &blocked, before);
}

static void unblock_sigpipe(const sigset_t *before)
{
	struct timespec now = {0};
	sigset_t pending;

	sigemptyset(&pending);
	sigaddset(&pending, SIGPIPE);
	if (!sigismember(before, SIGPIPE))
		while (sigtimedwait(&pending, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void exec_run(struct handler *handler, const struct handler_context *context, struct attempt *attempt)
{
	struct run run = {.context = context,
	    .spec = &((struct exec_handler *)handler)->spec,
	    .attempt = attempt,
	    .input = -1,
	    .output = -1,
	    .error = {.fd = -1},
	    .messages = {.fd = -1},
	    .details = attempt->public.details,
	    .details_left = strlen(attempt->public.details)};
	struct spawn_end end;
	sigset_t before;

	run.messages.about = attempt_name(attempt, run.name);
	block_sigpipe(&before);
	if (begin(&run)) {
		if (!run.details_left)
			close_end(&run.input);
		for (;;) {
			int64_t ask_ms = ask_extension(&run), until_ms = watch(&run);

			until_ms = ask_ms < until_ms ? ask_ms : until_ms;
			if (supervisor_client_ended(context->supervisor, &run.spawned, &end))
				break;
			move(&run, until_ms);
		}
		while (read_output(&run))
			;
		/* No process is left to write, unless one has left the group: this many reads are enough then. */
		for (int i = 0; i < READS_LAST && tail_read(&run.error); i++)
			;
		messages_finish(&run.messages, take_message, &run);
		exec_set_outcome(&run, &end);
	}
	close_end(&run.input);
	close_end(&run.output);
	tail_clear(&run.error);
	messages_clear(&run.messages);
	answer_clear(&run.answer);
	free(run.result);
	unblock_sigpipe(&before);
}

void exec_spec_clear(struct exec_spec *spec)
{
	arguments_free(spec->argv);
	arguments_free(spec->environment);
	free(spec->path);
	free(spec->directory);
	free(spec->user);
	free(spec->user_name);
	free(spec->home);
	*spec = (struct exec_spec){0};
}

static void exec_release(struct handler *handler)
{
	exec_spec_clear(&((struct exec_handler *)handler)->spec);
}

struct handler *exec_handler_create(const char *type, const struct exec_spec *spec)
{
	struct exec_handler *handler = mem_calloc(1, sizeof *handler);

	handler_init(&handler->base, type);
	handler->base.timeout_ms = spec->timeout_ms;
	handler->base.processes = true;
	handler->base.run = exec_run;
	handler->base.release = exec_release;
	handler->spec = *spec;
	return &handler->base;
}
