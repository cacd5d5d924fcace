/*
 * Handlers that are programs which stay: a child reads a line for each task from its standard input, and writes lines
 * to its standard output: progress, log lines, and an answer.
 *
 * A child has one task at a time. While it has none, it is in its handler's stack. A slot's thread takes it from there,
 * or starts one if there is none; so there are never more than slots that run this handler, and slots.c runs no more
 * than `children` of them. The child is put back once it has answered. After anything else (it has died, the attempt
 * was stopped, a line is not the task's) it is ended, with its process group, before the attempt ends. So a child never
 * has two attempts, and what it says cannot be taken for another's: each line has the id of its attempt.
 *
 * Nothing reads what an idle child writes, and nothing waits for its end: the next slot that takes it finds out.
 */
#include "common/clock.h"
#include "common/mem.h"
#include "worker/backoff.h"
#include "worker/handlers/answer.h"
#include "worker/handlers/kinds.h"
#include "worker/handlers/stdio_lines.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	STDIO_FDS = 3,
	STRAY_READS = 64,   /* of the standard error of an idle child; a pipe holds less than that */
	ERROR_BYTES = 4096, /* the last bytes of standard error that become the error */
};

struct child {
	struct child *next;
	struct spawned spawned;
	int input, output, error;
};

struct stdio_handler {
	struct handler base;
	struct handler_spec spec;

	pthread_mutex_t lock; /* guards the fields below */
	struct child *idle;
	struct backoff backoff;
	_Atomic bool failed;                  /* the last child that had a task has not answered */
	struct supervisor_client *supervisor; /* of the idle children */
	int64_t kill_grace_ms;                /* how long they may take to end */
};

/* An attempt with its child. */
struct stdio_run {
	struct stdio_lines lines; /* first, with the run first */
	struct stdio_handler *handler;
	char *task; /* the task's line */
	bool used;  /* the child has had a task before */
};

/* ---- children ---- */

/* Closes the pipes of a child and lets it end by itself: the end of its input asks for that. */
static void retire(struct stdio_handler *handler, struct child *child, int64_t grace_ms)
{
	run_close(&child->input);
	run_close(&child->output);
	run_close(&child->error);
	supervisor_client_retire(handler->supervisor, &child->spawned, grace_ms);
	free(child);
}

/* Logs what a child has written outside of its answers; it will be ended. */
static void log_stray(const char *about, char *text, size_t length)
{
	struct messages messages = {.about = about, .source = "standard output", .text = text, .length = length};

	messages_complain(&messages, "a child has written something without a task, and is ended");
}

/* Returns true if an idle child can have a task: it runs and has written nothing. Discards its standard error. */
static bool is_usable(const struct stdio_handler *handler, struct child *child)
{
	struct pollfd ready[] = {{.fd = child->output, .events = POLLIN}, {.fd = child->error, .events = POLLIN}};
	struct tail error = {.fd = child->error};
	char text[120];
	ssize_t length;

	if (poll(ready, 2, 0) <= 0)
		return true;
	for (int i = 0; ready[1].revents && i < STRAY_READS && tail_read(&error); i++)
		error.length = 0;
	free(error.bytes);
	child->error = error.fd;
	length = ready[0].revents ? read(child->output, text, sizeof text) : -1;
	if (length <= 0)
		return length < 0 && child->error >= 0;
	if (stdio_lines_blank(text, (size_t)length))
		return true;
	log_stray(handler->base.type, text, (size_t)length);
	return false;
}

/* Starts a child for the attempt. False: the attempt has ended with the error. */
static bool start_child(struct stdio_run *child)
{
	child->used = false;
	return run_start(&child->lines.run, NULL, STDIO_FDS);
}

/* Takes an idle child, or starts one. False: the attempt has ended with the error. */
static bool take_child(struct stdio_run *child)
{
	struct stdio_handler *handler = child->handler;
	struct run *run = &child->lines.run;
	struct child *idle;

	for (;;) {
		pthread_mutex_lock(&handler->lock);
		handler->supervisor = run->context->supervisor;
		handler->kill_grace_ms = run->context->kill_grace_ms;
		idle = handler->idle;
		if (idle)
			handler->idle = idle->next;
		pthread_mutex_unlock(&handler->lock);
		if (!idle)
			return start_child(child);
		if (is_usable(handler, idle))
			break;
		retire(handler, idle, 0);
	}
	run->spawned = idle->spawned;
	run->input = idle->input;
	run->output = idle->output;
	run->error.fd = idle->error;
	free(idle);
	child->used = true;
	supervisor_client_follow(run->context->supervisor, &run->spawned, run->context->event_fd);
	return true;
}

/* Puts a child that has answered back, or ends it if it has written more than that, or cannot get another task. */
static void put_child(struct stdio_run *child)
{
	struct stdio_handler *handler = child->handler;
	struct run *run = &child->lines.run;
	struct child *idle = mem_malloc(sizeof *idle);
	bool stray;

	*idle = (struct child){NULL, run->spawned, run->input, run->output, run->error.fd};
	supervisor_client_follow(run->context->supervisor, &run->spawned, -1);
	run->input = run->output = run->error.fd = -1;
	stray = !stdio_lines_blank(child->lines.text, child->lines.length);
	if (stray)
		log_stray(run->name, child->lines.text, child->lines.length);
	if (stray || run->details_left || idle->input < 0 || idle->output < 0 || idle->error < 0) {
		retire(handler, idle, 0);
		return;
	}
	pthread_mutex_lock(&handler->lock);
	idle->next = handler->idle;
	handler->idle = idle;
	pthread_mutex_unlock(&handler->lock);
}

/* Counts a child that has answered, or has not. From the second in a row that has not, the handler pauses: slots.c. */
static void count_answer(struct stdio_handler *handler, bool answered)
{
	if (answered && !atomic_load(&handler->failed))
		return;
	pthread_mutex_lock(&handler->lock);
	if (answered)
		backoff_clear(&handler->backoff);
	else if (atomic_load(&handler->failed))
		backoff_fail(&handler->backoff, clock_monotonic_ms());
	atomic_store(&handler->failed, !answered);
	atomic_store(&handler->base.resume_ms, handler->backoff.until_ms);
	pthread_mutex_unlock(&handler->lock);
}

/* ---- an attempt ---- */

/* Writes the task's line: what exec handlers have in the environment and on standard input. */
static void write_task(struct stdio_run *child)
{
	const struct reeve_attempt *attempt = &child->lines.run.attempt->public;
	char token[REEVE_ATTEMPT_TOKEN_BYTES] = "", *text;
	size_t length;
	json_t *task;

	reeve_attempt_access_token(attempt, token);
	snprintf(
	    child->lines.id, sizeof child->lines.id, "%lld-%lld", (long long)attempt->task_id, (long long)attempt->token);
	task = json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s}", "id", child->lines.id, "task_id",
	    (json_int_t)attempt->task_id, "type", attempt->type, "queue", attempt->queue, "key", attempt->key, "stage",
	    attempt->stage, "attempt", (json_int_t)attempt->attempt, "max_attempts", (json_int_t)attempt->max_attempts,
	    "token", (json_int_t)attempt->token, "traceparent", attempt->traceparent, "access_token", token, "details",
	    attempt->details);
	mem_check(task != NULL);
	text = json_dumps(task, JSON_COMPACT);
	mem_check(text != NULL);
	json_decref(task);
	length = strlen(text);
	child->task = mem_realloc(text, length + 2);
	child->task[length++] = '\n';
	child->task[length] = '\0';
	child->lines.run.details = child->task;
	child->lines.run.details_left = length;
}

/* Sets the outcome of an attempt whose child ended on its own, without an answer. */
static void set_died(struct stdio_run *child, int status)
{
	struct run *run = &child->lines.run;
	char *error = tail_text(&run->error, ERROR_BYTES), code[32], how[100];

	if (WIFSIGNALED(status)) {
		snprintf(code, sizeof code, "signal:%d", WTERMSIG(status));
		snprintf(how, sizeof how, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else {
		snprintf(code, sizeof code, "exit:%d", WEXITSTATUS(status));
		snprintf(how, sizeof how, "exit status %d", WEXITSTATUS(status));
	}
	attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, code,
	    "the child ended before its answer: %s%s%s%s%s%s", how, *run->messages.problem ? " (and " : "",
	    run->messages.problem, *run->messages.problem ? ")" : "", *error ? "\n" : "", error);
	free(error);
}

/* Sets the outcome of an attempt whose child has ended. */
static void set_ended(struct stdio_run *child, const struct spawn_end *end)
{
	struct run *run = &child->lines.run;

	if (child->lines.length && !run->answered) {
		stdio_lines_complain(&child->lines, "a line without its end");
	}
	if (run->broken_ms && end->signalled && !run->timed_out && atomic_load(&run->attempt->stop) == STOP_NONE)
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FAILED, "bad_message", "%s",
		    *run->messages.problem ? run->messages.problem : "the child closed its standard output before its answer");
	else if (run_set_stopped(run, end))
		;
	else if (run->answered)
		run_set_reported(run, 0);
	else
		set_died(child, end->status);
}

/* Returns true if a child that has had tasks before has ended without reading this one. Then another child gets it. */
static bool is_unread(const struct stdio_run *child, const struct spawn_end *end)
{
	const struct run *run = &child->lines.run;
	size_t length = strlen(child->task);
	int unread = 0;

	return child->used && !end->signalled && !end->lease && !end->lost && !run->answered && !child->lines.length &&
	    (run->details_left == length ||
	        (run->input >= 0 && ioctl(run->input, FIONREAD, &unread) == 0 &&
	            (size_t)unread == length - run->details_left));
}

/* Runs the attempt in one child. Returns true if that has not seen it, so that another child must run it. */
static bool run_in_child(struct stdio_handler *handler, const struct handler_context *context, struct attempt *attempt)
{
	struct stdio_run child = {
	    .lines.run = {.context = context,
	        .spec = &handler->spec,
	        .attempt = attempt,
	        .input = -1,
	        .output = -1,
	        .error = {.fd = -1},
	        .messages = {.fd = -1, .source = "standard output"},
	        .keeps_input = true},
	    .handler = handler,
	};
	struct run *run = &child.lines.run;
	bool unread = false;
	struct spawn_end end;

	run->messages.about = attempt_name(attempt, run->name);
	write_task(&child);
	if (!take_child(&child)) {
		count_answer(handler, false);
	} else if (run_write(run), !run_follow(run, stdio_lines_read, &end)) {
		run_set_reported(run, 0);
		count_answer(handler, true);
		put_child(&child);
	} else {
		run_read_rest(run, stdio_lines_read);
		unread = is_unread(&child, &end);
		if (!unread)
			set_ended(&child, &end);
		if (run->answered)
			count_answer(handler, true);
		else if (!end.lease && !end.lost && !unread && !run->timed_out && atomic_load(&attempt->stop) == STOP_NONE)
			count_answer(handler, false);
	}
	run_add_messages(run);
	run_clear(run);
	free(child.task);
	free(child.lines.text);
	return unread;
}

static void stdio_run(struct handler *handler, const struct handler_context *context, struct attempt *attempt)
{
	sigset_t before;

	run_block_sigpipe(&before);
	while (run_in_child((struct stdio_handler *)handler, context, attempt))
		;
	run_unblock_sigpipe(&before);
}

static void stdio_release(struct handler *base)
{
	struct stdio_handler *handler = (struct stdio_handler *)base;
	struct child *child, *next;

	for (child = handler->idle; child; child = next) {
		next = child->next;
		retire(handler, child, handler->kill_grace_ms);
	}
	pthread_mutex_destroy(&handler->lock);
	handler_spec_clear(&handler->spec);
}

struct handler *stdio_handler_create(const char *type, struct handler_spec *spec, struct reeve_error *error)
{
	struct stdio_handler *handler = mem_calloc(1, sizeof *handler);

	handler_init(&handler->base, type);
	handler->base.timeout_ms = spec->timeout_ms;
	handler->base.processes = true;
	handler->base.max_running = spec->children;
	handler->base.run = stdio_run;
	handler->base.release = stdio_release;
	handler->spec = *spec;
	*spec = (struct handler_spec){0};
	(void)error;
	pthread_mutex_init(&handler->lock, NULL);
	return &handler->base;
}
