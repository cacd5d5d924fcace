/* `reeve fetch`, `reeve report` and `reeve extend`: a queue without workers, served manually. */
#include "client/cmd/command.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/table.h"
#include "common/clock.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_WAIT_MS (INT64_C(365) * 24 * 3600 * 1000)

enum { LONGEST_RESULT = 64 * 1024 * 1024 };

static bool read_number(const char *text, int64_t *number)
{
	char *end;

	errno = 0;
	*number = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : 0;
	return *number > 0 && !errno && *end == '\0';
}

/*
 * fetch
 */

struct fetch_options {
	struct option_list queues, types, exclude;
	const char *name;
	int64_t most, wait_ms;
};

static const struct option_spec fetch_specs[] = {
    {.name = "queue",
        .type = OPTION_LIST,
        .offset = offsetof(struct fetch_options, queues),
        .argument = "Q[,Q]",
        .letter = 'q',
        .help = "only from these queues; can be repeated"},
    {.name = "type",
        .type = OPTION_LIST,
        .offset = offsetof(struct fetch_options, types),
        .argument = "T[,T]",
        .letter = 't',
        .help = "only of these types; can be repeated"},
    {.name = "exclude",
        .type = OPTION_LIST,
        .offset = offsetof(struct fetch_options, exclude),
        .argument = "ID[,ID]",
        .letter = 'x',
        .help = "not these tasks; can be repeated"},
    {.name = "number",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct fetch_options, most),
        .default_value = "1",
        .min = 1,
        .max = 10000,
        .argument = "N",
        .letter = 'n',
        .help = "maximum number of tasks"},
    {.name = "wait",
        .type = OPTION_DURATION,
        .offset = offsetof(struct fetch_options, wait_ms),
        .default_value = "0",
        .max = LONGEST_WAIT_MS,
        .argument = "DURATION",
        .letter = 'w',
        .help = "maximum time to wait for a task; 0: do not wait"},
    {.name = "name",
        .type = OPTION_TEXT,
        .offset = offsetof(struct fetch_options, name),
        .argument = "NAME",
        .help = "name of the client, for the audit; if not set, user@host"},
    {.name = NULL},
};

static const struct option_table fetch_table = {
    .program = "reeve fetch",
    .usage = "[--queue Q]... [--type T]... [--exclude ID]... [-n N] [--wait DURATION] [--json]",
    .summary = "Fetches tasks manually. No other worker gets them until `reeve report` reports their outcome or "
               "they expire. The exit code is 1 if no task came in time.",
    .epilogue = "Example: reeve fetch --queue letters --wait 1m",
    .specs = fetch_specs,
};

static const struct column taken_columns[] = {{"ID", COLUMN_NUMBER}, {"TOKEN", COLUMN_NUMBER}, {"QUEUE", COLUMN_TEXT},
    {"TYPE", COLUMN_TEXT}, {"ATTEMPT", COLUMN_NUMBER}, {"EXPIRES", COLUMN_NUMBER}, {"DETAILS", COLUMN_TEXT}, {0}};

static void print_taken(const struct reeve_taken_list *list)
{
	struct table *table = table_create(taken_columns);
	char text[64], span[40];

	for (size_t i = 0; i < list->count; i++) {
		const struct reeve_taken *task = &list->tasks[i];

		table_number(table, task->id);
		table_number(table, task->token);
		table_text(table, task->queue);
		table_text(table, task->type);
		snprintf(text, sizeof text, "%" PRIu32 "/%" PRIu32, task->attempt, task->max_attempts);
		table_text(table, text);
		snprintf(text, sizeof text, "in %s",
		    duration_format((task->expires_in_ms + 500) / 1000 * 1000, span, sizeof span));
		table_text(table, text);
		table_text(table, task->details);
	}
	table_print(table);
	table_destroy(table);
}

/* Parses the ids to leave out. Returns NULL with *code set after an error message. The caller must free() them. */
static int64_t *read_excluded(const struct option_list *list, int *code)
{
	int64_t *ids = calloc(list->count + 1, sizeof *ids);

	if (!ids)
		abort();
	for (size_t i = 0; i < list->count; i++) {
		if (read_number(list->items[i], &ids[i]))
			continue;
		*code = command_usage(
		    &fetch_table, "--exclude: \"%s\" is not a task id; ids are whole numbers from 1", list->items[i]);
		free(ids);
		return NULL;
	}
	return ids;
}

int command_fetch(int argc, char **argv)
{
	struct fetch_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_taken_list *list = NULL;
	struct reeve_client *client;
	int code;
	int64_t *excluded;

	if (!command_only_options(&fetch_table, &options, &shared, argc, argv, &code))
		return code;
	if (options.name && !*options.name)
		return command_usage(&fetch_table, "--name is empty");
	excluded = read_excluded(&options.exclude, &code);
	if (!excluded)
		return code;
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (client) {
		struct reeve_fetch fetch = {
		    .name = options.name,
		    .n_queues = options.queues.count,
		    .queues = options.queues.items,
		    .n_types = options.types.count,
		    .types = options.types.items,
		    .n_exclude = options.exclude.count,
		    .exclude = excluded,
		    .most = (uint32_t)options.most,
		    .wait_ms = options.wait_ms,
		};

		interrupts_watch(client, false);
		list = reeve_fetch(client, &fetch, &failure);
		interrupts_watch(NULL, false);
		code = !list ? command_failed(&failure) : list->count ? EXIT_OK : EXIT_TASK_FAILED;
	}
	for (size_t i = 0; list && shared.json && i < list->count; i++)
		command_print_json(list->tasks[i].wire);
	if (list && !shared.json && list->count)
		print_taken(list);
	if (list && !list->count)
		command_log(options.wait_ms ? "no task came" : "no task waits");
	reeve_taken_free(list);
	reeve_client_destroy(client);
	free(excluded);
	return code;
}

/*
 * report
 */

struct report_options {
	bool completed, returned;
	const char *failed, *fatal;
	const char *remark, *error_code, *stack, *stage;
	int64_t retry_in_ms;
};

#define REPORT_FIELD(field) .offset = offsetof(struct report_options, field)

static const struct option_spec report_specs[] = {
    {.name = "completed", .type = OPTION_FLAG, REPORT_FIELD(completed), .letter = 'c', .help = "it succeeded, "
                                                                                               "with RESULT"},
    {.name = "failed",
        .type = OPTION_TEXT,
        REPORT_FIELD(failed),
        .argument = "TEXT",
        .letter = 'f',
        .help = "it failed, with this error; it is retried while it has attempts left"},
    {.name = "fatal",
        .type = OPTION_TEXT,
        REPORT_FIELD(fatal),
        .argument = "TEXT",
        .help = "it failed permanently, with this error"},
    {.name = "returned",
        .type = OPTION_FLAG,
        REPORT_FIELD(returned),
        .help = "return it: this costs no attempt, and it is due at once"},
    {.name = "remark", .type = OPTION_TEXT, REPORT_FIELD(remark), .argument = "TEXT", .help = "remark to keep "
                                                                                              "with the task"},
    {.name = "error-code",
        .type = OPTION_TEXT,
        REPORT_FIELD(error_code),
        .argument = "WORD",
        .help = "with --failed or --fatal: a short error code"},
    {.name = "stack",
        .type = OPTION_TEXT,
        REPORT_FIELD(stack),
        .argument = "TEXT",
        .help = "with --failed or --fatal: a stack trace"},
    {.name = "stage",
        .type = OPTION_TEXT,
        REPORT_FIELD(stage),
        .argument = "NAME",
        .help = "with --completed: the next stage of its pipeline; \"end\": none; if not set, the pipeline's"},
    {.name = "retry-in",
        .type = OPTION_DURATION,
        REPORT_FIELD(retry_in_ms),
        .min = 1,
        .max = LONGEST_WAIT_MS,
        .argument = "DURATION",
        .help = "with --failed: retry delay, instead of the task's policy"},
    {.name = NULL},
};

static const struct option_table report_table = {
    .program = "reeve report",
    .usage = "ID TOKEN --completed [RESULT|-] | --failed TEXT | --fatal TEXT | --returned [OPTION]...",
    .summary = "Reports the outcome of a task from `reeve fetch`. The exit code is 4 if the token has lost the "
               "task; then nothing changes.",
    .epilogue = "Examples: reeve report 17 1795275061254669 --completed 'sent'\n"
                "          reeve report 17 1795275061254669 --failed 'no paper' --retry-in 10m",
    .specs = report_specs,
};

/* Parses ID and TOKEN. Returns false with *code set after an error message. */
static bool read_attempt(
    const struct option_table *table, int operands, char **argv, int64_t *id, int64_t *token, int *code)
{
	bool good = false;

	if (operands < 2)
		*code = command_usage(table, "the task's id and its token are missing; `reeve fetch` prints both");
	else if (!read_number(argv[1], id))
		*code = command_usage(table, "\"%s\" is not a task id; ids are whole numbers from 1", argv[1]);
	else if (!read_number(argv[2], token))
		*code = command_usage(table, "\"%s\" is not a token; tokens are whole numbers from 1", argv[2]);
	else
		good = true;
	return good;
}

/* Reads all of standard input. Returns NULL with *code set after an error message. The caller must free() it. */
static char *read_result(int *code)
{
	size_t length = 0, capacity = 64 * 1024;
	char *text = malloc(capacity + 1);

	while (text && length <= LONGEST_RESULT) {
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
	text[length] = '\0';
	if (!ferror(stdin) && strlen(text) == length)
		return text;
	if (ferror(stdin)) {
		command_log("standard input cannot be read");
		*code = EXIT_USAGE;
	} else {
		command_log("result holds a NUL byte");
		*code = EXIT_REFUSED;
	}
	free(text);
	return NULL;
}

/* Checks that the options go together. Returns false with *code set after an error message. */
static bool check_report(const struct report_options *options, int operands, char **argv, int *code)
{
	int outcomes = options->completed + options->returned + (options->failed != NULL) + (options->fatal != NULL);
	bool error = options->failed || options->fatal;

	if (outcomes != 1)
		*code = command_usage(&report_table, "%s --completed, --failed, --fatal and --returned",
		    outcomes ? "only one can be true of" : "how did it end? Give one of");
	else if (options->completed ? operands > 3 : operands > 2)
		*code = command_usage(&report_table, "unexpected argument \"%s\"", argv[options->completed ? 4 : 3]);
	else if (!error && (options->error_code || options->stack))
		*code = command_usage(&report_table, "%s needs --failed or --fatal",
		    options->error_code ? "--error-code" : "--stack");
	else if (!options->failed && options->retry_in_ms)
		*code = command_usage(&report_table, "--retry-in needs --failed");
	else if (!options->completed && options->stage)
		*code = command_usage(&report_table, "--stage needs --completed");
	else
		return true;
	return false;
}

int command_report(int argc, char **argv)
{
	struct report_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_report report = {0};
	struct reeve_client *client;
	int operands, code;
	char *read = NULL;

	if (!command_options(&report_table, &options, &shared, argc, argv, &operands, &code) ||
	    !read_attempt(&report_table, operands, argv, &report.id, &report.token, &code) ||
	    !check_report(&options, operands, argv, &code))
		return code;
	report.outcome = options.completed  ? REEVE_OUTCOME_COMPLETED
	                 : options.returned ? REEVE_OUTCOME_RETURNED
	                 : options.fatal    ? REEVE_OUTCOME_FATAL
	                                    : REEVE_OUTCOME_FAILED;
	report.result = options.completed && operands > 2 ? argv[3] : NULL;
	report.error = options.failed ? options.failed : options.fatal;
	report.error_code = options.error_code;
	report.remark = options.remark;
	report.stack_trace = options.stack;
	report.stage = options.stage;
	report.retry_in_ms = options.retry_in_ms;
	if (report.result && strcmp(report.result, "-") == 0) {
		report.result = read = read_result(&code);
		if (!read)
			return code;
	}
	client = command_connect_to_change(&shared, &code);
	if (client) {
		code = reeve_report(client, &report, &failure) ? EXIT_OK : command_change_failed(&failure);
		if (code == EXIT_OK && shared.json)
			printf("{\"task_id\":%" PRId64 ",\"token\":%" PRId64 ",\"status\":\"accepted\"}\n", report.id,
			    report.token);
	}
	command_disconnect(client);
	free(read);
	return code;
}

/*
 * extend
 */

static const struct option_spec no_specs[] = {{.name = NULL}};

static const struct option_table extend_table = {
    .program = "reeve extend",
    .usage = "ID TOKEN DURATION [--json]",
    .summary = "Extends a task from `reeve fetch` by this time from now, and shows how long it can run.",
    .epilogue = "Example: reeve extend 17 1795275061254669 1h",
    .specs = no_specs,
};

int command_extend(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	int64_t id, token, by_ms, run_ms, expires_in_ms;
	struct reeve_client *client;
	int operands, code;
	char text[40];

	if (!command_options(&extend_table, NULL, &shared, argc, argv, &operands, &code) ||
	    !read_attempt(&extend_table, operands, argv, &id, &token, &code))
		return code;
	if (operands != 3)
		return command_usage(&extend_table, "%s", operands < 3 ? "the duration is missing" : "it takes three arguments");
	if (!duration_parse(argv[3], &by_ms) || by_ms < 1 || by_ms > LONGEST_WAIT_MS)
		return command_usage(&extend_table,
		    "\"%s\" is not a time to run; it must be a duration like 30s, 5m or 2h, from 1ms to 365d", argv[3]);
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	if (!reeve_extend(client, id, token, by_ms, &run_ms, &expires_in_ms, &failure)) {
		code = command_change_failed(&failure);
	} else if (shared.json) {
		printf("{\"run_ms\":%" PRId64 ",\"expires_in_ms\":%" PRId64 "}\n", run_ms, expires_in_ms);
		code = EXIT_OK;
	} else {
		puts(duration_format(expires_in_ms, text, sizeof text));
		code = EXIT_OK;
	}
	command_disconnect(client);
	return code;
}
