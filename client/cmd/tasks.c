/* `reeve show` and `reeve list`. */
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/terminal.h"
#include "client/cmd/waiting.h"
#include "client/cmd/where.h"
#include "common/clock.h"
#include "common/mem.h"

#include <inttypes.h>
#include <reeve/v1/task_calls.h>
#include <string.h>

enum { WIDTH = 12 };

/*
 * show
 */

/* Prints a string of any length under a heading, on a terminal without control characters. */
static void show_text(const char *name, const char *text)
{
	size_t length = strlen(text);

	if (length == 0)
		return;
	printf("\n%s:\n", name);
	if (terminal_columns(stdout) > 0)
		terminal_write_clean(stdout, text);
	else
		fwrite(text, 1, length, stdout);
	if (text[length - 1] != '\n')
		putchar('\n');
}

/* Prints that the manager has omitted a string of so many bytes. */
static void show_omitted(const char *name, int64_t bytes)
{
	char text[80];

	if (bytes == 0)
		return;
	snprintf(text, sizeof text, "omitted: %" PRId64 " bytes, too long for the manager's messages", bytes);
	fields_line(WIDTH, name, text);
}

static void show_attempts(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Task *task = message;
	char span[64];

	(void)now_us;
	snprintf(out->text, sizeof out->text, "%" PRIu32 " of %" PRIu32 ", each up to %s", task->attempt,
	    task->max_attempts, duration_format(task->timeout_ms, span, sizeof span));
}

static void show_step(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Task *task = message;

	(void)now_us;
	if (*task->pipeline)
		snprintf(out->text, sizeof out->text, "%" PRIu32, task->step);
}

static void show_progress(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Task *task = message;

	(void)now_us;
	if (task->last_progress_case == REEVE__V1__TASK__LAST_PROGRESS_PROGRESS)
		snprintf(out->text, sizeof out->text, "%g %%", task->progress);
}

static const struct column number_lines[] = {
    {"progress", .show = show_progress},
    {"step", .show = show_step},
    {"version", .field = "version", .as = AS_NUMBER},
    {"priority", .field = "priority"},
    {"attempts", .show = show_attempts},
    {"batch", .field = "batch_id", .as = AS_NUMBER},
    {"parent", .field = "parent_id", .as = AS_NUMBER},
    {"errors", .field = "error_count", .as = AS_NUMBER},
    {0},
};

static void show_times(const Reeve__V1__Task *task, int64_t now_us)
{
	char span[64];

	fields_time(WIDTH, "submitted", task->created_us, now_us);
	fields_time(WIDTH, "due", task->run_at_us, now_us);
	fields_time(WIDTH, "started", task->started_us, now_us);
	if (task->first_started_us != task->started_us)
		fields_time(WIDTH, "first", task->first_started_us, now_us);
	if (task->last_failed_us != task->ended_us)
		fields_time(WIDTH, "failed", task->last_failed_us, now_us);
	fields_time(WIDTH, "ended", task->ended_us, now_us);
	if (task->token != task->ended_us && task->token != task->started_us && task->token != task->created_us)
		fields_time(WIDTH, "updated", task->token, now_us);
	if (task->processing_ms)
		fields_line(WIDTH, "ran", duration_format(task->processing_ms, span, sizeof span));
	if (task->status == TASK(EXECUTING))
		fields_time(WIDTH, "expires", task->expiry_us, now_us);
}

static void print_task(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	const Reeve__V1__Task *task = answer;
	const char *status = reeve_task_status_name(task->status);
	const char *colour = terminal_has_colour(stdout) ? terminal_state_colour(status) : "";
	/* The error is not the current state: the task was retried since. */
	char why[WAITING_TEXT];
	bool earlier = task->status == TASK(COMPLETED) || task->status == TASK(EXECUTING) || task->status == TASK(QUEUED);

	(void)call;
	(void)request;
	printf("%-12s %" PRId64 "\n", "task", task->id);
	printf("%-12s %s%s%s%s\n", "status", colour, status, *colour ? terminal_no_colour : "",
	    task->cancel_requested ? " (a cancel was asked for)" : "");
	waiting_text(task, now_us, why);
	fields_line(WIDTH, "waits", why);
	fields_texts(WIDTH, task, "details result last_error error_code stack_trace");
	fields_lines(WIDTH, number_lines, task, now_us);
	show_times(task, now_us);
	fields_line(WIDTH, earlier ? "earlier code" : "error code", task->error_code);
	if (task->last_error_kind_case == REEVE__V1__TASK__LAST_ERROR_KIND_RECOVERABLE)
		fields_line(WIDTH, "recoverable", task->recoverable ? "yes" : "no: it is not tried again");
	if (task->omitted) {
		show_omitted("details", task->omitted->details_bytes);
		show_omitted("result", task->omitted->result_bytes);
	}
	show_text(earlier ? "earlier error" : "error", task->last_error);
	if (strcmp(task->stack_trace, task->last_error) != 0) /* otherwise it is a short stderr, which is also the error */
		show_text(earlier ? "earlier stack trace" : "stack trace", task->stack_trace);
	show_text("details", task->details);
	show_text("result", task->result);
}

const struct call task_show = {
    .options = {.program = "reeve show",
        .usage = "ID [--json]",
        .summary = "Shows one task, live or ended, with its details and its result.",
        .epilogue = "Example: reeve show 17"},
    .operand = "id",
    .noun = "task",
    .list = {.service = &reeve__v1__task_service__descriptor, .method = "Get"},
    .part = "task",
    .print = print_task,
};

/*
 * list
 */

struct list_options {
	struct option_message request;
	const char *where;
	int64_t limit;
};

static const struct option_spec list_specs[] = {
    OPT_CHOICE('s', "status", OPTION_FIELD("status"), "STATUS",
        "only tasks with this status: queued, executing, failed, completed, dead or cancelled"),
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "only tasks of this queue"),
    OPT_NAME('t', "type", OPTION_FIELD("type"), "TYPE", "only tasks of this type"),
    OPT_JOINED(0, "where", OPTION_AT(struct list_options, where), "CONDITIONS",
        "only those that match, as 'status=dead,failed error~timeout older=1h'; there are " WHERE_NAMES),
    WHERE_RUNNING_LONGER("only"),
    LIST_LIMIT(OPTION_AT(struct list_options, limit), "tasks"),
    {0},
};

static const struct option_table list_table = {
    .program = "reeve list",
    .usage =
        "[--status STATUS] [--queue NAME] [--type TYPE] [--where CONDITIONS] [--running-longer DURATION] [--limit N] "
        "[--json]",
    .summary = "Lists tasks, live and ended, newest first.",
    .epilogue = "Examples:\n"
                "  reeve list --status dead --queue mail --limit 20\n"
                "  reeve list --where 'status=dead,failed error~\"no route\" newer=1d'\n"
                "  reeve list --running-longer 1h",
    .specs = list_specs,
};

/* Why it waits, or its error. */
static void show_note(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Task *task = message;
	const char *gap = *task->error_code && *task->last_error ? ": " : "";
	bool wrong = (*task->error_code || *task->last_error) && task->status != TASK(COMPLETED);
	char why[WAITING_TEXT];

	waiting_text(task, now_us, why);
	if (wrong)
		out->value = out->owned =
		    mem_asprintf("%s%s%s%s%s", why, *why ? ", " : "", task->error_code, gap, task->last_error);
	else
		snprintf(out->text, sizeof out->text, "%s", why);
}

/* How long it has run. */
static void show_running(const void *message, int64_t now_us, struct shown *out)
{
	char age[32];

	snprintf(out->text, sizeof out->text, "runs for %s",
	    terminal_age(now_us, ((const Reeve__V1__Task *)message)->started_us, age, sizeof age));
}

#define LIST_COLUMNS(note)                                                                                             \
	COL_NUMBER("ID", "id"), COL_WORD("STATUS", "status", .as = AS_STATE), COL_TEXT("QUEUE", "queue"),                  \
	    COL_TEXT("TYPE", "type"), COL_NUMBER("PRIO", "priority"), COL_NUMBER("TRIES", NULL, .show = fields_tries),     \
	    COL_NUMBER("AGE", "created_us", .as = AS_AGE), COL_TEXT("WORKER", "worker"),                                   \
	    COL_TEXT("NOTE", NULL, .show = note),                                                                          \
	{                                                                                                                  \
		0                                                                                                              \
	}

static const struct column list_columns[] = {LIST_COLUMNS(show_note)};
static const struct column running_columns[] = {LIST_COLUMNS(show_running)};

int task_list(int argc, char **argv)
{
	struct list list = {.service = &reeve__v1__task_service__descriptor,
	    .method = "List",
	    .items = "tasks",
	    .hint = "--limit and the filters choose",
	    .unsent = "details result stack_trace",
	    .columns = list_columns};
	Reeve__V1__ListRequest request = REEVE__V1__LIST_REQUEST__INIT;
	struct list_options options = {.request.message = &request.base};
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	struct reeve_client *client;
	struct where where = {0};
	int code;

	if (!command_only_options(&list_table, &options, &shared, argc, argv, &code))
		return code;
	if (options.where && !where_parse(&where, options.where, request.filter, &error)) {
		where_free(&where);
		return command_usage(&list_table, "--where: %s", error.message);
	}
	if (options.where)
		request.filter = &where.filter;
	if (request.filter && request.filter->running_longer_ms)
		list.columns = running_columns;
	client = command_connect(&shared, &code);
	if (client)
		code = list_print(&list, client, &request, options.limit, shared.json, NULL);
	reeve_client_destroy(client);
	where_free(&where);
	return code;
}
