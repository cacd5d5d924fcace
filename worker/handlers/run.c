/* A process, its pipes, and the attempt that it runs. */
#include "worker/handlers/run.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/rpc/tls.h"
#include "common/text.h"
#include "worker/extensions.h"
#include "worker/lease.h"
#include "worker/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	ASK_INTERVAL_MS = 200, /* between two requests of a handler for more time */
	READS_LAST = 64,       /* of standard error, at the end; a pipe holds less than that */
};

void run_close(int *fd)
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

/* Returns the variable for a file of the worker, with a path that is valid in any folder; NULL: there is no such file.
 */
static char *file_variable(const char *name, const char *path)
{
	char *folder, *variable;

	if (!text_given(path))
		path = getenv(name);
	if (!text_given(path))
		return NULL;
	folder = *path == '/' ? NULL : getcwd(NULL, 0);
	variable = mem_asprintf("%s=%s%s%s", name, folder ? folder : "", folder ? "/" : "", path);
	free(folder);
	return variable;
}

/* Adds the variables that every program gets: the managers' addresses and, of the worker's TLS files, those by which it
 * verifies them; and those of another user. Returns the list of all, which ends with NULL; those from *own on must be
 * freed, with the list. */
static char **add_variables(const struct run *run, const char *const *environment, size_t *own)
{
	const struct handler_context *context = run->context;
	const struct handler_spec *spec = run->spec;
	char *added[] = {
	    mem_asprintf("REEVE_MANAGER=%s", context->managers),
	    file_variable("REEVE_TLS_CA", context->tls->ca),
	    file_variable("REEVE_TLS_CRL", context->tls->crl),
	    spec->user ? mem_asprintf("HOME=%s", spec->home) : NULL,
	    spec->user ? mem_asprintf("USER=%s", spec->user_name) : NULL,
	    spec->user ? mem_asprintf("LOGNAME=%s", spec->user_name) : NULL,
	};
	size_t count = 0;
	char **all;

	while (environment && environment[count])
		count++;
	*own = count;
	all = mem_calloc(count + sizeof added / sizeof *added + 1, sizeof *all);
	if (count)
		memcpy(all, environment, count * sizeof *all);
	for (size_t i = 0; i < sizeof added / sizeof *added; i++)
		if (added[i])
			all[count++] = added[i];
	return all;
}

bool run_start(struct run *run, const char *const *variables, int fds)
{
	int theirs[SPAWN_FDS] = {-1, -1, -1, -1};
	size_t own;
	char **environment = add_variables(run, variables, &own);
	struct reeve_error error;
	bool started = open_pipe(&run->input, &theirs[0], true) && open_pipe(&run->output, &theirs[1], false) &&
	    open_pipe(&run->error.fd, &theirs[2], false) &&
	    (fds < SPAWN_FDS || open_pipe(&run->messages.fd, &theirs[3], false));

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
		run_close(&theirs[i]);
	for (size_t i = own; environment[i]; i++)
		free(environment[i]);
	free(environment);
	if (!started && error.code == STATUS(UNAVAILABLE))
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_RETURNED, "supervisor", "%s", error.message);
	else if (!started)
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "exec", "%s", error.message);
	return started;
}

void run_write(struct run *run)
{
	ssize_t written = write(run->input, run->details, run->details_left);

	if (written > 0) {
		run->details += written;
		run->details_left -= (size_t)written;
	} else if (written < 0 && errno != EAGAIN && errno != EINTR) {
		run_close(&run->input); /* it does not read its input */
	}
	if (!run->details_left && !run->keeps_input)
		run_close(&run->input);
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

/* {"progress": 40, "message": "page 3 of 7"}: the message is the remark. */
static void take_progress(struct run *run, const json_t *progress, const json_t *text)
{
	double percent = json_number_value(progress);

	if (!json_is_number(progress) || !(percent >= 0 && percent <= 100)) {
		messages_complain(&run->messages, "progress must be a number from 0 to 100");
		return;
	}
	attempt_report_progress(run->attempt, percent, json_string_value(text));
	if (json_is_string(text)) {
		free(run->answer.remark);
		run->answer.remark = mem_strdup(json_string_value(text));
	}
}

/* {"log": "opened the file"} */
static void take_log(struct run *run, const json_t *log)
{
	if (json_is_string(log))
		attempt_report_log(run->attempt, json_string_value(log), json_string_length(log));
	else
		messages_complain(&run->messages, "log must be a string");
}

static bool given(const json_t *value)
{
	return value && !json_is_null(value);
}

/* Ignores unknown members, which newer workers may know. */
void run_take_message(void *arg, const json_t *message)
{
	struct run *run = arg;
	const json_t *extend = json_object_get(message, "extend"), *log = json_object_get(message, "log");
	const json_t *progress = json_object_get(message, "progress");
	char problem[160];

	if (given(extend))
		want_extension(run, extend);
	if (given(log))
		take_log(run, log);
	if (given(progress))
		take_progress(run, progress, json_object_get(message, "message"));
	if (!answer_take(&run->answer, message, problem, sizeof problem))
		messages_complain(&run->messages, problem);
	run->remarked |= json_is_string(json_object_get(message, "remark"));
}

/* Returns true if the program wants more time, and a manager may be asked for it. Of the requests that are sent after
 * the timeout only the first counts, however fast the program asks again. */
static bool may_ask(const struct run *run)
{
	return run->extend_until_ms && run->ask_from_ms - ASK_INTERVAL_MS < atomic_load(&run->attempt->timeout_at_ms);
}

/* Asks a manager for the extension that the program wants, one at a time and no more than one per ASK_INTERVAL_MS; of
 * several, the last counts. Returns when to ask if it is too early now, else INT64_MAX. */
static int64_t ask_extension(struct run *run)
{
	int64_t now_ms = clock_monotonic_ms(), left_ms = run->extend_until_ms - now_ms;

	if (!may_ask(run) || atomic_load(&run->attempt->extending) || run->asked_to_end)
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
	/* Read before the timeout: an answer moves that first. */
	bool extending = atomic_load(&run->attempt->extending);
	int64_t now_ms = clock_monotonic_ms(), timeout_at_ms = atomic_load(&run->attempt->timeout_at_ms);
	int64_t lease_kill_ms = atomic_load(&run->attempt->lease->kill_ms);
	int64_t kill_at_ms = run->kill_at_ms < lease_kill_ms ? run->kill_at_ms : lease_kill_ms;
	/* Another worker may have the attempt now: no grace. */
	bool at_once =
	    run->too_long || (run->broken_ms && now_ms >= run->broken_ms) || stop == STOP_LOST || stop == STOP_ABANDON;

	/* While a manager is, or is about to be, asked for more time, only the attempt's last moment limits it. */
	if ((extending || may_ask(run)) && timeout_at_ms < attempt_last_moment(run->attempt))
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
		return run->broken_ms && run->broken_ms < timeout_at_ms ? run->broken_ms : timeout_at_ms;
	return run->kill_at_ms < lease_kill_ms ? run->kill_at_ms : lease_kill_ms;
}

/* Waits for an event, then reads and writes what the pipes allow. */
static void move(struct run *run, int64_t until_ms, bool (*read_output)(struct run *run))
{
	struct pollfd ready[] = {
	    {.fd = run->context->event_fd, .events = POLLIN},
	    {.fd = run->details_left ? run->input : -1, .events = POLLOUT},
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
		run_write(run);
	if (ready[2].revents)
		read_output(run);
	if (ready[3].revents)
		tail_read(&run->error);
	if (ready[4].revents)
		messages_read(&run->messages, run_take_message, run);
	if (run->remarked)
		attempt_report_remark(run->attempt, run->answer.remark);
	run->remarked = false;
}

bool run_follow(struct run *run, bool (*read_output)(struct run *run), struct spawn_end *end)
{
	while (!run->answered || run->asked_to_end) {
		int64_t ask_ms = ask_extension(run), until_ms = watch(run);

		if (supervisor_client_ended(run->context->supervisor, &run->spawned, end))
			return true;
		move(run, ask_ms < until_ms ? ask_ms : until_ms, read_output);
	}
	return false;
}

void run_read_rest(struct run *run, bool (*read_output)(struct run *run))
{
	while (read_output(run))
		;
	/* No process is left to write, unless one has left the group: this many reads are enough then. */
	for (int i = 0; i < READS_LAST && tail_read(&run->error); i++)
		;
	messages_finish(&run->messages, run_take_message, run);
}

void run_clear(struct run *run)
{
	run_close(&run->input);
	run_close(&run->output);
	tail_clear(&run->error);
	messages_clear(&run->messages);
	answer_clear(&run->answer);
	free(run->result);
}

void run_block_sigpipe(sigset_t *before)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &blocked, before);
}

void run_unblock_sigpipe(const sigset_t *before)
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
