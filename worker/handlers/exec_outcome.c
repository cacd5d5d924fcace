/* The outcome of a program: from its exit status, its output, and what it reported on descriptor 3. */
#include "worker/handlers/run.h"

#include "common/mem.h"
#include "common/text.h"
#include "worker/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

enum { ERROR_BYTES = 4096 }; /* the last bytes of standard error that become the error; more of it becomes the stack */

/* Completes the attempt with the output as the result. */
static void complete(struct run *run)
{
	bool empty = !run->result_length;

	attempt_complete(run->attempt, empty ? NULL : run->result, run->result_length);
	if (!empty)
		run->result = NULL;
}

/* Fails the attempt because of an invalid message: the work may be done, or must not be done again, but what the
 * program reported about it is unknown, so a person must check. Its output, which is not a result now, is kept after
 * its standard error. */
static void end_unsure(struct run *run)
{
	char *error = tail_text(&run->error, TAIL_BYTES);
	char *output = utf8_repair(run->result ? run->result : "", run->result_length);

	attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "bad_message", "%s", run->messages.problem);
	if (*output && !run->answer.stack_trace)
		run->answer.stack_trace = mem_asprintf("%s%sstandard output:\n%s", error, *error ? "\n" : "", output);
	free(error);
	free(output);
}

/* Fails the attempt, with the error from its messages, standard error or exit status. The remark of a program that only
 * gave a directive is the reason for it. */
static void fail(struct run *run, Reeve__V1__Outcome outcome, int status)
{
	const char *problem = run->messages.problem;
	char *message = run->answer.error ? mem_strdup(run->answer.error) : tail_text(&run->error, ERROR_BYTES);
	char code[32];

	if (WIFSIGNALED(status))
		snprintf(code, sizeof code, "signal:%d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(code, sizeof code, "exit:%d", WEXITSTATUS(status));
	else
		snprintf(
		    code, sizeof code, "directive:%s", outcome == REEVE__V1__OUTCOME__OUTCOME_FATAL ? "NO_RETRY" : "RETRY");
	if (!*message) {
		free(message);
		if (WIFSIGNALED(status))
			message = mem_asprintf("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
		else if (WEXITSTATUS(status))
			message = mem_asprintf("exit status %d", WEXITSTATUS(status));
		else if (run->answer.remark && *run->answer.remark)
			message = mem_strdup(run->answer.remark);
		else
			message = mem_asprintf("the program reports %s", code + strlen("directive:"));
	}
	attempt_end(run->attempt, outcome, run->answer.code && *run->answer.code ? run->answer.code : code, "%s%s%s%s",
	    message, *problem ? " (and " : "", problem, *problem ? ")" : "");
	free(message);
}

/* The directive on descriptor 3 overrides the exit status, except that a program that reported SUCCESS and was killed
 * before it could exit has not succeeded. */
void run_set_reported(struct run *run, int status)
{
	Reeve__V1__Outcome outcome = REEVE__V1__OUTCOME__OUTCOME_FAILED;

	if (run->answer.directive == DIRECTIVE_UNKNOWN) {
		end_unsure(run);
		return;
	}
	if (run->answer.directive == DIRECTIVE_SKIP) {
		reeve_outcome_skip(&run->attempt->outcome, run->answer.error);
		return;
	}
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

/* Adds the remark and the stage, and the stack and retry delay if the attempt failed. */
void run_add_messages(struct run *run)
{
	struct reeve_outcome *outcome = &run->attempt->outcome;
	char *stack = run->answer.stack_trace;

	if (run->answer.remark)
		attempt_report_remark(run->attempt, run->answer.remark);
	outcome->stage = run->answer.stage;
	run->answer.stage = NULL;
	if (outcome->kind != REEVE__V1__OUTCOME__OUTCOME_FAILED && outcome->kind != REEVE__V1__OUTCOME__OUTCOME_FATAL)
		return;
	outcome->retry_in_ms = run->answer.retry_in_ms;
	outcome->stack_trace = stack ? stack : tail_text(&run->error, TAIL_BYTES);
	run->answer.stack_trace = NULL;
}

bool run_set_stopped(struct run *run, const struct spawn_end *end)
{
	enum stop_reason stop = atomic_load(&run->attempt->stop);
	char *message;

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
		    run->spec->path, run->spec->directory ? " in " : "", run->spec->directory ? run->spec->directory : "",
		    strerror(end->start_error));
	} else if (run->too_long) {
		attempt_end(run->attempt, REEVE__V1__OUTCOME__OUTCOME_FATAL, "output-too-long",
		    "the output is longer than %zu bytes (max-output)", run->spec->max_output_bytes);
	} else if (!end->signalled && !end->lease) {
		return false;
	} else if (run->timed_out) {
		message = run->keeps_input && *run->messages.problem ? mem_strdup(run->messages.problem)
		                                                     : tail_text(&run->error, ERROR_BYTES);
		attempt_end_late(run->attempt, message);
		free(message);
	} else {
		attempt_end_stopped(run->attempt, stop);
	}
	return true;
}
