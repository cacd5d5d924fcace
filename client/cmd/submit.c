/* `reeve submit`: one task from the command line; a file of them is bulk.c's. */
#include "client/cmd/backoff.h"
#include "client/cmd/bulk.h"
#include "client/cmd/command.h"
#include "client/cmd/follow.h"
#include "client/cmd/interrupts.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_TIMEOUT_MS (INT64_C(30) * 24 * 3600 * 1000)

enum { UNLIMITED_DETAILS = 64 * 1024 * 1024 };

struct submit_options {
	const char *queue;
	const char *key;
	const char *source;
	const char *bulk;
	const char *backoff;
	int64_t priority, max_attempts, retry_limit, jitter, version, batch;
	int64_t delay_ms, key_ttl_ms, timeout_ms, retry_base_ms, retry_max_ms;
	int64_t at_us;
	bool wait;
	struct backoff growth; /* what --backoff, --jitter, --retry-base and --retry-max say */
};

#define FIELD(field) .offset = offsetof(struct submit_options, field)

static const struct option_spec specs[] = {
    {.name = "queue",
        .type = OPTION_TEXT,
        FIELD(queue),
        .argument = "NAME",
        .letter = 'q',
        .sentence = "the queue it goes to; without it \"default\""},
    {.name = "priority",
        .type = OPTION_INTEGER,
        FIELD(priority),
        .min = -1000000,
        .max = 1000000,
        .argument = "N",
        .letter = 'p',
        .sentence = "higher goes first; without it 0"},
    {.name = "delay",
        .type = OPTION_DURATION,
        FIELD(delay_ms),
        .argument = "DURATION",
        .sentence = "due so much later: 30s, 5m, 1h30m, 2d"},
    {.name = "at",
        .type = OPTION_TIME,
        FIELD(at_us),
        .argument = "TIME",
        .sentence = "due at this time: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), +5m"},
    {.name = "key",
        .type = OPTION_TEXT,
        FIELD(key),
        .argument = "KEY",
        .letter = 'k',
        .sentence = "idempotency key: if the queue knows it, nothing is made and the first task's id is printed"},
    {.name = "key-ttl",
        .type = OPTION_DURATION,
        FIELD(key_ttl_ms),
        .argument = "DURATION",
        .sentence = "how long the key is kept; without it until a day after the task ended"},
    {.name = "version",
        .type = OPTION_INTEGER,
        FIELD(version),
        .min = 1,
        .max = INT64_MAX,
        .argument = "N",
        .sentence = "with --key: if N is greater than the version the key has, its task is run again as given now, "
                    "after its end if it is executing; if not, nothing changes"},
    {.name = "batch",
        .type = OPTION_INTEGER,
        FIELD(batch),
        .min = 1,
        .max = INT64_MAX,
        .argument = "ID",
        .letter = 'b',
        .sentence = "the open batch that it is to be in; without --queue it goes to that batch's queue"},
    {.name = "max-attempts",
        .type = OPTION_INTEGER,
        FIELD(max_attempts),
        .min = 1,
        .max = 10000,
        .argument = "N",
        .sentence = "attempts in all; without it the queue's, or 5"},
    {.name = "retry-limit",
        .type = OPTION_INTEGER,
        FIELD(retry_limit),
        .min = 0,
        .max = 9999,
        .argument = "N",
        .sentence = "attempts after the first: the same as --max-attempts N + 1"},
    {.name = "timeout",
        .type = OPTION_DURATION,
        FIELD(timeout_ms),
        .min = 1,
        .max = LONGEST_TIMEOUT_MS,
        .argument = "DURATION",
        .sentence = "how long an attempt may run; without it 1m"},
    {.name = "retry-base",
        .type = OPTION_DURATION,
        FIELD(retry_base_ms),
        .argument = "DURATION",
        .sentence = "the rest after the first failed attempt, doubled after each; without it 1s"},
    {.name = "retry-max",
        .type = OPTION_DURATION,
        FIELD(retry_max_ms),
        .argument = "DURATION",
        .sentence = "the longest rest; without it 1h, for fixed and list a year"},
    {.name = "backoff",
        .type = OPTION_TEXT,
        FIELD(backoff),
        .argument = BACKOFF_ARGUMENT,
        .sentence = "how the rest after the n-th failed attempt grows: D; BASE + (n - 1) STEP; BASE doubled each time, "
                    "at most CAP; BASE times n to the EXPONENT (2); the n-th D of a list, then its last"},
    {.name = "jitter",
        .type = OPTION_INTEGER,
        FIELD(jitter),
        .min = 0,
        .max = 100,
        .argument = "PERCENT",
        .sentence = "at most so much of a rest is taken off at random; without it 25"},
    {.name = "source",
        .type = OPTION_TEXT,
        FIELD(source),
        .argument = "NAME",
        .sentence = "who posts it, for the record; without it user@host"},
    {.name = "bulk",
        .type = OPTION_TEXT,
        FIELD(bulk),
        .argument = "FILE|-",
        .sentence = "submit a file (or standard input) of JSON objects, one a line; the options above are then "
                    "defaults for its lines"},
    {.name = "wait",
        .type = OPTION_FLAG,
        FIELD(wait),
        .letter = 'w',
        .sentence = "wait until it has ended and write its result"},
    {.name = NULL},
};

static const struct option_table table = {
    .program = "reeve submit",
    .usage = "TYPE [DETAILS|-] [OPTION]... | --bulk FILE|- [TYPE] [OPTION]...",
    .summary = "Submits a task of TYPE and prints its id. DETAILS are the handler's input; - reads them from standard "
               "input. With --bulk a file is checked whole, then submitted in chunks; the ids come in its order.",
    .epilogue = "A line of a bulk file may have the fields queue, type, details (text, or any\n"
                "JSON), priority, delay or delay_ms, run_at, key, key_ttl or key_ttl_ms, version,\n"
                "max_attempts or retry_limit, timeout or timeout_ms, retry {base or base_ms, max\n"
                "or max_ms, backoff, jitter}, batch_id and source.\n"
                "\n"
                "Examples:\n"
                "  reeve submit mail '{\"to\":\"ann@example.org\"}' --key order-17\n"
                "  reeve submit sha256 - --wait < file\n"
                "  reeve submit report --at '2026-01-14 08:00' --priority 5\n"
                "  reeve submit fetch URL --retry-limit 4 --backoff list:1m,5m,30m,2h --jitter 10\n"
                "  reeve submit build HEAD --key site --version 17\n"
                "  reeve submit --bulk tasks.jsonl --queue night --wait\n"
                "\n"
                "Exit codes: 0 done, 1 a task did not complete (--wait), 2 wrong usage, 3 no manager\n"
                "reachable, 4 refused.",
    .specs = specs,
};

static struct reeve_task_spec spec_of(const struct submit_options *options, const char *type)
{
	return (struct reeve_task_spec){
	    .queue = options->queue,
	    .type = type,
	    .priority = (int32_t)options->priority,
	    .delay_ms = options->delay_ms > 0 ? options->delay_ms : 0,
	    .run_at_us = options->at_us,
	    .key = options->key,
	    .key_ttl_ms = options->key_ttl_ms,
	    .max_attempts = (uint32_t)(options->retry_limit >= 0 ? options->retry_limit + 1 : options->max_attempts),
	    .timeout_ms = options->timeout_ms,
	    .retry_base_ms = options->retry_base_ms,
	    .retry_max_ms = options->retry_max_ms,
	    .retry = options->backoff || options->jitter >= 0 ? &options->growth.policy : NULL,
	    .source = options->source,
	    .version = options->version,
	    .batch_id = options->batch,
	};
}

/* Reads standard input, as far as the managers would take it. NULL: the user was told, *code is set. free() it. */
static char *read_details(struct reeve_client *client, size_t *length, int *code)
{
	struct reeve_failure failure = {0};
	size_t limit, capacity = 64 * 1024;
	char *text;

	if (!reeve_client_ready(client, &failure)) {
		*code = command_failed(&failure);
		return NULL;
	}
	limit = reeve_client_max_details(client);
	if (limit == 0)
		limit = UNLIMITED_DETAILS;
	text = malloc(capacity + 1);
	*length = 0;
	/* One byte beyond the limit is read, and refused like any details that are too long. */
	while (text && *length <= limit) {
		size_t more = fread(text + *length, 1, capacity - *length, stdin);

		*length += more;
		if (more == 0)
			break;
		if (*length == capacity) {
			capacity *= 2;
			text = realloc(text, capacity + 1);
		}
	}
	if (!text)
		abort();
	if (ferror(stdin)) {
		command_say("standard input cannot be read");
		*code = EXIT_USAGE;
		free(text);
		return NULL;
	}
	text[*length] = '\0';
	return text;
}

/* Submits one task, and follows it. */
static int submit_one(struct reeve_client *client, const struct reeve_task_spec *spec, bool wait, bool json)
{
	struct reeve_submitted task;
	struct reeve_failure failure = {0};

	if (wait)
		interrupts_watch(client, false);
	if (!reeve_submit(client, spec, 1, NULL, &task, &failure)) {
		int code = command_failed(&failure);

		if (failure.code == REEVE_DEADLINE_EXCEEDED)
			command_say("the task may have been stored all the same; with a --key a submit can be repeated safely");
		return code;
	}
	if (task.restarted && !json)
		command_say("version %" PRId64 " is newer: task %" PRId64 ", which has the key \"%s\", is run again",
		    spec->version, task.id, spec->key);
	else if (task.existing && !json)
		command_say(
		    "the key \"%s\" was known already: task %" PRId64 " is the earlier one", spec->key, task.id);
	if (wait)
		return follow_tasks(client, &task.id, 1, FOLLOW_RESULT, -1, json);
	if (json)
		submitted_print_json(&task);
	else
		printf("%" PRId64 "\n", task.id);
	return EXIT_OK;
}

static int submit_as(struct reeve_client *client, const struct submit_options *options, struct reeve_task_spec *spec,
    struct lines *lines, int operands, char **argv, bool json)
{
	char *details = NULL;
	size_t length;
	int code;

	if (options->bulk)
		return bulk_submit(client, lines, spec, options->wait, json);
	if (operands > 1 && strcmp(argv[2], "-") == 0) {
		details = read_details(client, &length, &code);
		if (!details)
			return code;
		spec->details = details;
		spec->details_length = length;
	} else if (operands > 1) {
		spec->details = argv[2];
	}
	code = submit_one(client, spec, options->wait, json);
	free(details);
	return code;
}

static int submit(struct reeve_client *client, const struct submit_options *options, struct lines *lines, int operands,
    char **argv, bool json)
{
	struct reeve_task_spec spec = spec_of(options, operands > 0 ? argv[1] : NULL);
	struct reeve_batch_report *batch = NULL;
	struct reeve_failure failure = {0};
	int code;

	/* A batch's tasks are all of one queue. */
	if (options->batch && !options->queue) {
		batch = reeve_batch_report(client, options->batch, 0, 1, &failure);
		if (!batch)
			return command_failed(&failure);
		spec.queue = batch->batch.queue;
	}
	code = submit_as(client, options, &spec, lines, operands, argv, json);
	reeve_batch_report_free(batch);
	return code;
}

/* What the option table cannot say. NULL: nothing is wrong. */
static const char *usage_problem(const struct submit_options *options, int operands)
{
	if (options->delay_ms >= 0 && options->at_us)
		return "--delay and --at exclude each other";
	if (options->at_us < 0)
		return "--at lies before 1970";
	if (options->queue && !*options->queue)
		return "--queue is empty";
	if (options->key && !*options->key)
		return "--key is empty";
	if (options->source && !*options->source)
		return "--source is empty";
	if (options->key_ttl_ms && !options->key && !options->bulk)
		return "--key-ttl needs a --key";
	if (options->version && !options->key && !options->bulk)
		return "--version needs a --key";
	if (options->max_attempts && options->retry_limit >= 0)
		return "--max-attempts and --retry-limit exclude each other";
	if (options->backoff && options->retry_base_ms)
		return "--backoff and --retry-base exclude each other";
	if (options->bulk && options->key)
		return "--key cannot be the same for all tasks of a file; each line may have its own";
	if (options->bulk && operands > 1)
		return "the details of --bulk stand in its lines";
	if (!options->bulk && operands == 0)
		return "which type?";
	if (operands > 2)
		return "one TYPE and one DETAILS are taken (details with blanks need quotes)";
	return NULL;
}

/* Puts together what is said of the rests. */
static bool read_growth(struct submit_options *options, struct reeve_error *error)
{
	struct reeve_retry_policy *policy = &options->growth.policy;

	if (options->backoff && !backoff_parse(&options->growth, options->backoff, options->jitter, error))
		return false;
	if (!options->backoff) {
		policy->base_ms = options->retry_base_ms;
		policy->jitter_percent = options->jitter == 0 ? -1 : (int32_t)options->jitter;
	}
	if (policy->max_ms && options->retry_max_ms)
		return error_set(error, STATUS(INVALID_ARGUMENT), "its CAP and --retry-max exclude each other");
	if (options->retry_max_ms)
		policy->max_ms = options->retry_max_ms;
	return true;
}

int command_submit(int argc, char **argv)
{
	struct submit_options options = {.delay_ms = -1, .retry_limit = -1, .jitter = -1};
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	struct lines lines = {0};
	struct reeve_client *client;
	const char *problem;
	int operands, code;

	if (!command_options(&table, &options, &shared, argc, argv, &operands, &code))
		return code;
	problem = usage_problem(&options, operands);
	if (problem)
		return command_usage(&table, "%s", problem);
	if (!read_growth(&options, &error))
		return command_usage(&table, "--backoff: %s", error.message);
	if (options.bulk && !lines_open(&lines, options.bulk, &error)) {
		command_say("--bulk: %s", error.message);
		return EXIT_USAGE;
	}
	if (options.wait || options.bulk)
		interrupts_hold();
	client = command_connect(&shared, &code);
	if (client)
		code = submit(client, &options, &lines, operands, argv, shared.json);
	if (options.wait || options.bulk)
		interrupts_watch(NULL, false);
	reeve_client_destroy(client);
	lines_close(&lines);
	return code;
}
