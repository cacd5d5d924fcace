/* `reeve callback list`: HTTP calls about batches, sent and pending. */
#include "client/cmd/command.h"
#include "client/cmd/listing.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LIST = 10000000 };

struct callbacks_options {
	const char *state;
	int64_t batch, limit;
};

static const struct option_spec specs[] = {
    {.name = "batch",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct callbacks_options, batch),
        .min = 1,
        .max = INT64_MAX,
        .argument = "ID",
        .letter = 'b',
        .help = "only callbacks of this batch"},
    {.name = "state",
        .type = OPTION_TEXT,
        .offset = offsetof(struct callbacks_options, state),
        .argument = "STATE",
        .letter = 's',
        .help = "only callbacks in this state: waiting, delivered or given_up"},
    {.name = "limit",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct callbacks_options, limit),
        .default_value = "100",
        .min = 1,
        .max = LONGEST_LIST,
        .argument = "N",
        .letter = 'n',
        .help = "maximum number of callbacks"},
    {.name = NULL},
};

static const struct option_table table = {
    .program = "reeve callback list",
    .usage = "[--batch ID] [--state STATE] [--limit N] [--json]",
    .summary = "Lists HTTP callbacks, newest first: delivered ones, those that are still tried, and those that "
               "were given up.",
    .epilogue = "Example: reeve callback list --state given_up",
    .specs = specs,
};

static const struct column columns[] = {{"ID", COLUMN_NUMBER}, {"BATCH", COLUMN_NUMBER}, {"TASK", COLUMN_NUMBER},
    {"EVENT", COLUMN_WORD}, {"STATE", COLUMN_WORD}, {"TRIES", COLUMN_NUMBER}, {"STATUS", COLUMN_NUMBER},
    {"AGE", COLUMN_NUMBER}, {"URL", COLUMN_TEXT}, {"NOTE", COLUMN_TEXT}, {0}};

static const char *number_or_none(int64_t number, char *out, size_t size)
{
	snprintf(out, size, "%" PRId64, number);
	return number ? out : "";
}

/* Writes the note for a callback: when it is retried and its last error. */
static const char *note_of(const struct reeve_callback *callback, int64_t now_us, char *out, size_t size)
{
	bool waits = strcmp(callback->state, "waiting") == 0;
	char age[32];

	if (waits && callback->attempts && callback->next_us > now_us && *callback->last_error)
		snprintf(out, size, "again %s: %s", terminal_age(now_us, callback->next_us, age, sizeof age),
		    callback->last_error);
	else
		snprintf(out, size, "%s", callback->last_error);
	return out;
}

static void add_row(struct table *rows, const struct reeve_callback *callback, int64_t now_us)
{
	const char *colour = strcmp(callback->state, "given_up") == 0    ? "\x1b[31m"
	                     : strcmp(callback->state, "delivered") == 0 ? "\x1b[32m"
	                                                                 : "\x1b[33m";
	char text[32], note[512];

	table_number(rows, callback->id);
	table_number(rows, callback->batch_id);
	table_text(rows, number_or_none(callback->task_id, text, sizeof text));
	table_text(rows, callback->event);
	table_coloured(rows, callback->state, colour);
	table_number(rows, callback->attempts);
	table_text(rows, number_or_none(callback->last_status, text, sizeof text));
	table_text(rows, terminal_age(now_us, callback->created_us, text, sizeof text));
	table_text(rows, callback->url);
	table_text(rows, note_of(callback, now_us, note, sizeof note));
}

/* Checks that the batch exists, to distinguish an unknown batch from one without callbacks. Returns false with *code
 * set after an error message. */
static bool batch_exists(struct reeve_client *client, int64_t id, int *code)
{
	struct reeve_failure failure = {0};
	struct reeve_batch_report *report = reeve_batch_report(client, id, 0, 1, &failure);

	if (!report) {
		*code = command_failed(&failure);
		return false;
	}
	reeve_batch_report_free(report);
	return true;
}

struct callbacks_listed {
	struct reeve_client *client;
	struct reeve_callback_filter *filter;
};

static struct listing_page read_callbacks(void *arg, uint32_t limit, struct reeve_failure *failure)
{
	struct callbacks_listed *list = arg;
	struct reeve_callbacks *callbacks;

	list->filter->limit = limit;
	callbacks = reeve_callbacks(list->client, list->filter, failure);
	if (!callbacks)
		return (struct listing_page){0};
	list->filter->before_id = callbacks->next_before_id;
	return (struct listing_page){callbacks, callbacks->count, callbacks->next_before_id != 0};
}

static void add_callback(void *arg, struct table *rows, const void *items, size_t i)
{
	const struct callbacks_listed *list = arg;

	add_row(rows, &((const struct reeve_callbacks *)items)->callbacks[i], reeve_client_now_us(list->client));
}

static const void *callback_wire(const void *items, size_t i)
{
	return ((const struct reeve_callbacks *)items)->callbacks[i].wire;
}

static void release_callbacks(void *items)
{
	reeve_callbacks_free(items);
}

static const struct listing listing = {
    .columns = columns,
    .name = "callbacks",
    .hint = "--batch, --state and --limit select",
    .read = read_callbacks,
    .add_row = add_callback,
    .wire = callback_wire,
    .release = release_callbacks,
};

static int list(struct reeve_client *client, struct reeve_callback_filter *filter, int64_t limit, bool json)
{
	int64_t listed;
	int code = listing_print(&listing, &(struct callbacks_listed){client, filter}, limit, json, &listed);

	if (code == EXIT_OK && listed == 0 && (!filter->batch_id || batch_exists(client, filter->batch_id, &code)) && !json)
		fprintf(stderr, "no callbacks\n");
	return code;
}

int callback_list(int argc, char **argv)
{
	struct callbacks_options options = {0};
	struct shared_options shared = {0};
	struct reeve_callback_filter filter = {0};
	struct reeve_client *client;
	int code;

	if (!command_only_options(&table, &options, &shared, argc, argv, &code))
		return code;
	filter.batch_id = options.batch;
	filter.state = options.state;
	if (options.state && strcmp(options.state, "waiting") != 0 && strcmp(options.state, "delivered") != 0 &&
	    strcmp(options.state, "given_up") != 0)
		return command_usage(
		    &table, "--state: \"%s\" is not a state; use waiting, delivered or given_up", options.state);
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = list(client, &filter, options.limit, shared.json);
	reeve_client_destroy(client);
	return code;
}
