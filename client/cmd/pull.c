/* `reeve fetch`, `reeve report` and `reeve extend`: a queue without workers, served manually. */
#include "client/cmd/command.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/list.h"
#include "client/cmd/where.h"
#include "common/clock.h"
#include "common/limits.h"
#include "common/mem.h"

#include <inttypes.h>
#include <jansson.h>
#include <reeve/v1/worker_calls.h>
#include <stdlib.h>
#include <string.h>

#define OUTCOME(name) REEVE__V1__OUTCOME__OUTCOME_##name

/*
 * fetch
 */

struct fetch_options {
	struct option_message request;
	struct option_list exclude;
	const char *name, *where;
	int64_t wait_ms;
};

static const struct option_spec fetch_specs[] = {
    OPT_LIST('q', "queue", OPTION_FIELD("queues"), "Q[,Q]", "only from these queues; can be repeated"),
    OPT_LIST('t', "type", OPTION_FIELD("types"), "T[,T]", "only of these types; can be repeated"),
    OPT_LIST('x', "exclude", OPTION_AT(struct fetch_options, exclude), "ID[,ID]", "not these tasks; can be repeated"),
    OPT_JOINED(0, "where", OPTION_AT(struct fetch_options, where), "CONDITIONS",
        "only those that match, as 'source=shop error~timeout older=1h'; there are " WHERE_NAMES),
    OPT_INTEGER(
        'n', "limit", OPTION_FIELD("slots"), 1, LIMIT_CALL_TASKS, "N", "maximum number of tasks", .default_value = "1"),
    OPT_SPAN(0, "max-wait", OPTION_AT(struct fetch_options, wait_ms), 0, DAYS_MS(LIMIT_RUN_DAYS),
        "maximum time to wait for a task; 0: do not wait", .default_value = "0"),
    OPT_NAME(0, "name", OPTION_AT(struct fetch_options, name), "NAME",
        "name of the client, for the audit; if not set, user@host"),
    {0},
};

static const struct option_table fetch_table = {
    .program = "reeve fetch",
    .usage =
        "[--queue Q]... [--type T]... [--exclude ID]... [--where CONDITIONS] [-n N] [--max-wait DURATION] [--json]",
    .summary = "Fetches tasks manually. No other worker gets them until `reeve report` reports their outcome or "
               "they expire. The exit code is 1 if no task came in time.",
    .epilogue = "Example: reeve fetch --queue letters --max-wait 1m",
    .specs = fetch_specs,
};

static void show_attempt(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Assignment *task = message;

	(void)now_us;
	snprintf(out->text, sizeof out->text, "%" PRIu32 "/%" PRIu32, task->attempt, task->max_attempts);
}

static void show_expiry(const void *message, int64_t now_us, struct shown *out)
{
	int64_t ms = ((const Reeve__V1__Assignment *)message)->expires_in_ms;
	char span[40];

	(void)now_us;
	snprintf(out->text, sizeof out->text, "in %s", duration_format((ms + 500) / 1000 * 1000, span, sizeof span));
}

static const struct column columns[] = {
    COL_NUMBER("ID", "task_id"),
    COL_NUMBER("TOKEN", "token"),
    COL_TEXT("QUEUE", "queue"),
    COL_TEXT("TYPE", "type"),
    COL_NUMBER("ATTEMPT", NULL, .show = show_attempt),
    COL_NUMBER("EXPIRES", NULL, .show = show_expiry),
    COL_TEXT("DETAILS", "details"),
    {0},
};

/* Parses the ids to leave out. Returns NULL with *code set after an error message. The caller must free() them. */
static int64_t *read_excluded(const struct option_list *list, int *code)
{
	int64_t *ids = mem_calloc(list->count + 1, sizeof *ids);

	for (size_t i = 0; i < list->count; i++) {
		if (command_number(list->items[i], &ids[i]))
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
	static const struct list list = {.items = "assignments", .columns = columns};
	Reeve__V1__FetchRequest request = REEVE__V1__FETCH_REQUEST__INIT;
	struct fetch_options options = {.request.message = &request.base};
	Reeve__V1__FetchResponse *fetched = NULL;
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	struct reeve_error error = {0};
	struct where where = {0};
	int code;

	if (!command_only_options(&fetch_table, &options, &shared, argc, argv, &code))
		return code;
	if (options.where && !where_parse(&where, options.where, NULL, &error)) {
		where_free(&where);
		return command_usage(&fetch_table, "--where: %s", error.message);
	}
	if (options.where)
		request.where = &where.filter;
	request.n_exclude_ids = options.exclude.count;
	request.exclude_ids = read_excluded(&options.exclude, &code);
	if (!request.exclude_ids)
		return code;
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (client) {
		interrupts_watch(client, false);
		fetched = reeve_fetch(client, options.name, &request, options.wait_ms, &failure);
		interrupts_watch(NULL, false);
		code = !fetched ? command_failed(&failure) : fetched->n_assignments ? EXIT_OK : EXIT_TASK_FAILED;
	}
	if (fetched && fetched->n_assignments)
		list_print_answer(&list, client, fetched, INT64_MAX, shared.json);
	else if (fetched)
		command_log(options.wait_ms ? "no task came" : "no task waits");
	reeve_free(fetched);
	reeve_client_destroy(client);
	free(request.exclude_ids);
	where_free(&where);
	return code;
}

/*
 * report
 */

struct report_options {
	struct option_message result;
	bool completed, returned;
	const char *failed, *fatal;
	int64_t progress;
	const char *log;
};

#define AT(member) OPTION_AT(struct report_options, member)

static const struct option_spec report_specs[] = {
    OPT_FLAG(0, "completed", AT(completed), "it succeeded, with RESULT"),
    OPT_TEXT(0, "failed", AT(failed), "TEXT", "it failed, with this error; it is retried while it has attempts left"),
    OPT_TEXT(0, "fatal", AT(fatal), "TEXT", "it failed permanently, with this error"),
    OPT_FLAG(0, "returned", AT(returned), "return it: this costs no attempt, and it is due at once"),
    OPT_TEXT(0, "remark", OPTION_FIELD("remark"), "TEXT", "remark to keep with the task"),
    OPT_TEXT(0, "error-code", OPTION_FIELD("error_code"), "WORD", "with --failed or --fatal: a short error code"),
    OPT_TEXT(0, "stack-trace", OPTION_FIELD("stack_trace"), "TEXT", "with --failed or --fatal: a stack trace"),
    OPT_TEXT(0, "stage", OPTION_FIELD("stage"), "NAME",
        "with --completed: the next stage of its pipeline; \"end\": none; if not set, the pipeline's"),
    OPT_SPAN(0, "retry-in", OPTION_FIELD("retry_in_ms"), 1, DAYS_MS(LIMIT_RETRY_DAYS),
        "with --failed: retry delay, instead of the task's policy"),
    OPT_INTEGER(0, "progress", AT(progress), 0, 100, "PERCENT", "how much of its work is done"),
    OPT_TEXT(0, "log", AT(log), "TEXT", "lines for `reeve logs`"),
    {0},
};

static const struct option_table report_table = {
    .program = "reeve report",
    .usage = "ID TOKEN --completed [RESULT|-] | --failed TEXT | --fatal TEXT | --returned | --progress PERCENT "
             "[OPTION]...",
    .summary =
        "Reports the outcome of a task from `reeve fetch`, or, without one, how far it is. The exit code is 4 if "
        "the token has lost the task; then nothing changes.",
    .epilogue = "Examples: reeve report 17 1795275061254669 --progress 40 --remark 'two of five'\n"
                "          reeve report 17 1795275061254669 --completed 'sent'\n"
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
	else if (!command_number(argv[1], id))
		*code = command_usage(table, "\"%s\" is not a task id; ids are whole numbers from 1", argv[1]);
	else if (!command_number(argv[2], token))
		*code = command_usage(table, "\"%s\" is not a token; tokens are whole numbers from 1", argv[2]);
	else
		good = true;
	return good;
}

/* Checks that the options go together. Returns false with *code set after an error message. */
static bool check_report(const struct report_options *options, int operands, char **argv, int *code)
{
	int outcomes = options->completed + options->returned + (options->failed != NULL) + (options->fatal != NULL);
	bool error = options->failed || options->fatal;
	bool has_code = option_is_set(&options->result, "error_code");

	bool reports = options->progress != NOT_GIVEN || options->log || option_is_set(&options->result, "remark");

	if (outcomes != 1 && (outcomes || !reports))
		*code = command_usage(&report_table, "%s --completed, --failed, --fatal and --returned%s",
		    outcomes ? "too many outcomes: give one of" : "the outcome is missing: give one of",
		    outcomes ? "" : ", or --progress, --remark or --log");
	else if (options->completed ? operands > 3 : operands > 2)
		*code = command_usage(&report_table, "unexpected argument \"%s\"", argv[options->completed ? 4 : 3]);
	else if (!error && (has_code || option_is_set(&options->result, "stack_trace")))
		*code =
		    command_usage(&report_table, "%s needs --failed or --fatal", has_code ? "--error-code" : "--stack-trace");
	else if (!options->failed && option_is_set(&options->result, "retry_in_ms"))
		*code = command_usage(&report_table, "--retry-in needs --failed");
	else if (!options->completed && option_is_set(&options->result, "stage"))
		*code = command_usage(&report_table, "--stage needs --completed");
	else
		return true;
	return false;
}

/* The lines of a text, of which they are parts. */
struct split {
	char *text;
	Reeve__V1__LoggedLine *lines, **pointers;
	size_t count;
};

static void split_begin(struct split *split, const char *text)
{
	char *rest = split->text = mem_strdup(text), *line;

	while ((line = strsep(&rest, "\n"))) {
		split->lines = mem_realloc(split->lines, (split->count + 1) * sizeof *split->lines);
		reeve__v1__logged_line__init(&split->lines[split->count]);
		split->lines[split->count++].text = line;
	}
	split->pointers = mem_calloc(split->count, sizeof *split->pointers);
	for (size_t i = 0; i < split->count; i++)
		split->pointers[i] = &split->lines[i];
}

static void split_end(struct split *split)
{
	free(split->text);
	free(split->lines);
	free(split->pointers);
}

/* Reports the outcome. Without one, reports how far the attempt is. */
static bool report(struct reeve_client *client, const struct report_options *options, Reeve__V1__Result *result,
    struct reeve_failure *failure)
{
	Reeve__V1__AttemptProgress progress = {
	    .task_id = result->task_id, .token = result->token, .remark = result->remark};
	struct split split = {0};
	bool done;

	if (options->log)
		split_begin(&split, options->log);
	progress.lines = result->lines = split.pointers;
	progress.n_lines = result->n_lines = split.count;
	if (options->progress != NOT_GIVEN) {
		progress.last_progress_case = REEVE__V1__ATTEMPT_PROGRESS__LAST_PROGRESS_PROGRESS;
		result->last_progress_case = REEVE__V1__RESULT__LAST_PROGRESS_PROGRESS;
		progress.progress = result->progress = (double)options->progress;
	}
	done = result->outcome ? reeve_report(client, result, failure) : reeve_report_progress(client, &progress, failure);
	split_end(&split);
	return done;
}

int command_report(int argc, char **argv)
{
	Reeve__V1__Result result = REEVE__V1__RESULT__INIT;
	struct report_options options = {.result.message = &result.base, .progress = NOT_GIVEN};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	int operands, code;
	char *read = NULL;

	if (!command_options(&report_table, &options, &shared, argc, argv, &operands, &code) ||
	    !read_attempt(&report_table, operands, argv, &result.task_id, &result.token, &code) ||
	    !check_report(&options, operands, argv, &code))
		return code;
	result.outcome = options.completed ? OUTCOME(COMPLETED)
	    : options.returned             ? OUTCOME(RETURNED)
	    : options.fatal                ? OUTCOME(FATAL)
	    : options.failed               ? OUTCOME(FAILED)
	                                   : OUTCOME(UNSPECIFIED);
	if (options.failed || options.fatal)
		result.error = options.failed ? options.failed : options.fatal;
	if (options.completed && operands > 2)
		result.result = argv[3];
	if (strcmp(result.result, "-") == 0) {
		result.result = read = command_read_result(&code);
		if (!read)
			return code;
	}
	client = command_connect_to_change(&shared, &code);
	if (client) {
		code = report(client, &options, &result, &failure) ? EXIT_OK : command_change_failed(&failure);
		if (code == EXIT_OK && shared.json)
			command_print_object(json_pack("{sI sI ss}", "task_id", (json_int_t)result.task_id, "token",
			    (json_int_t)result.token, "status", "accepted"));
	}
	command_disconnect(client);
	free(read);
	return code;
}

/*
 * extend
 */

static const struct option_table extend_table = {
    .program = "reeve extend",
    .usage = "ID TOKEN DURATION [--json]",
    .summary = "Extends a task from `reeve fetch` by this time from now, and shows how long it can run.",
    .epilogue = "Example: reeve extend 17 1795275061254669 1h",
};

int command_extend(int argc, char **argv)
{
	Reeve__V1__ExtendRequest request = {0};
	Reeve__V1__ExtendResponse *extended;
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	int operands, code;
	char text[40];

	if (!command_options(&extend_table, NULL, &shared, argc, argv, &operands, &code) ||
	    !read_attempt(&extend_table, operands, argv, &request.task_id, &request.token, &code))
		return code;
	if (operands != 3)
		return command_usage(&extend_table, "%s",
		    operands < 3 ? "DURATION is missing" : "too many arguments: give ID, TOKEN and DURATION");
	if (!duration_parse(argv[3], &request.run_ms) || request.run_ms < 1 || request.run_ms > DAYS_MS(LIMIT_RUN_DAYS))
		return command_usage(&extend_table,
		    "\"%s\" is not a time to run; it must be a duration like 30s, 5m or 2h, from 1ms to " LIMIT_TEXT(
		        LIMIT_RUN_DAYS) "d",
		    argv[3]);
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	extended = reeve_worker_extend(client, &request, NULL, &failure);
	if (!extended)
		code = command_change_failed(&failure);
	else if (shared.json)
		command_print_json(extended);
	else
		puts(duration_format(extended->expires_in_ms, text, sizeof text));
	code = extended ? EXIT_OK : code;
	reeve_free(extended);
	command_disconnect(client);
	return code;
}
