/* `reeve batch open|close|list|report|wait`. */
#include "client/cmd/command.h"
#include "client/cmd/listing.h"
#include "client/cmd/progress.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "client/cmd/waiting.h"
#include "common/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONGEST_LIST = 10000000, SECRET_BYTES = 4096, POLL_MS = 250 };

/* Reads the operand that names a batch. Returns false with *code set after an error message. */
static bool take_id(const struct option_table *table, int operands, char **argv, int64_t *id, int *code)
{
	char *end;

	if (operands != 1) {
		*code = command_usage(
		    table, operands ? "one batch at a time" : "the batch's id is missing; `reeve batch list` lists the ids");
		return false;
	}
	errno = 0;
	*id = strtoll(argv[1], &end, 10);
	if (errno || end == argv[1] || *end || *id <= 0) {
		*code = command_usage(table, "\"%s\" is not a batch's id", argv[1]);
		return false;
	}
	return true;
}

/*
 * open
 */

struct open_options {
	struct reeve_batch_spec spec;
	const char *secret_file;
};

#define FIELD(field) .offset = offsetof(struct open_options, field)

static const struct option_spec open_specs[] = {
    {.name = "queue",
        .type = OPTION_TEXT,
        FIELD(spec.queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "queue of its tasks (default: \"default\")"},
    {.name = "callback",
        .type = OPTION_TEXT,
        FIELD(spec.callback_url),
        .argument = "URL",
        .help = "http:// or https:// URL to call when it begins and ends; if not set, the queue's"},
    {.name = "callback-secret-file",
        .type = OPTION_TEXT,
        FIELD(secret_file),
        .argument = "FILE",
        .help = "file whose first line signs these calls"},
    {.name = "callback-tasks",
        .type = OPTION_FLAG,
        FIELD(spec.callback_tasks),
        .help = "also call the URL at the end of each task"},
    {.name = "callback-type",
        .type = OPTION_TEXT,
        FIELD(spec.callback_type),
        .argument = "TYPE",
        .help = "submit a task of this type at its begin, after each task, and at its end; if not set, the "
                "queue's"},
    {.name = "entry",
        .type = OPTION_TEXT,
        FIELD(spec.entry_type),
        .argument = "TYPE",
        .help = "run a task of this type before the first; if not set, the queue's"},
    {.name = "exit",
        .type = OPTION_TEXT,
        FIELD(spec.exit_type),
        .argument = "TYPE",
        .help = "run a task of this type after the last; if not set, the queue's"},
    {.name = NULL},
};

static const struct option_table open_table = {
    .program = "reeve batch open",
    .usage = "NAME [--queue NAME] [OPTION]...",
    .summary = "Opens a batch and prints its id. `reeve submit --batch ID` adds tasks to it. It ends when it has "
               "been closed and all its tasks have ended.",
    .epilogue = "Example: reeve batch open nightly --queue reports --entry prepare --exit mail",
    .specs = open_specs,
};

/* Reads the first line of a file. Returns false after an error message. */
static bool read_secret(const char *path, char *secret, size_t size)
{
	FILE *file = fopen(path, "re");
	const char *problem = NULL;

	if (!file) {
		command_log("--callback-secret-file: %s: %s", path, strerror(errno));
		return false;
	}
	if (!fgets(secret, (int)size, file))
		problem = ferror(file) ? "cannot be read" : "is empty";
	else if (strlen(secret) == size - 1)
		problem = "has a first line that is too long";
	fclose(file);
	if (!problem) {
		secret[strcspn(secret, "\r\n")] = '\0';
		problem = *secret ? NULL : "begins with an empty line";
	}
	if (problem)
		command_log("--callback-secret-file: %s %s", path, problem);
	return !problem;
}

/* Returns what is wrong with the options, or NULL. */
static const char *open_problem(const struct open_options *o, int operands)
{
	const struct {
		const char *text, *problem;
	} given[] = {
	    {o->spec.queue, "--queue is empty"},
	    {o->spec.callback_url, "--callback is empty"},
	    {o->spec.callback_type, "--callback-type is empty"},
	    {o->spec.entry_type, "--entry is empty"},
	    {o->spec.exit_type, "--exit is empty"},
	};

	if (operands != 1)
		return operands ? "one NAME is taken (one with blanks needs quotes)" : "what is it to be called?";
	for (size_t i = 0; i < sizeof given / sizeof *given; i++)
		if (given[i].text && !*given[i].text)
			return given[i].problem;
	return NULL;
}

int batch_open(int argc, char **argv)
{
	struct open_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	char secret[SECRET_BYTES];
	const char *problem;
	int operands, code;
	int64_t id;

	if (!command_options(&open_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	problem = open_problem(&options, operands);
	if (problem)
		return command_usage(&open_table, "%s", problem);
	if (options.secret_file) {
		if (!read_secret(options.secret_file, secret, sizeof secret))
			return EXIT_USAGE;
		options.spec.callback_secret = secret;
	}
	options.spec.name = argv[1];
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	if (!reeve_batch_open(client, &options.spec, NULL, &id, &failure))
		code = command_change_failed(&failure);
	else
		code = printf(shared.json ? "{\"id\":%" PRId64 "}\n" : "%" PRId64 "\n", id) < 0 ? EXIT_TASK_FAILED : EXIT_OK;
	explicit_bzero(secret, sizeof secret);
	command_disconnect(client);
	return code;
}

/*
 * batches as text
 */

/* "about 5m", "0s", or "" if it is unknown. */
static const char *remaining(const struct reeve_batch *batch, char *out, size_t size)
{
	char span[64];

	*out = '\0';
	if (strcmp(batch->state, "ended") != 0 && batch->remaining_ms >= 0)
		snprintf(out, size, "about %s", duration_format((batch->remaining_ms + 999) / 1000 * 1000, span, sizeof span));
	return out;
}

static void line(const char *name, const char *text)
{
	if (!*text)
		return;
	printf("%-12s ", name);
	terminal_write_clean(stdout, text);
	putchar('\n');
}

static void time_line(const char *name, int64_t us)
{
	char text[40];

	if (us)
		line(name, terminal_time(us, text, sizeof text));
}

static void special_line(const char *name, int64_t id, const char *status)
{
	char text[64];

	if (!id)
		return;
	snprintf(text, sizeof text, "task %" PRId64 ", %s", id, *status ? status : "not ended yet");
	line(name, text);
}

/* "task 7: its queue is paused", or "" if no task waits. */
static const char *first_waiting(const struct reeve_batch *batch, int64_t now_us, char *out, size_t size)
{
	const struct reeve_waiting_task *first = &batch->first_waiting;
	const struct reeve_task task = {.attempt = first->attempt, .run_at_us = first->run_at_us, .waiting = first->waiting};
	char why[WAITING_TEXT];

	*out = '\0';
	if (first->id && *waiting_text(&task, now_us, why))
		snprintf(out, size, "task %" PRId64 ": %s", first->id, why);
	return out;
}

static void print_batch(const struct reeve_batch *batch, int64_t now_us)
{
	char text[WAITING_TEXT + 32], span[64];

	printf("%-12s %" PRId64 "\n", "batch", batch->id);
	line("name", batch->name);
	line("queue", batch->queue);
	line("made by", batch->implicit ? "its queue" : "");
	snprintf(text, sizeof text, "%s (%s)", batch->state, batch->phase);
	line("state", strcmp(batch->state, batch->phase) == 0 ? batch->state : text);
	snprintf(text, sizeof text, "%" PRId64 " submitted, %" PRId64 " pending, %" PRId64 " succeeded, %" PRId64 " failed",
	    batch->submitted, batch->pending, batch->succeeded, batch->failed);
	line("tasks", text);
	line("waits", first_waiting(batch, now_us, text, sizeof text));
	special_line("entry", batch->entry_id, batch->entry_status);
	special_line("exit", batch->exit_id, batch->exit_status);
	line("source", batch->source);
	time_line("opened", batch->created_us);
	time_line("began", batch->started_us);
	time_line("closed", batch->closed_us);
	time_line("ended", batch->ended_us);
	if (batch->started_us)
		line("took", duration_format(batch->duration_ms, span, sizeof span));
	line("remaining", remaining(batch, text, sizeof text));
	if (batch->callbacks_waiting || batch->callbacks_given_up) {
		snprintf(text, sizeof text, "%" PRId64 " waiting, %" PRId64 " given up", batch->callbacks_waiting,
		    batch->callbacks_given_up);
		line("callbacks", text);
	}
}

/*
 * close
 */

static const struct option_spec no_specs[] = {{.name = NULL}};

static const struct option_table close_table = {
    .program = "reeve batch close",
    .usage = "ID [--json]",
    .summary = "Closes a batch: it accepts no more tasks, and ends when its tasks have ended.",
    .epilogue = "Example: reeve batch close 7",
    .specs = no_specs,
};

int batch_close(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	struct reeve_batch *batch;
	int operands, code;
	int64_t id;

	if (!command_options(&close_table, NULL, &shared, argc, argv, &operands, &code) ||
	    !take_id(&close_table, operands, argv, &id, &code))
		return code;
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	batch = reeve_batch_close(client, id, &failure);
	if (batch && shared.json)
		command_print_json(batch->wire);
	else if (batch)
		print_batch(batch, reeve_client_now_us(client));
	code = batch ? EXIT_OK : command_change_failed(&failure);
	reeve_batch_free(batch);
	command_disconnect(client);
	return code;
}

/*
 * list
 */

struct list_options {
	const char *queue;
	bool open_only;
	int64_t limit;
};

static const struct option_spec list_specs[] = {
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = offsetof(struct list_options, queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "only batches of this queue"},
    {.name = "open",
        .type = OPTION_FLAG,
        .offset = offsetof(struct list_options, open_only),
        .letter = 'o',
        .help = "only batches that have not ended"},
    {.name = "limit",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct list_options, limit),
        .default_value = "100",
        .min = 1,
        .max = LONGEST_LIST,
        .argument = "N",
        .letter = 'n',
        .help = "maximum number of batches"},
    {.name = NULL},
};

static const struct option_table list_table = {
    .program = "reeve batch list",
    .usage = "[--queue NAME] [--open] [--limit N] [--json]",
    .summary = "Lists batches, newest first.",
    .epilogue = "Example: reeve batch list --open",
    .specs = list_specs,
};

static const struct column list_columns[] = {{"ID", COLUMN_NUMBER}, {"NAME", COLUMN_TEXT}, {"QUEUE", COLUMN_TEXT},
    {"STATE", COLUMN_WORD}, {"PHASE", COLUMN_WORD}, {"TASKS", COLUMN_NUMBER}, {"PENDING", COLUMN_NUMBER},
    {"PASSED", COLUMN_NUMBER}, {"FAILED", COLUMN_NUMBER}, {"TOOK", COLUMN_NUMBER}, {"REMAINING", COLUMN_WORD},
    {"WAITS", COLUMN_TEXT}, {0}};

static void list_row(struct table *table, const struct reeve_batch *batch, int64_t now_us)
{
	char text[WAITING_TEXT + 32];

	table_number(table, batch->id);
	table_text(table, batch->name);
	table_text(table, batch->queue);
	table_text(table, batch->state);
	table_text(table, batch->phase);
	table_number(table, batch->submitted);
	table_number(table, batch->pending);
	table_number(table, batch->succeeded);
	table_number(table, batch->failed);
	table_text(table, batch->started_us ? duration_format(batch->duration_ms, text, sizeof text) : "");
	table_text(table, remaining(batch, text, sizeof text));
	table_text(table, first_waiting(batch, now_us, text, sizeof text));
}

struct batches_listed {
	struct reeve_client *client;
	struct reeve_batch_filter *filter;
};

static struct listing_page read_batches(void *arg, uint32_t limit, struct reeve_failure *failure)
{
	struct batches_listed *list = arg;
	struct reeve_batches *batches;

	list->filter->limit = limit;
	batches = reeve_batch_list(list->client, list->filter, failure);
	if (!batches)
		return (struct listing_page){0};
	list->filter->before_id = batches->next_before_id;
	return (struct listing_page){batches, batches->count, batches->next_before_id != 0};
}

static void add_batch(void *arg, struct table *table, const void *items, size_t i)
{
	const struct batches_listed *list = arg;

	list_row(table, &((const struct reeve_batches *)items)->batches[i], reeve_client_now_us(list->client));
}

static const void *batch_wire(const void *items, size_t i)
{
	return ((const struct reeve_batches *)items)->batches[i].wire;
}

static void release_batches(void *items)
{
	reeve_batches_free(items);
}

static const struct listing batch_listing = {
    .columns = list_columns,
    .name = "batches",
    .read = read_batches,
    .add_row = add_batch,
    .wire = batch_wire,
    .release = release_batches,
};

int batch_list(int argc, char **argv)
{
	struct list_options options = {0};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int code;

	if (!command_only_options(&list_table, &options, &shared, argc, argv, &code))
		return code;
	if (options.queue && !*options.queue)
		return command_usage(&list_table, "--queue is empty");
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	struct reeve_batch_filter filter = {.queue = options.queue, .open_only = options.open_only};
	code = listing_print(&batch_listing, &(struct batches_listed){client, &filter}, options.limit, shared.json, NULL);
	reeve_client_destroy(client);
	return code;
}

/*
 * report
 */

static const struct option_table report_table = {
    .program = "reeve batch report",
    .usage = "ID [--json]",
    .summary = "Shows a batch: its totals and times, and each of its tasks with attempts, times, remarks and "
               "errors.",
    .epilogue = "Example: reeve batch report 7 --json | jq '.tasks[] | select(.status == \"dead\")'",
    .specs = no_specs,
};

static const struct column report_columns[] = {{"ID", COLUMN_NUMBER}, {"STATUS", COLUMN_WORD}, {"TYPE", COLUMN_TEXT},
    {"TRIES", COLUMN_NUMBER}, {"STARTED", COLUMN_WORD}, {"FINISHED", COLUMN_WORD}, {"WORKER", COLUMN_TEXT},
    {"REMARK", COLUMN_TEXT}, {0}};

static void report_row(struct table *table, const struct reeve_task *task)
{
	const char *error = task->status == REEVE_TASK_COMPLETED ? "" : task->last_error;
	const char *code = task->status == REEVE_TASK_COMPLETED ? "" : task->error_code;
	char text[40], note[512];

	snprintf(note, sizeof note, "%s%s%s%s%s", task->remark, *task->remark && (*code || *error) ? "; " : "", code,
	    *code && *error ? ": " : "", error);
	table_number(table, task->id);
	table_coloured(table, reeve_task_status_name(task->status), terminal_status_colour(task->status));
	table_text(table, task->type);
	snprintf(text, sizeof text, "%" PRIu32 "/%" PRIu32, task->attempt, task->max_attempts);
	table_text(table, text);
	table_text(table, terminal_time(task->started_us, text, sizeof text));
	table_text(table, terminal_time(task->finished_us, text, sizeof text));
	table_text(table, task->worker);
	table_text(table, note);
}

/* Writes one object over several pages: {"batch": {…}, "tasks": […]}. */
static void json_page(const struct reeve_batch_report *page, bool first, size_t told)
{
	char *json;

	if (first) {
		json = reeve_json(page->batch.wire);
		fputs("{\"batch\":", stdout);
		command_write_json(json);
		fputs(",\"tasks\":[", stdout);
		free(json);
	}
	for (size_t i = 0; i < page->count; i++) {
		json = reeve_json(page->tasks[i].wire);
		fputs(told + i ? "," : "", stdout);
		command_write_json(json);
		free(json);
	}
	if (!page->more)
		puts("]}");
}

static int report(struct reeve_client *client, int64_t id, bool json)
{
	struct table *table = table_create(report_columns);
	struct reeve_failure failure = {0};
	int64_t after = 0;
	size_t told = 0;
	bool more = true, first = true;
	int code = EXIT_OK;

	while (more && !ferror(stdout)) {
		struct reeve_batch_report *page = reeve_batch_report(client, id, after, 0, &failure);

		if (!page) {
			code = command_failed(&failure);
			break;
		}
		if (json)
			json_page(page, first, told);
		else if (first)
			print_batch(&page->batch, reeve_client_now_us(client));
		for (size_t i = 0; !json && i < page->count; i++)
			report_row(table, &page->tasks[i]);
		told += page->count;
		first = false;
		more = page->more && page->count > 0;
		if (more)
			after = page->tasks[page->count - 1].id;
		reeve_batch_report_free(page);
	}
	if (!json && told > 0) {
		putchar('\n');
		table_print(table);
	}
	table_destroy(table);
	return code;
}

int batch_report(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_client *client;
	int operands, code;
	int64_t id;

	if (!command_options(&report_table, NULL, &shared, argc, argv, &operands, &code) ||
	    !take_id(&report_table, operands, argv, &id, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = report(client, id, shared.json);
	reeve_client_destroy(client);
	return code;
}

/*
 * wait
 */

struct wait_options {
	int64_t timeout_ms;
};

static const struct option_spec wait_specs[] = {
    {.name = "timeout",
        .type = OPTION_DURATION,
        .offset = offsetof(struct wait_options, timeout_ms),
        .argument = "DURATION",
        .help = "stop waiting after this time; if not set, never"},
    {.name = NULL},
};

static const struct option_table wait_table = {
    .program = "reeve batch wait",
    .usage = "ID [--timeout DURATION] [--json]",
    .summary = "Waits until a batch has ended, and shows its totals. The exit code is 1 if a task failed or the "
               "time is over.",
    .epilogue = "Example: reeve batch wait 7 --timeout 1h",
    .specs = wait_specs,
};

static int wait_for(struct reeve_client *client, int64_t id, int64_t timeout_ms, bool json)
{
	int64_t end_ms = timeout_ms < 0 ? INT64_MAX : clock_monotonic_ms() + timeout_ms;
	struct reeve_failure failure = {0};
	const struct timespec rest = {.tv_nsec = POLL_MS * 1000000L};
	struct progress progress = {0};

	for (;;) {
		struct reeve_batch_report *report = reeve_batch_report(client, id, 0, 1, &failure);
		const struct reeve_batch *batch;
		bool ended;
		int code;

		if (!report) {
			progress_end(&progress);
			return command_failed(&failure);
		}
		batch = &report->batch;
		ended = strcmp(batch->state, "ended") == 0;
		code = ended && batch->failed == 0 ? EXIT_OK : EXIT_TASK_FAILED;
		if (ended || clock_monotonic_ms() >= end_ms) {
			progress_end(&progress);
			if (json)
				command_print_json(batch->wire);
			else
				print_batch(batch, reeve_client_now_us(client));
			if (!ended)
				command_log("batch %" PRId64 " has not ended in time", id);
			reeve_batch_report_free(report);
			return code;
		}
		if (!progress.begun_ms)
			progress_begin(&progress, "waiting", 0, batch->submitted - batch->pending);
		progress.total = batch->submitted; /* an open batch grows */
		progress_show(&progress, batch->submitted - batch->pending);
		reeve_batch_report_free(report);
		nanosleep(&rest, NULL);
	}
}

int batch_wait(int argc, char **argv)
{
	struct wait_options options = {.timeout_ms = -1};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int operands, code;
	int64_t id;

	if (!command_options(&wait_table, &options, &shared, argc, argv, &operands, &code) ||
	    !take_id(&wait_table, operands, argv, &id, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = wait_for(client, id, options.timeout_ms, shared.json);
	reeve_client_destroy(client);
	return code;
}
