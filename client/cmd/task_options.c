/* Checks the options of a task and makes a task of them. */
#include "client/cmd/task_options.h"

#include "client/cmd/command.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNLIMITED_DETAILS = 64 * 1024 * 1024 };

const struct task_options task_options_none = {
    .priority = NOT_GIVEN,
    .max_attempts = NOT_GIVEN,
    .retry_limit = NOT_GIVEN,
    .jitter = NOT_GIVEN,
    .version = NOT_GIVEN,
    .batch = NOT_GIVEN,
    .delay_ms = NOT_GIVEN,
    .key_ttl_ms = NOT_GIVEN,
    .timeout_ms = NOT_GIVEN,
    .retry_base_ms = NOT_GIVEN,
    .retry_max_ms = NOT_GIVEN,
    .at_us = NOT_GIVEN,
};

static bool given(int64_t number)
{
	return number != NOT_GIVEN;
}

static int64_t or_zero(int64_t number)
{
	return given(number) ? number : 0;
}

/* Returns what is wrong if an option is set that a pipeline's stages define, or NULL. */
static const char *said_by_stages(const struct task_options *options)
{
	if (given(options->max_attempts))
		return "--max-attempts cannot be combined with --pipeline, whose stages set it";
	if (given(options->retry_limit))
		return "--retry-limit cannot be combined with --pipeline, whose stages set it";
	if (given(options->timeout_ms))
		return "--timeout cannot be combined with --pipeline, whose stages set it";
	if (given(options->retry_base_ms))
		return "--retry-base cannot be combined with --pipeline, whose stages set it";
	if (given(options->retry_max_ms))
		return "--retry-max cannot be combined with --pipeline, whose stages set it";
	if (options->backoff)
		return "--backoff cannot be combined with --pipeline, whose stages set it";
	return given(options->jitter) ? "--jitter cannot be combined with --pipeline, whose stages set it" : NULL;
}

const char *task_options_problem(const struct task_options *options)
{
	if (given(options->delay_ms) && given(options->at_us))
		return "--delay and --at cannot be combined";
	if (given(options->at_us) && options->at_us < 0)
		return "--at lies before 1970";
	if (options->queue && !*options->queue)
		return "--queue is empty";
	if (options->key && !*options->key)
		return "--key is empty";
	if (options->source && !*options->source)
		return "--source is empty";
	if (given(options->max_attempts) && given(options->retry_limit))
		return "--max-attempts and --retry-limit cannot be combined";
	if (options->backoff && given(options->retry_base_ms))
		return "--backoff and --retry-base cannot be combined";
	if (options->pipeline && !*options->pipeline)
		return "--pipeline is empty";
	return options->pipeline ? said_by_stages(options) : NULL;
}

bool task_options_growth(struct task_options *options, struct reeve_error *error)
{
	Reeve__V1__RetryPolicy *policy = &options->growth.policy;
	int64_t jitter = given(options->jitter) ? options->jitter : -1;

	if (options->backoff && !backoff_parse(&options->growth, options->backoff, jitter, error))
		return false;
	if (!options->backoff) {
		policy->base_ms = or_zero(options->retry_base_ms);
		policy->jitter_percent = jitter == 0 ? -1 : jitter > 0 ? (int32_t)jitter : 0;
	}
	if (policy->max_ms && or_zero(options->retry_max_ms))
		return error_set(error, STATUS(INVALID_ARGUMENT), "its CAP and --retry-max cannot be combined");
	if (or_zero(options->retry_max_ms))
		policy->max_ms = options->retry_max_ms;
	return true;
}

bool task_options_retry_given(const struct task_options *options)
{
	return options->backoff || given(options->jitter) || or_zero(options->retry_base_ms) ||
	       or_zero(options->retry_max_ms);
}

Reeve__V1__TaskSpec task_options_spec(struct task_options *options, const char *type)
{
	int64_t attempts = given(options->retry_limit) ? options->retry_limit + 1 : or_zero(options->max_attempts);

	return (Reeve__V1__TaskSpec){
	    .queue = options->queue,
	    .type = type,
	    .priority = (int32_t)or_zero(options->priority),
	    .delay_ms = or_zero(options->delay_ms),
	    .run_at_us = or_zero(options->at_us),
	    .key = options->key,
	    .key_ttl_ms = or_zero(options->key_ttl_ms),
	    .max_attempts = (uint32_t)attempts,
	    .timeout_ms = or_zero(options->timeout_ms),
	    .retry = task_options_retry_given(options) ? &options->growth.policy : NULL,
	    .source = options->source,
	    .version = or_zero(options->version),
	    .batch_id = or_zero(options->batch),
	    .pipeline = options->pipeline,
	};
}

char *task_details_read(struct reeve_client *client, int *code)
{
	struct reeve_failure failure = {0};
	size_t limit, capacity = 64 * 1024, length = 0;
	char *text;

	if (!reeve_client_ready(client, &failure)) {
		*code = command_failed(&failure);
		return NULL;
	}
	limit = reeve_client_max_details(client);
	if (limit == 0)
		limit = UNLIMITED_DETAILS;
	text = malloc(capacity + 1);
	/* One byte more than the limit is read; then the details are refused as too long. */
	while (text && length <= limit) {
		size_t more = fread(text + length, 1, capacity - length, stdin);

		length += more;
		if (more == 0)
			break;
		if (length == capacity) {
			capacity *= 2;
			text = realloc(text, capacity + 1);
		}
	}
	if (!text)
		abort();
	if (ferror(stdin)) {
		command_log("standard input cannot be read");
		*code = EXIT_USAGE;
		free(text);
		return NULL;
	}
	text[length] = '\0';
	if (strlen(text) == length)
		return text;
	command_log("details holds a NUL byte");
	*code = EXIT_REFUSED;
	free(text);
	return NULL;
}
