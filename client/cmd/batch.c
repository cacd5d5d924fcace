/* `reeve batch open|close|list`; batch_report.c has report and wait. */
#include "client/cmd/batch.h"

#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/secret.h"
#include "client/cmd/waiting.h"
#include "common/clock.h"

#include <inttypes.h>
#include <reeve/v1/batch_calls.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 12 };

/*
 * open
 */

struct open_options {
	struct option_message request;
	const char *secret_file;
};

static const struct option_spec open_specs[] = {
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "queue of its tasks (default: \"default\")"),
    OPT_NAME(0, "callback", OPTION_FIELD("callback_url"), "URL",
        "http:// or https:// URL to call when it begins and ends; if not set, the queue's"),
    OPT_TEXT(0, "callback-secret-file", OPTION_AT(struct open_options, secret_file), "FILE",
        "file whose first line signs these calls"),
    OPT_FLAG(0, "callback-tasks", OPTION_FIELD("callback_tasks"), "also call the URL at the end of each task"),
    OPT_FLAG(0, "callback-attempts", OPTION_FIELD("callback_attempts"),
        "also notify of each attempt after which a task goes on"),
    OPT_NAME(0, "callback-type", OPTION_FIELD("callback_type"), "TYPE",
        "submit a task of this type at its begin, after each task, and at its end; if not set, the queue's"),
    OPT_NAME(0, "entry", OPTION_FIELD("entry_type"), "TYPE",
        "run a task of this type before the first; if not set, the queue's"),
    OPT_NAME(0, "exit", OPTION_FIELD("exit_type"), "TYPE",
        "run a task of this type after the last; if not set, the queue's"),
    {0},
};

static const struct option_table open_table = {
    .program = "reeve batch open",
    .usage = "NAME [--queue NAME] [OPTION]...",
    .summary = "Opens a batch and prints its id. `reeve submit --batch ID` adds tasks to it. It ends when it has "
               "been closed and all its tasks have ended.",
    .epilogue = "Example: reeve batch open nightly --queue reports --entry prepare --exit mail",
    .specs = open_specs,
};

int batch_open(int argc, char **argv)
{
	Reeve__V1__OpenBatchRequest request = REEVE__V1__OPEN_BATCH_REQUEST__INIT;
	struct open_options options = {.request.message = &request.base};
	Reeve__V1__OpenBatchResponse *opened;
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_error error = {0};
	struct reeve_client *client;
	char secret[SECRET_BYTES];
	int operands, code;

	if (!command_options(&open_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != 1)
		return command_usage(&open_table,
		    operands ? "too many arguments: give one NAME (quote a name with blanks)" : "the batch's NAME is missing");
	request.name = argv[1];
	if (options.secret_file) {
		if (!secret_read(options.secret_file, secret, &error)) {
			command_log("%s", error.message);
			return EXIT_USAGE;
		}
		request.callback_secret = secret;
	}
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	opened = reeve_batch_open(client, &request, NULL, &failure);
	code = opened ? EXIT_OK : command_change_failed(&failure);
	if (opened && shared.json)
		command_print_json(opened);
	else if (opened)
		printf("%" PRId64 "\n", opened->id);
	reeve_free(opened);
	explicit_bzero(secret, sizeof secret);
	command_disconnect(client);
	return code;
}

/*
 * batches as text
 */

static void show_state(const void *message, int64_t now_us, struct shown *out)
{
	struct shown state, phase;

	(void)now_us;
	fields_word(message, "state", &state);
	fields_word(message, "phase", &phase);
	if (((const Reeve__V1__Batch *)message)->stopped)
		snprintf(out->text, sizeof out->text, "%s", fields_is(message, "state", "ended") ? "stopped" : "stopping");
	else if (strcmp(state.value, phase.value) == 0)
		snprintf(out->text, sizeof out->text, "%s", state.value);
	else
		snprintf(out->text, sizeof out->text, "%s (%s)", state.value, phase.value);
}

void batch_show_end(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	if (((const Reeve__V1__Batch *)message)->stopped && fields_is(message, "state", "ended"))
		out->value = "stopped";
	else
		fields_word(message, "state", out);
}

static void show_tasks(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Batch *batch = message;

	(void)now_us;
	snprintf(out->text, sizeof out->text,
	    "%" PRId64 " submitted, %" PRId64 " pending, %" PRId64 " completed, %" PRId64 " failed", batch->submitted,
	    batch->pending, batch->completed, batch->failed);
}

/* "task 7: its queue is paused" */
static void show_waiting(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__WaitingTask *first = ((const Reeve__V1__Batch *)message)->first_waiting;
	char why[WAITING_TEXT];

	if (!first)
		return;
	const Reeve__V1__Task task = {.attempt = first->attempt, .run_at_us = first->run_at_us, .waiting = first->waiting};
	if (*waiting_text(&task, now_us, why))
		snprintf(out->text, sizeof out->text, "task %" PRId64 ": %s", first->id, why);
}

static void show_special(const void *message, const char *status, int64_t id, struct shown *out)
{
	struct shown word;

	fields_word(message, status, &word);
	if (id)
		snprintf(out->text, sizeof out->text, "task %" PRId64 ", %s", id, *word.value ? word.value : "not ended yet");
}

static void show_entry(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	show_special(message, "entry_status", ((const Reeve__V1__Batch *)message)->entry_id, out);
}

static void show_exit(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	show_special(message, "exit_status", ((const Reeve__V1__Batch *)message)->exit_id, out);
}

static void show_maker(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	out->value = ((const Reeve__V1__Batch *)message)->implicit ? "its queue" : "";
}

static void show_duration(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Batch *batch = message;

	(void)now_us;
	if (batch->started_us)
		duration_format(batch->duration_ms, out->text, sizeof out->text);
}

/* "about 5m"; nothing if it is unknown. */
static void show_remaining(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Batch *batch = message;
	char span[64];

	(void)now_us;
	if (!fields_is(batch, "state", "ended") && batch->remaining_ms >= 0)
		snprintf(out->text, sizeof out->text, "about %s",
		    duration_format((batch->remaining_ms + 999) / 1000 * 1000, span, sizeof span));
}

static void show_callbacks(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Batch *batch = message;

	(void)now_us;
	if (batch->callbacks_waiting || batch->callbacks_given_up)
		snprintf(out->text, sizeof out->text, "%" PRId64 " waiting, %" PRId64 " given up", batch->callbacks_waiting,
		    batch->callbacks_given_up);
}

static const struct column lines[] = {
    {"batch", .field = "id"},
    {"name", .field = "name"},
    {"queue", .field = "queue"},
    {"made by", .show = show_maker},
    {"state", .show = show_state},
    {"tasks", .show = show_tasks},
    {"waits", .show = show_waiting},
    {"entry", .show = show_entry},
    {"exit", .show = show_exit},
    {"source", .field = "source"},
    {"opened", .field = "created_us", .as = AS_TIME},
    {"began", .field = "started_us", .as = AS_TIME},
    {"closed", .field = "closed_us", .as = AS_TIME},
    {"ended", .field = "ended_us", .as = AS_TIME},
    {"took", .show = show_duration},
    {"remaining", .show = show_remaining},
    {"callbacks", .show = show_callbacks},
    {0},
};

void batch_print(const Reeve__V1__Batch *batch, int64_t now_us)
{
	fields_lines(WIDTH, lines, batch, now_us);
}

/*
 * close and list
 */

const struct call batch_close = {
    .options = {.program = "reeve batch close",
        .usage = "ID [--json]",
        .summary = "Closes a batch: it accepts no more tasks, and ends when its tasks have ended.",
        .epilogue = "Example: reeve batch close 7"},
    .operand = "id",
    .noun = "batch",
    .changes = true,
    .list = {.service = &reeve__v1__batch_service__descriptor, .method = "Close", .columns = lines},
    .part = "batch",
    .width = WIDTH,
};

static const struct option_spec list_specs[] = {
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "only batches of this queue"),
    OPT_FLAG('o', "open", OPTION_FIELD("open_only"), "only batches that have not ended"),
    CALL_LIMIT("batches"),
    {0},
};

static const struct column columns[] = {
    COL_NUMBER("ID", "id"),
    COL_TEXT("NAME", "name"),
    COL_TEXT("QUEUE", "queue"),
    COL_WORD("STATE", NULL, .show = batch_show_end),
    COL_WORD("PHASE", "phase"),
    COL_NUMBER("TASKS", "submitted"),
    COL_NUMBER("PENDING", "pending"),
    COL_NUMBER("COMPLETED", "completed"),
    COL_NUMBER("FAILED", "failed"),
    COL_NUMBER("TOOK", NULL, .show = show_duration),
    COL_WORD("REMAINING", NULL, .show = show_remaining),
    COL_TEXT("WAITS", NULL, .show = show_waiting),
    {0},
};

const struct call batch_list = {
    .options = {.program = "reeve batch list",
        .usage = "[--queue NAME] [--open] [--limit N] [--json]",
        .summary = "Lists batches, newest first.",
        .epilogue = "Example: reeve batch list --open",
        .specs = list_specs},
    .list = {.service = &reeve__v1__batch_service__descriptor,
        .method = "List",
        .items = "batches",
        .columns = columns},
};
