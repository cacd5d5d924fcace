/*
 * Handlers that are programs: one process per attempt, started by the supervisor, in a session of its own.
 *
 * The slot's thread communicates with the process through four pipes, and is notified of its end and of requests to
 * stop through an eventfd. The attempt ends with the process: the supervisor then kills the rest of its group, so the
 * pipes' content is complete. On the fourth pipe, descriptor 3, the program may send messages (messages.h); programs
 * that do not use it are not affected.
 */
#include "common/clock.h"
#include "common/text.h"
#include "worker/attempt.h"
#include "worker/extensions.h"
#include "worker/handler.h"
#include "worker/handlers/answer.h"
#include "worker/handlers/arguments.h"
#include "worker/handlers/messages.h"
#include "worker/handlers/tail.h"
#include "worker/lease.h"
#include "worker/supervisor_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

enum {
	ERROR_BYTES = 4096, /* the last bytes of standard error that become the error; more of it becomes the stack */
	READ_BYTES = 64 * 1024,
	READS_LAST = 64,    /* of standard error, at the end; a pipe holds less than that */
	ASK_EVERY_MS = 200, /* between two requests of a handler for more time */
};

struct exec_handler {
	struct handler base;
	struct exec_spec spec;
};

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
	size_t result_length, result_room;

	bool too_long; /* its output is too long */
	bool timed_out;
	bool asked_to_end;  /* it was sent SIGTERM or SIGKILL */
	bool reached;       /* … while its supervisor was alive */
	bool killed;        /* it was sent SIGKILL */
	int64_t kill_at_ms; /* when it will be, once asked to end */
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

static char *print(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *print(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	return text;
}

/* Requests the process from the supervisor. False: the attempt has ended with the error. */
static bool begin(struct run *run)
{
	const struct reeve_attempt *attempt = &run->attempt->public;
	int theirs[SPAWN_FDS] = {-1, -1, -1, -1};
	char *environment[] = {
	    print("REEVE_TASK_ID=%lld", (long long)attempt->task_id),
	    print("REEVE_TASK_TYPE=%s", attempt->type),
	    print("REEVE_QUEUE=%s", attempt->queue),
	    print("REEVE_KEY=%s", attempt->key),
	    print("REEVE_STAGE=%s", attempt->stage),
	    print("REEVE_ATTEMPT=%u", attempt->attempt),
	    print("REEVE_TOKEN=%lld", (long long)attempt->token),
	    print("REEVE_MANAGER=%s", run->context->managers),
	    NULL,
	};
	struct reeve_error error;
	bool good = open_pipe(&run->input, &theirs[0], true) && open_pipe(&run->output, &theirs[1], false) &&
	            open_pipe(&run->error.fd, &theirs[2], false) && open_pipe(&run->messages.fd, &theirs[3], false);

	if (!good) {
		error_set(&error, STATUS(RESOURCE_EXHAUSTED), "cannot open pipes for %s: %s", run->spec->path,
		    strerror(errno));
	} else {
		struct spawn_spec spec = {
		    .path = run->spec->path,
		    .directory = run->spec->directory,
		    .arguments = run->spec->argv,
		    .environment = (const char *const *)environment,
		    .names = run->spec->environment,
		    .fds = {theirs[0], theirs[1], theirs[2], theirs[3]},
		    .event_fd = run->context->event_fd,
		    .latest_ms = attempt_last_moment(run->attempt),
		};

		good = supervisor_client_start(run->context->supervisor, &spec, &run->spawned, &error);
	}
	for (int i = 0; i < SPAWN_FDS; i++)
		close_end(&theirs[i]);
	for (int i = 0; environment[i]; i++)
		free(environment[i]);
	if (!good && error.code == STATUS(UNAVAILABLE))
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "supervisor", "%s", error.message);
	else if (!good)
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "exec", "%s", error.message);
	return good;
}

static void feed(struct run *run)
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
	if (run->result_room - run->result_length < READ_BYTES + 1) {
		run->result_room = 2 * run->result_room + READ_BYTES + 1;
		run->result = realloc(run->result, run->result_room);
		if (!run->result)
			abort();
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
		messages_complain(
		    &run->messages, "extend must be a duration (\"90s\", \"10m\", or a number of seconds)");
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

/* Asks a manager for the extension that the program wants, one at a time and no more than one per ASK_EVERY_MS; of
 * several, the last counts. Returns when to ask if it is too early now, else INT64_MAX. */
static int64_t ask_extension(struct run *run)
{
	int64_t now_ms = clock_monotonic_ms(), rest_ms = run->extend_until_ms - now_ms;

	if (!run->extend_until_ms || atomic_load(&run->attempt->extending) || run->asked_to_end)
		return INT64_MAX;
	if (now_ms < run->ask_from_ms)
		return run->ask_from_ms;
	run->extend_until_ms = 0;
	run->ask_from_ms = now_ms + ASK_EVERY_MS;
	if (rest_ms > 0)
		extensions_request(run->attempt, rest_ms);
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
	int64_t rest = until_ms == INT64_MAX ? -1 : until_ms - clock_monotonic_ms();
	uint64_t count;

	if (until_ms != INT64_MAX && rest < 0)
		rest = 0;
	if (poll(ready, sizeof ready / sizeof *ready, rest > 3600 * 1000 ? 3600 * 1000 : (int)rest) <= 0)
		return;
	if (ready[0].revents && read(run->context->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
		abort();
	if (ready[1].revents)
		feed(run);
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

/* Completes the attempt with the output as the result. */
static void complete(struct run *run)
{
	struct reeve_outcome *outcome = &run->attempt->outcome;

	if (!utf8_valid(run->result ? run->result : "", run->result_length)) {
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "result-not-utf8",
		    "the output of %zu bytes is not UTF-8 text without NUL bytes", run->result_length);
		return;
	}
	outcome->kind = REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
	if (run->result_length) {
		run->result[run->result_length] = '\0';
		outcome->result = run->result;
		run->result = NULL;
	}
}

/* Fails the attempt because of an invalid message: the work may be done, but what the program reported about it is
 * unknown, so a person must check. Its output, which is not a result now, is kept after its standard error. */
static void end_unsure(struct run *run)
{
	char *error = tail_text(&run->error, TAIL_BYTES);
	char *output = utf8_repair(run->result ? run->result : "", run->result_length);

	attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "bad_message", "%s", run->messages.problem);
	if (*output && !run->answer.stack)
		run->answer.stack = print("%s%sstandard output:\n%s", error, *error ? "\n" : "", output);
	free(error);
	free(output);
}

/* Fails the attempt, with the error from its messages, standard error or exit status. */
static void fail(struct run *run, Reeve__V1__Outcome outcome, int status)
{
	const char *problem = run->messages.problem;
	char *said = run->answer.error ? print("%s", run->answer.error) : tail_text(&run->error, ERROR_BYTES);
	char code[32];

	if (WIFSIGNALED(status))
		snprintf(code, sizeof code, "signal:%d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(code, sizeof code, "exit:%d", WEXITSTATUS(status));
	else
		snprintf(code, sizeof code, "directive:%s",
		    outcome == REEVE__V1__OUTCOME__OUTCOME_FATAL ? "NO_RETRY" : "RETRY");
	if (!*said) {
		free(said);
		if (WIFSIGNALED(status))
			said = print("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
		else if (WEXITSTATUS(status))
			said = print("exit status %d", WEXITSTATUS(status));
		else
			said = print("the program says %s", code + strlen("directive:"));
	}
	attempt_end(run->attempt, outcome, run->answer.code && *run->answer.code ? run->answer.code : code, "%s%s%s%s",
	    said, *problem ? " (and " : "", problem, *problem ? ")" : "");
	free(said);
}

/* Sets the outcome of a program that ended on its own. Its directive on descriptor 3 overrides its exit status, except
 * that a program that reported SUCCESS and was killed before it could exit has not succeeded. */
static void judge_end(struct run *run, int status)
{
	Reeve__V1__Outcome outcome = REEVE__V1__OUTCOME__OUTCOME_FAILED;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		outcome = REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
	else if (WIFEXITED(status) && WEXITSTATUS(status) == EX_DATAERR)
		outcome = REEVE__V1__OUTCOME__OUTCOME_FATAL;
	if (run->answer.directive == DIRECTIVE_SUCCESS && WIFEXITED(status))
		outcome = REEVE__V1__OUTCOME__OUTCOME_COMPLETED;
	else if (run->answer.directive == DIRECTIVE_RETRY)
		outcome = REEVE__V1__OUTCOME__OUTCOME_FAILED;
	else if (run->answer.directive == DIRECTIVE_NO_RETRY)
		outcome = REEVE__V1__OUTCOME__OUTCOME_FATAL;
	if (outcome != REEVE__V1__OUTCOME__OUTCOME_COMPLETED)
		fail(run, outcome, status);
	else if (run->messages.problem[0])
		end_unsure(run);
	else
		complete(run);
}

/* Adds the remark and the stage to the outcome, and the stack and retry delay if the attempt failed. */
static void add_messages(struct run *run)
{
	struct reeve_outcome *outcome = &run->attempt->outcome;
	char *stack = run->answer.stack;

	outcome->remark = run->answer.remark;
	run->answer.remark = NULL;
	outcome->stage = run->answer.stage;
	run->answer.stage = NULL;
	if (outcome->kind != REEVE__V1__OUTCOME__OUTCOME_FAILED && outcome->kind != REEVE__V1__OUTCOME__OUTCOME_FATAL)
		return;
	outcome->retry_in_ms = run->answer.retry_in_ms;
	outcome->stack = stack ? stack : tail_text(&run->error, TAIL_BYTES);
	run->answer.stack = NULL;
}

static void judge(struct run *run, const struct spawn_end *end)
{
	enum stop_reason stop = atomic_load(&run->attempt->stop);
	char *said;

	if (end->lost && !end->begun) {
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "supervisor",
		    "the worker's supervisor process has died");
	} else if (end->lost && (stop == STOP_NONE || (stop == STOP_DRAIN && !run->reached))) {
		/* This program itself may have killed the supervisor, so this costs an attempt: otherwise it would return and
		 * do it again, forever. The supervisor's death also makes the worker drain; STOP_DRAIN is the reason only if
		 * its signal reached the program. */
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "supervisor",
		    "the worker's supervisor process has died, and this with it");
	} else if (end->lost) {
		attempt_end_stopped(run->attempt, stop);
	} else if (end->lease && !run->too_long && !run->timed_out) {
		attempt_end_stopped(run->attempt, stop == STOP_NONE ? STOP_LEASE : stop);
	} else if (end->start_error) {
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "exec", "cannot start %s%s%s: %s",
		    run->spec->path, run->spec->directory ? " in " : "",
		    run->spec->directory ? run->spec->directory : "", strerror(end->start_error));
	} else if (run->too_long) {
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "output-too-long",
		    "the output is longer than %zu bytes (max-output)", run->spec->max_output_bytes);
	} else if (!end->signalled && !end->lease) {
		judge_end(run, end->status);
	} else if (run->timed_out) {
		said = tail_text(&run->error, ERROR_BYTES);
		attempt_end_late(run->attempt, said);
		free(said);
	} else {
		attempt_end_stopped(run->attempt, stop);
	}
}

/* Lets writes to a pipe without a reader fail without a signal on this thread; `before` is for release_sigpipe. */
static void hold_sigpipe(sigset_t *before)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &blocked, before);
}

static void release_sigpipe(const sigset_t *before)
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
	hold_sigpipe(&before);
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
		judge(&run, &end);
		add_messages(&run);
	}
	close_end(&run.input);
	close_end(&run.output);
	tail_clear(&run.error);
	messages_clear(&run.messages);
	answer_clear(&run.answer);
	free(run.result);
	release_sigpipe(&before);
}

void exec_spec_clear(struct exec_spec *spec)
{
	arguments_free(spec->argv);
	arguments_free(spec->environment);
	free(spec->path);
	free(spec->directory);
	*spec = (struct exec_spec){0};
}

static void exec_release(struct handler *handler)
{
	exec_spec_clear(&((struct exec_handler *)handler)->spec);
}

struct handler *exec_handler_create(const char *type, const struct exec_spec *spec)
{
	struct exec_handler *handler = calloc(1, sizeof *handler);

	if (!handler)
		abort();
	handler_init(&handler->base, type);
	handler->base.timeout_ms = spec->timeout_ms;
	handler->base.processes = true;
	handler->base.run = exec_run;
	handler->base.release = exec_release;
	handler->spec = *spec;
	return &handler->base;
}
