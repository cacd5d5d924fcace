/* `reeve show`, `reeve list` and `reeve audit`: reading tasks and events. */
#include "client/cmd/command.h"
#include "client/cmd/listing.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "client/cmd/waiting.h"
#include "client/cmd/where.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_LIST = 10000000 };

/*
 * show
 */

static const struct option_spec no_specs[] = {{.name = NULL}};

static const struct option_table show_table = {
    .program = "reeve show",
    .usage = "ID [--json]",
    .summary = "Shows one task, live or finished, with its details and its result.",
    .epilogue = "Example: reeve show 17",
    .specs = no_specs,
};

static void show_line(const char *name, const char *text)
{
	if (!*text)
		return;
	printf("%-12s ", name);
	terminal_write_clean(stdout, text);
	putchar('\n');
}

static void show_time(const char *name, int64_t us, int64_t now_us)
{
	char time[40], age[32], line[96];

	if (us == 0)
		return;
	terminal_age(now_us, us, age, sizeof age);
	snprintf(line, sizeof line, "%s (%s%s)", terminal_time(us, time, sizeof time), age,
	    strncmp(age, "in ", 3) == 0 ? "" : " ago");
	show_line(name, line);
}

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

/* Returns true if the task's error is not its current state: it was retried since. */
static bool of_earlier_attempt(const struct reeve_task *task)
{
	return task->status == REEVE_TASK_COMPLETED || task->status == REEVE_TASK_EXECUTING ||
	       task->status == REEVE_TASK_QUEUED;
}

static void show_task(const struct reeve_task *task, int64_t now_us)
{
	const char *colour = terminal_has_colour(stdout) ? terminal_status_colour(task->status) : "";
	char text[128], span[64], why[WAITING_TEXT];

	printf("%-12s %" PRId64 "\n", "task", task->id);
	printf("%-12s %s%s%s%s\n", "status", colour, reeve_task_status_name(task->status),
	    *colour ? terminal_no_colour : "", task->cancel_requested ? " (a cancel was asked for)" : "");
	show_line("waits", waiting_text(task, now_us, why));
	show_line("queue", task->queue);
	show_line("type", task->type);
	if (*task->pipeline) {
		show_line("pipeline", task->pipeline);
		show_line("stage", task->stage);
		snprintf(text, sizeof text, "%" PRIu32, task->step);
		show_line("step", text);
	}
	show_line("key", task->key);
	if (task->version) {
		snprintf(text, sizeof text, "%" PRId64, task->version);
		show_line("version", text);
	}
	printf("%-12s %" PRId32 "\n", "priority", task->priority);
	snprintf(text, sizeof text, "%" PRIu32 " of %" PRIu32 ", each up to %s", task->attempt, task->max_attempts,
	    duration_format(task->timeout_ms, span, sizeof span));
	show_line("attempts", text);
	show_line("source", task->source);
	show_time("submitted", task->created_us, now_us);
	show_time("due", task->run_at_us, now_us);
	show_time("started", task->started_us, now_us);
	if (task->first_started_us != task->started_us)
		show_time("first", task->first_started_us, now_us);
	show_time("finished", task->finished_us, now_us);
	if (task->token != task->finished_us && task->token != task->started_us && task->token != task->created_us)
		show_time("updated", task->token, now_us);
	if (task->processing_ms)
		show_line("ran", duration_format(task->processing_ms, span, sizeof span));
	if (task->status == REEVE_TASK_EXECUTING)
		show_time("expires", task->expiry_us, now_us);
	show_line("worker", task->worker);
	if (task->batch_id) {
		snprintf(text, sizeof text, "%" PRId64, task->batch_id);
		show_line("batch", text);
	}
	show_line("remark", task->remark);
	if (task->error_count) {
		snprintf(text, sizeof text, "%" PRIu32, task->error_count);
		show_line("errors", text);
	}
	show_line(of_earlier_attempt(task) ? "earlier code" : "error code", task->error_code);
	if (task->recoverable)
		show_line("recoverable", task->recoverable == REEVE_RECOVERABLE ? "yes" : "no: it is not tried again");
	show_text(of_earlier_attempt(task) ? "earlier error" : "error", task->last_error);
	if (strcmp(task->stack_trace, task->last_error) != 0) /* otherwise it is a short stderr, which is also the error */
		show_text(of_earlier_attempt(task) ? "earlier stack" : "stack", task->stack_trace);
	show_text("details", task->details);
	show_text("result", task->result);
}

int command_show(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	struct reeve_task *task = NULL;
	int operands, code;
	int64_t *ids;
	size_t count;

	if (!command_options(&show_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands > 1)
		return command_usage(&show_table, "one task at a time");
	ids = command_ids(&show_table, operands, argv, &count, &code);
	if (!ids)
		return code;
	client = command_connect(&shared, &code);
	if (client) {
		code = EXIT_OK;
		task = reeve_get(client, ids[0], &failure);
		if (!task)
			code = command_failed(&failure);
		else if (shared.json)
			command_print_json(task->wire);
		else
			show_task(task, reeve_client_now_us(client));
	}
	reeve_task_free(task);
	reeve_client_destroy(client);
	free(ids);
	return code;
}

/*
 * list
 */

struct list_options {
	const char *status;
	const char *queue;
	const char *type;
	const char *where;
	int64_t running_longer_ms;
	int64_t limit;
};

static const struct option_spec list_specs[] = {
    {.name = "status",
        .type = OPTION_TEXT,
        .offset = offsetof(struct list_options, status),
        .argument = "STATUS",
        .letter = 's',
        .help = "only tasks with this status: queued, executing, failed, completed, dead or cancelled"},
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = offsetof(struct list_options, queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "only tasks of this queue"},
    {.name = "type",
        .type = OPTION_TEXT,
        .offset = offsetof(struct list_options, type),
        .argument = "TYPE",
        .letter = 't',
        .help = "only tasks of this type"},
    {.name = "where",
        .type = OPTION_TEXT,
        .offset = offsetof(struct list_options, where),
        .argument = "CONDITIONS",
        .help = "only those that match, as 'status=dead,failed error~timeout older=1h'; there are " WHERE_NAMES},
    {.name = "running-longer",
        .type = OPTION_DURATION,
        .offset = offsetof(struct list_options, running_longer_ms),
        .min = 1,
        .max = INT64_C(3153600000000),
        .argument = "DURATION",
        .help = "only executing tasks whose attempt began this long ago or earlier"},
    {.name = "limit",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct list_options, limit),
        .default_value = "100",
        .min = 1,
        .max = LONGEST_LIST,
        .argument = "N",
        .letter = 'n',
        .help = "maximum number of tasks"},
    {.name = NULL},
};

static const struct option_table list_table = {
    .program = "reeve list",
    .usage = "[--status STATUS] [--queue NAME] [--type TYPE] [--where CONDITIONS] [--running-longer DURATION] [--limit N] "
             "[--json]",
    .summary = "Lists tasks, live and finished, newest first.",
    .epilogue = "Examples:\n"
                "  reeve list --status dead --queue mail --limit 20\n"
                "  reeve list --where 'status=dead,failed error~\"no route\" newer=1d'\n"
                "  reeve list --running-longer 1h",
    .specs = list_specs,
};

static const struct column list_columns[] = {{"ID", COLUMN_NUMBER}, {"STATUS", COLUMN_WORD}, {"QUEUE", COLUMN_TEXT},
    {"TYPE", COLUMN_TEXT}, {"PRIO", COLUMN_NUMBER}, {"TRIES", COLUMN_NUMBER}, {"AGE", COLUMN_NUMBER},
    {"WORKER", COLUMN_TEXT}, {"NOTE", COLUMN_TEXT}, {0}};

/* Writes the note for a task in a list: why it waits, its error, or, if it has run for long, how long. */
static const char *note_of(const struct reeve_task *task, int64_t now_us, bool hung, char *out, size_t size)
{
	const char *gap = *task->error_code && *task->last_error ? ": " : "";
	bool wrong = (*task->error_code || *task->last_error) && task->status != REEVE_TASK_COMPLETED;
	char age[32], why[WAITING_TEXT];

	waiting_text(task, now_us, why);
	if (hung)
		snprintf(out, size, "runs for %s", terminal_age(now_us, task->started_us, age, sizeof age));
	else if (wrong)
		snprintf(out, size, "%s%s%s%s%s", why, *why ? ", " : "", task->error_code, gap, task->last_error);
	else
		snprintf(out, size, "%s", why);
	return out;
}

struct task_list {
	struct reeve_client *client;
	struct reeve_filter *filter;
};

static struct listing_page read_tasks(void *arg, uint32_t limit, struct reeve_failure *failure)
{
	struct task_list *list = arg;
	struct reeve_tasks *tasks;

	list->filter->limit = limit;
	tasks = reeve_list(list->client, list->filter, failure);
	if (!tasks)
		return (struct listing_page){0};
	list->filter->before_id = tasks->next_before_id;
	return (struct listing_page){tasks, tasks->count, tasks->next_before_id > 0};
}

static void add_task(void *arg, struct table *table, const void *items, size_t i)
{
	const struct task_list *list = arg;
	const struct reeve_task *task = &((const struct reeve_tasks *)items)->tasks[i];
	bool hung = list->filter->where && list->filter->where->running_longer_ms;
	int64_t now_us = reeve_client_now_us(list->client);
	char tries[32], age[32], note[512];

	snprintf(tries, sizeof tries, "%" PRIu32 "/%" PRIu32, task->attempt, task->max_attempts);
	table_number(table, task->id);
	table_coloured(table, reeve_task_status_name(task->status), terminal_status_colour(task->status));
	table_text(table, task->queue);
	table_text(table, task->type);
	table_number(table, task->priority);
	table_text(table, tries);
	table_text(table, terminal_age(now_us, task->created_us, age, sizeof age));
	table_text(table, task->worker);
	table_text(table, note_of(task, now_us, hung, note, sizeof note));
}

static const void *task_wire(const void *items, size_t i)
{
	return ((const struct reeve_tasks *)items)->tasks[i].wire;
}

static void release_tasks(void *items)
{
	reeve_tasks_free(items);
}

static const struct listing task_listing = {
    .columns = list_columns,
    .name = "tasks",
    .hint = "--limit and the filters choose",
    .read = read_tasks,
    .add_row = add_task,
    .wire = task_wire,
    .release = release_tasks,
};

/* Returns the name of an empty filter, or NULL: an empty one would count as none. */
static const char *empty_filter(const struct list_options *options)
{
	if (options->queue && !*options->queue)
		return "--queue";
	return options->type && !*options->type ? "--type" : NULL;
}

static int run_list(const struct shared_options *shared, struct reeve_filter *filter, int64_t limit)
{
	int code;
	struct reeve_client *client = command_connect(shared, &code);

	if (!client)
		return code;
	code = listing_print(&task_listing, &(struct task_list){client, filter}, limit, shared->json, NULL);
	reeve_client_destroy(client);
	return code;
}

int command_list(int argc, char **argv)
{
	struct list_options options = {0};
	struct shared_options shared = {0};
	struct reeve_filter filter = {0};
	struct reeve_error error = {0};
	struct where where = {0};
	int code;

	if (!command_only_options(&list_table, &options, &shared, argc, argv, &code))
		return code;
	if (options.status) {
		filter.status = reeve_task_status_by_name(options.status);
		if (filter.status == REEVE_TASK_ANY)
			return command_usage(&list_table,
			    "--status: \"%s\" is invalid; it takes queued, executing, failed, completed, dead or "
			    "cancelled",
			    options.status);
	}
	if (empty_filter(&options))
		return command_usage(&list_table, "%s is empty", empty_filter(&options));
	filter.queue = options.queue;
	filter.type = options.type;
	if (options.where && !where_parse(&where, options.where, &error)) {
		where_free(&where);
		return command_usage(&list_table, "--where: %s", error.message);
	}
	if (options.running_longer_ms)
		where.conditions.running_longer_ms = options.running_longer_ms;
	filter.where = &where.conditions;
	code = run_list(&shared, &filter, options.limit);
	where_free(&where);
	return code;
}

/*
 * audit
 */

enum { AUDIT_LIMIT = 1000 };

struct audit_options {
	int64_t since_us;
	int64_t limit;
	bool all;
};

static const struct option_spec audit_specs[] = {
    {.name = "since",
        .type = OPTION_TIME,
        .offset = offsetof(struct audit_options, since_us),
        .argument = "TIME",
        .help = "only events from this time on: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), \"5m "
                "ago\""},
    {.name = "limit",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct audit_options, limit),
        .min = 1,
        .max = 100000,
        .argument = "N",
        .letter = 'n',
        .help = "the newest N events; if not set, 1000"},
    {.name = "all", .type = OPTION_FLAG, .offset = offsetof(struct audit_options, all), .letter = 'a', .help = "all "
                                                                                                               "events"},
    {.name = NULL},
};

static const struct option_table audit_table = {
    .program = "reeve audit",
    .usage = "[ID] [--since TIME] [--limit N | --all] [--json]",
    .summary = "Shows the newest events of one task, or of all tasks, workers, queues and schedules, by time: the "
               "newest is last.",
    .epilogue = "Examples:\n"
                "  reeve audit 17\n"
                "  reeve audit --limit 20\n"
                "  reeve audit --since '5m ago' --all --json",
    .specs = audit_specs,
};

static const struct column audit_columns[] = {{"TIME", COLUMN_WORD}, {"TASK", COLUMN_NUMBER}, {"EVENT", COLUMN_WORD},
    {"ATTEMPT", COLUMN_NUMBER}, {"WORKER", COLUMN_TEXT}, {"ACTOR", COLUMN_TEXT}, {"NOTE", COLUMN_TEXT}, {0}};

static const struct column one_audit_columns[] = {{"TIME", COLUMN_WORD}, {"EVENT", COLUMN_WORD},
    {"ATTEMPT", COLUMN_NUMBER}, {"WORKER", COLUMN_TEXT}, {"ACTOR", COLUMN_TEXT}, {"NOTE", COLUMN_TEXT}, {0}};

struct audit_list {
	struct reeve_client *client;
	const struct audit_options *options;
	int64_t id;                /* of the task, or 0: all tasks */
	struct reeve_events *last; /* with --all: the last page read, with the position of the next one */
	bool more;                 /* there are older events than those read */
};

/* Reads the newest events in one call, so that the events of all tasks can be sorted. */
static struct listing_page read_newest(void *arg, uint32_t limit, struct reeve_failure *failure)
{
	struct audit_list *list = arg;
	uint32_t number = (uint32_t)(list->options->limit ? list->options->limit : AUDIT_LIMIT);
	struct reeve_events *events = reeve_audit(list->client, list->id, list->options->since_us, number, failure);

	(void)limit;
	list->more = events && events->more;
	return (struct listing_page){events, events ? events->count : 0, false};
}

static struct listing_page read_all(void *arg, uint32_t limit, struct reeve_failure *failure)
{
	struct audit_list *list = arg;
	const char *place = list->last ? list->last->next_page : NULL;
	struct reeve_events *events = reeve_audit_page(list->client, list->id, list->options->since_us, place, failure);

	(void)limit;
	reeve_events_free(list->last);
	list->last = events;
	return (struct listing_page){events, events ? events->count : 0, events && events->more};
}

/* Adds a row; without the task's id if all events are of one task. */
static void add_event(void *arg, struct table *table, const void *items, size_t i)
{
	const struct audit_list *list = arg;
	const struct reeve_event *event = &((const struct reeve_events *)items)->events[i];
	char text[40];

	table_text(table, terminal_time(event->at_us, text, sizeof text));
	snprintf(text, sizeof text, "%" PRId64, event->task_id);
	if (!list->id)
		table_text(table, event->task_id ? text : "");
	table_text(table, event->event);
	snprintf(text, sizeof text, "%" PRIu32, event->attempt);
	table_text(table, event->attempt ? text : "");
	table_text(table, event->worker);
	table_text(table, event->actor);
	table_text(table, event->note);
}

static const void *event_wire(const void *items, size_t i)
{
	return ((const struct reeve_events *)items)->events[i].wire;
}

static void release_events(void *items)
{
	reeve_events_free(items);
}

static void keep_page(void *items)
{
	(void)items; /* read_all frees it */
}

static int run_audit(const struct shared_options *shared, const struct audit_options *options, int64_t id)
{
	const struct listing listing = {
	    .columns = id ? one_audit_columns : audit_columns,
	    .name = "events",
	    .read = options->all ? read_all : read_newest,
	    .add_row = add_event,
	    .wire = event_wire,
	    .release = options->all ? keep_page : release_events,
	};
	struct audit_list list = {.options = options, .id = id};
	int code;

	list.client = command_connect(shared, &code);
	if (!list.client)
		return code;
	code = listing_print(&listing, &list, INT64_MAX, shared->json, NULL);
	if (code == EXIT_OK && list.more)
		command_log("there are older events than these; --all shows them, --since and --limit choose");
	reeve_events_free(list.last);
	reeve_client_destroy(list.client);
	return code;
}

int command_audit(int argc, char **argv)
{
	struct audit_options options = {0};
	struct shared_options shared = {0};
	int64_t id = 0;
	int operands, code;

	if (!command_options(&audit_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands > 1)
		return command_usage(&audit_table, "one task at a time");
	if (options.all && options.limit)
		return command_usage(&audit_table, "--all and --limit cannot be combined");
	if (operands == 1) {
		size_t count;
		int64_t *ids = command_ids(&audit_table, operands, argv, &count, &code);

		if (!ids)
			return code;
		id = ids[0];
		free(ids);
	}
	return run_audit(&shared, &options, id);
}
