/* Checks the options of a task and completes the task. */
#include "client/cmd/task_options.h"

#include "client/cmd/command.h"

#include <reeve/v1/batch_calls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 40 };

static bool is_set(const struct option_message *message, const char *prefix, const char *field)
{
	char path[PATH];

	snprintf(path, sizeof path, "%s%s", prefix, field);
	return option_is_set(message, path);
}

static bool wrong(struct reeve_error *error, const char *one, const char *other)
{
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s cannot be combined%s", one, other);
}

/* Checks that no option is set that a pipeline's stages define. */
static bool stages_set_it(const struct option_message *message, const char *prefix, const struct task_options *options,
    struct reeve_error *error)
{
	static const char of_stages[] = " with --pipeline, whose stages set it";

	if (!is_set(message, prefix, "pipeline"))
		return true;
	if (is_set(message, prefix, "max_attempts"))
		return wrong(error, "--max-attempts", of_stages);
	if (options->retry_limit != NOT_GIVEN)
		return wrong(error, "--retry-limit", of_stages);
	if (is_set(message, prefix, "timeout_ms"))
		return wrong(error, "--timeout", of_stages);
	if (is_set(message, prefix, "retry.base_ms"))
		return wrong(error, "--retry-base", of_stages);
	if (is_set(message, prefix, "retry.max_ms"))
		return wrong(error, "--retry-max", of_stages);
	if (options->backoff)
		return wrong(error, "--backoff", of_stages);
	return !is_set(message, prefix, "retry.jitter_percent") || wrong(error, "--jitter", of_stages);
}

/* Combines the options of the retry policy. */
static bool complete_retry(const struct option_message *message, const char *prefix, struct task_options *options,
    Reeve__V1__TaskSpec *task, struct reeve_error *error)
{
	Reeve__V1__RetryPolicy *given = task->retry, *policy = &options->growth.policy;
	int64_t jitter = is_set(message, prefix, "retry.jitter_percent") ? given->jitter_percent : -1;
	struct reeve_error problem = {0};

	if (options->backoff) {
		if (!backoff_parse(&options->growth, options->backoff, jitter, &problem))
			return error_set(error, STATUS(INVALID_ARGUMENT), "--backoff: %s", problem.message);
		if (policy->max_ms && given && given->max_ms)
			return wrong(error, "--backoff: its CAP and --retry-max", "");
		if (given && given->max_ms)
			policy->max_ms = given->max_ms;
		task->retry = policy;
	} else if (given) {
		given->jitter_percent = jitter == 0 ? -1 : jitter > 0 ? (int32_t)jitter : 0;
		if (!given->base_ms && !given->max_ms && !given->jitter_percent)
			task->retry = NULL;
	}
	return true;
}

bool task_options_complete(const struct option_message *message, const char *prefix, struct task_options *options,
    Reeve__V1__TaskSpec *task, struct reeve_error *error)
{
	if (is_set(message, prefix, "delay_ms") && is_set(message, prefix, "run_at_us"))
		return wrong(error, "--delay and --at", "");
	if (is_set(message, prefix, "max_attempts") && options->retry_limit != NOT_GIVEN)
		return wrong(error, "--max-attempts and --retry-limit", "");
	if (options->backoff && is_set(message, prefix, "retry.base_ms"))
		return wrong(error, "--backoff and --retry-base", "");
	if (is_set(message, prefix, "stage") && !is_set(message, prefix, "pipeline"))
		return error_set(error, STATUS(INVALID_ARGUMENT), "--stage needs --pipeline");
	if (!stages_set_it(message, prefix, options, error))
		return false;
	if (options->retry_limit != NOT_GIVEN)
		task->max_attempts = (uint32_t)options->retry_limit + 1;
	task->own_priority = is_set(message, prefix, "priority");
	return complete_retry(message, prefix, options, task, error);
}

Reeve__V1__BatchReportResponse *task_options_batch(struct reeve_client *client, int64_t id, int *code)
{
	Reeve__V1__BatchReportRequest request = {.id = id, .limit = 1};
	struct reeve_failure failure = {0};
	Reeve__V1__BatchReportResponse *batch = reeve_batch_report(client, &request, NULL, &failure);

	if (!batch)
		*code = command_failed(&failure);
	return batch;
}

char *task_details_read(struct reeve_client *client, int *code)
{
	struct reeve_failure failure = {0};

	if (!reeve_client_ready(client, &failure)) {
		*code = command_failed(&failure);
		return NULL;
	}
	return command_read_input("details", reeve_client_max_details(client), code);
}
