/* `reeve callback list`: HTTP calls about batches, sent and pending. */
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/terminal.h"

#include <reeve/v1/batch_calls.h>

/* When it is retried, and its last error. */
static void show_note(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Callback *callback = message;
	char age[32];

	out->value = callback->last_error;
	if (!fields_is(callback, "state", "waiting") || !callback->attempts || callback->next_us <= now_us ||
	    !*callback->last_error)
		return;
	snprintf(out->text, sizeof out->text, "again %s: %s", terminal_age(now_us, callback->next_us, age, sizeof age),
	    callback->last_error);
	out->value = out->text;
}

static const struct column columns[] = {
    COL_NUMBER("ID", "id"),
    COL_NUMBER("BATCH", "batch_id"),
    COL_NUMBER("TASK", "task_id", .as = AS_NUMBER),
    COL_WORD("EVENT", "event"),
    COL_WORD("STATE", "state", .as = AS_STATE),
    COL_NUMBER("TRIES", "attempts"),
    COL_NUMBER("STATUS", "last_status", .as = AS_NUMBER),
    COL_NUMBER("AGE", "created_us", .as = AS_AGE),
    COL_TEXT("URL", "url"),
    COL_TEXT("NOTE", NULL, .show = show_note),
    {0},
};

static const struct option_spec specs[] = {
    OPT_INTEGER('b', "batch", OPTION_FIELD("batch_id"), 1, INT64_MAX, "ID", "only callbacks of this batch"),
    OPT_CHOICE(0, "state", OPTION_FIELD("state"), "waiting|delivered|given_up", "only callbacks in this state"),
    CALL_LIMIT("callbacks"),
    {0},
};

/* Distinguishes an unknown batch from one without callbacks. */
static int check_batch(struct reeve_client *client, const void *message)
{
	const Reeve__V1__CallbacksRequest *request = message;
	Reeve__V1__BatchReportRequest batch = {.id = request->batch_id, .limit = 1};
	Reeve__V1__BatchReportResponse *report;
	struct reeve_failure failure = {0};

	if (!request->batch_id)
		return EXIT_OK;
	report = reeve_batch_report(client, &batch, NULL, &failure);
	reeve_free(report);
	return report ? EXIT_OK : command_failed(&failure);
}

const struct call callback_list = {
    .options = {.program = "reeve callback list",
        .usage = "[--batch ID] [--state STATE] [--limit N] [--json]",
        .summary = "Lists HTTP callbacks, newest first: delivered ones, those that are still tried, and those that "
                   "were given up.",
        .epilogue = "Example: reeve callback list --state given_up",
        .specs = specs},
    .list = {.service = &reeve__v1__batch_service__descriptor,
        .method = "Callbacks",
        .items = "callbacks",
        .hint = "--batch, --state and --limit select",
        .columns = columns},
    .empty = check_batch,
};
