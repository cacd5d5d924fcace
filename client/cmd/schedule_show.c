/* `reeve schedule list`, `show` and `runs`. */
#include "client/cmd/backoff.h"
#include "client/cmd/schedule.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 1000, LONGEST_LIST = 10000000, PREVIEW_MAX = 1000 };

/*
 * one schedule as text
 */

static void line(const char *name, const char *text)
{
	if (!text || !*text)
		return;
	printf("%-9s ", name);
	terminal_write_clean(stdout, text);
	putchar('\n');
}

static void number_line(const char *name, int64_t number)
{
	if (number)
		printf("%-9s %" PRId64 "\n", name, number);
}

static void span_line(const char *name, int64_t ms)
{
	char text[64];

	if (ms)
		line(name, duration_format(ms, text, sizeof text));
}

static void time_line(const char *name, int64_t us)
{
	char text[40];

	if (us)
		line(name, terminal_time(us, text, sizeof text));
}

/* Writes "1 0 * * *", "every 30s" or "manual". */
static const char *when(const struct reeve_schedule_spec *spec, char *out, size_t size)
{
	char span[64];

	if (*spec->cron)
		snprintf(out, size, "%s", spec->cron);
	else if (spec->every_ms)
		snprintf(out, size, "every %s", duration_format(spec->every_ms, span, sizeof span));
	else
		snprintf(out, size, "manual");
	return out;
}

/* Writes "report" or "stop queue night". */
static const char *what(const struct reeve_schedule_spec *spec, char *out, size_t size)
{
	static const char *const actions[] = {"", "start", "stop", "pause", "resume"};

	if (spec->task && *spec->task->pipeline)
		snprintf(out, size, "pipeline %s", spec->task->pipeline);
	else if (spec->task)
		snprintf(out, size, "%s", spec->task->type);
	else
		snprintf(out, size, "%s queue %s",
		    spec->queue_action <= REEVE_QUEUE_RESUME ? actions[spec->queue_action] : "?", spec->action_queue);
	return out;
}

static const char *catch_up(const struct reeve_schedule_spec *spec, char *out, size_t size)
{
	static const char *const names[] = {"", "skip", "one"};

	if (spec->catch_up == REEVE_CATCH_UP_ALL)
		snprintf(out, size, "all:%" PRIu32, spec->max_catch_up);
	else
		snprintf(out, size, "%s", spec->catch_up <= REEVE_CATCH_UP_ONE ? names[spec->catch_up] : "?");
	return out;
}

static void print_task(const Reeve__V1__TaskSpec *task)
{
	line("queue", *task->queue ? task->queue : "default");
	line("type", task->type);
	line("pipeline", task->pipeline);
	line("details", task->details);
	number_line("priority", task->priority);
	span_line("delay", task->delay_ms);
	line("key", task->key);
	span_line("key ttl", task->key_ttl_ms);
	number_line("attempts", task->max_attempts);
	span_line("timeout", task->timeout_ms);
	if (task->retry) {
		char *backoff = backoff_format(task->retry);

		line("backoff", backoff);
		free(backoff);
		if (task->retry->jitter_percent && task->retry->jitter_percent != 25)
			printf("%-9s %d %%\n", "jitter",
			    task->retry->jitter_percent < 0 ? 0 : (int)task->retry->jitter_percent);
	}
	line("as", task->source);
	number_line("batch", task->batch_id);
}

static void print_last(const struct reeve_schedule *schedule)
{
	char text[256], at[40], task[40] = "";

	if (!schedule->last_us)
		return;
	if (schedule->last_task_id)
		snprintf(task, sizeof task, ", task %" PRId64, schedule->last_task_id);
	snprintf(text, sizeof text, "%s, %s%s%s", terminal_time(schedule->last_us, at, sizeof at),
	    schedule->last_outcome, task, schedule->last_scheduled_us ? "" : ", manual");
	line("last", text);
}

static void print_state(const struct reeve_schedule *schedule)
{
	char text[64];

	if (schedule->paused)
		line("state", "paused");
	else if (schedule->waits_for) {
		snprintf(text, sizeof text, "waits for the end of task %" PRId64, schedule->waits_for);
		line("state", text);
	}
}

void schedule_print(const struct reeve_schedule *schedule, bool json)
{
	static const char *const overlaps[] = {"", "allow", "forbid", "queue"};
	const struct reeve_schedule_spec *spec = &schedule->spec;
	char text[512];

	if (json) {
		command_print_json(schedule->wire);
		return;
	}
	line("schedule", spec->name);
	line("when", when(spec, text, sizeof text));
	line("zone", spec->zone);
	time_line("start", spec->start_us);
	if (spec->task)
		print_task(spec->task);
	else
		line("does", what(spec, text, sizeof text));
	line("catch-up", catch_up(spec, text, sizeof text));
	line("overlap", spec->concurrency_policy <= REEVE_CONCURRENCY_QUEUE ? overlaps[spec->concurrency_policy] : "?");
	print_state(schedule);
	time_line("next", schedule->next_us);
	print_last(schedule);
	line("source", schedule->source);
	time_line("added", schedule->created_us);
	if (schedule->updated_us != schedule->created_us)
		time_line("changed", schedule->updated_us);
	for (size_t i = 0; i < schedule->n_scheduled; i++)
		time_line(i ? "" : "scheduled", schedule->scheduled_us[i]);
}

/*
 * show
 */

struct show_options {
	int64_t next;
};

static const struct option_spec show_specs[] = {
    {.name = "next",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct show_options, next),
        .min = 1,
        .max = PREVIEW_MAX,
        .argument = "N",
        .letter = 'n',
        .help = "show the next N scheduled times"},
    {.name = NULL},
};

static const struct option_table show_table = {
    .program = "reeve schedule show",
    .usage = "NAME [--next N] [--json]",
    .summary = "Shows a schedule and its next run. Times are in UTC.",
    .epilogue = "Example: reeve schedule show nightly --next 5",
    .specs = show_specs,
};

int schedule_show(int argc, char **argv)
{
	struct show_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_schedule *schedule;
	struct reeve_client *client;
	const char *name;
	int code;

	name = command_named(&show_table, &options, &shared, "schedule", argc, argv, &code);
	client = name ? command_connect(&shared, &code) : NULL;
	if (!client)
		return code;
	schedule = reeve_schedule_show(client, name, (uint32_t)options.next, &failure);
	if (schedule)
		schedule_print(schedule, shared.json);
	else
		code = command_failed(&failure);
	reeve_schedule_free(schedule);
	reeve_client_destroy(client);
	return code;
}

/*
 * list
 */

static const struct option_spec no_specs[] = {{.name = NULL}};

static const struct option_table list_table = {
    .program = "reeve schedule list",
    .usage = "[--json]",
    .summary =
        "Lists schedules by name: their times and zones, what they do, their next run, and the outcome of the "
        "last.",
    .epilogue = "Example: reeve schedule list --json | jq -r 'select(.paused).name'",
    .specs = no_specs,
};

static const struct column list_columns[] = {{"NAME", COLUMN_TEXT}, {"WHEN", COLUMN_TEXT}, {"ZONE", COLUMN_WORD},
    {"DOES", COLUMN_TEXT}, {"NEXT", COLUMN_WORD}, {"LAST", COLUMN_WORD}, {"OUTCOME", COLUMN_WORD},
    {"STATE", COLUMN_TEXT}, {0}};

static void list_row(struct table *table, const struct reeve_schedule *schedule)
{
	char text[512];

	table_text(table, schedule->spec.name);
	table_text(table, when(&schedule->spec, text, sizeof text));
	table_text(table, schedule->spec.zone);
	table_text(table, what(&schedule->spec, text, sizeof text));
	table_text(table, terminal_time(schedule->next_us, text, sizeof text));
	table_text(table, terminal_time(schedule->last_us, text, sizeof text));
	table_text(table, schedule->last_outcome);
	if (schedule->waits_for)
		snprintf(text, sizeof text, "waits for task %" PRId64, schedule->waits_for);
	table_text(table, schedule->paused ? "paused" : schedule->waits_for ? text : "");
}

static int list(struct reeve_client *client, bool json)
{
	struct table *table = table_create(list_columns);
	struct reeve_failure failure = {0};
	char *after = strdup("");
	size_t listed = 0;
	bool more = true;
	int code = EXIT_OK;

	while (more && !ferror(stdout)) {
		struct reeve_schedules *page = reeve_schedule_list(client, after, PAGE, &failure);

		if (!page) {
			code = command_failed(&failure);
			break;
		}
		for (size_t i = 0; i < page->count; i++) {
			if (json)
				command_print_json(page->schedules[i].wire);
			else
				list_row(table, &page->schedules[i]);
		}
		listed += page->count;
		more = page->more && page->count > 0;
		if (more) {
			free(after);
			after = strdup(page->schedules[page->count - 1].spec.name);
		}
		reeve_schedules_free(page);
	}
	if (!json && listed > 0)
		table_print(table);
	else if (!json && code == EXIT_OK)
		fprintf(stderr, "no schedules\n");
	free(after);
	table_destroy(table);
	return code;
}

int schedule_list(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_client *client;
	int code;

	if (!command_only_options(&list_table, NULL, &shared, argc, argv, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = list(client, shared.json);
	reeve_client_destroy(client);
	return code;
}

/*
 * runs
 */

struct runs_options {
	int64_t limit, before;
};

static const struct option_spec runs_specs[] = {
    {.name = "limit",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct runs_options, limit),
        .default_value = "100",
        .min = 1,
        .max = LONGEST_LIST,
        .argument = "N",
        .letter = 'n',
        .help = "maximum number of runs"},
    {.name = "before",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct runs_options, before),
        .min = 1,
        .max = INT64_MAX,
        .argument = "ID",
        .help = "only runs with ids below this one, for paging"},
    {.name = NULL},
};

static const struct option_table runs_table = {
    .program = "reeve schedule runs",
    .usage = "NAME [--limit N] [--before ID] [--json]",
    .summary =
        "Lists the runs of a schedule, newest first: when they were scheduled and when they fired, and the task "
        "with its current status. It also lists those of a removed schedule.",
    .epilogue = "Example: reeve schedule runs nightly --limit 7",
    .specs = runs_specs,
};

static const struct column runs_columns[] = {{"ID", COLUMN_NUMBER}, {"PLANNED", COLUMN_WORD}, {"FIRED", COLUMN_WORD},
    {"OUTCOME", COLUMN_WORD}, {"TASK", COLUMN_NUMBER}, {"STATUS", COLUMN_WORD}, {"BY", COLUMN_TEXT},
    {"NOTE", COLUMN_TEXT}, {0}};

static void runs_row(struct table *table, const struct reeve_schedule_run *run)
{
	char text[40];

	table_number(table, run->id);
	table_text(table, run->scheduled_us ? terminal_time(run->scheduled_us, text, sizeof text) : "manual");
	table_text(table, terminal_time(run->at_us, text, sizeof text));
	table_text(table, run->outcome);
	snprintf(text, sizeof text, "%" PRId64, run->task_id);
	table_text(table, run->task_id ? text : "");
	table_coloured(table, reeve_task_status_name(run->task_status), terminal_status_colour(run->task_status));
	table_text(table, run->actor);
	table_text(table, run->note);
}

static int runs(struct reeve_client *client, const char *name, const struct runs_options *options, bool json)
{
	struct table *table = table_create(runs_columns);
	struct reeve_failure failure = {0};
	int64_t before = options->before, listed = 0;
	bool more = true;
	int code = EXIT_OK;

	while (more && listed < options->limit && !ferror(stdout)) {
		int64_t left = options->limit - listed;
		uint32_t limit = (uint32_t)(left < PAGE ? left : PAGE);
		struct reeve_schedule_runs *page = reeve_schedule_runs(client, name, limit, before, &failure);

		if (!page) {
			code = command_failed(&failure);
			break;
		}
		for (size_t i = 0; i < page->count; i++) {
			if (json)
				command_print_json(page->runs[i].wire);
			else
				runs_row(table, &page->runs[i]);
		}
		listed += (int64_t)page->count;
		before = page->next_before_id;
		more = before != 0;
		reeve_schedule_runs_free(page);
	}
	if (!json && listed > 0)
		table_print(table);
	else if (!json && code == EXIT_OK)
		fprintf(stderr, "no runs\n");
	table_destroy(table);
	return code;
}

int schedule_runs(int argc, char **argv)
{
	struct runs_options options = {0};
	struct shared_options shared = {0};
	struct reeve_client *client;
	const char *name;
	int code;

	name = command_named(&runs_table, &options, &shared, "schedule", argc, argv, &code);
	client = name ? command_connect(&shared, &code) : NULL;
	if (!client)
		return code;
	code = runs(client, name, &options, shared.json);
	reeve_client_destroy(client);
	return code;
}
