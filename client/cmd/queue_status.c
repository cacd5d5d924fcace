/* `reeve queue status` and `reeve queue progress`: a queue's status, once or until all its tasks have ended. */
#include "client/cmd/queue.h"

#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNNING_MAX = 100 };

static const struct option_spec no_specs[] = {{.name = NULL}};

static const struct option_table status_table = {
    .program = "reeve queue status",
    .usage = "NAME [--json]",
    .summary = "Shows a queue: its state, how many tasks wait, run and have ended, its open or last batch with an "
               "estimate of the remaining time, and the workers that serve it.",
    .epilogue = "Example: reeve queue status mail --json",
    .specs = no_specs,
};

/* Formats a duration as "1m5s", in full seconds, or in milliseconds if it is shorter than one. */
static const char *span(int64_t ms, char *out, size_t size)
{
	return duration_format(ms < 1000 ? ms : ms / 1000 * 1000, out, size);
}

static void write_batch(FILE *out, const struct reeve_batch *b)
{
	char took[40], left[40];

	fprintf(out, "batch %" PRId64 " ", b->id);
	terminal_write_clean(out, b->name);
	fprintf(out, ", %s: %" PRId64 " submitted, %" PRId64 " pending, %" PRId64 " succeeded, %" PRId64 " failed; %s", b->state,
	    b->submitted, b->pending, b->succeeded, b->failed, span(b->duration_ms, took, sizeof took));
	if (b->pending > 0 && b->remaining_ms < 0)
		fputs(", remaining time unknown", out);
	else if (b->pending > 0)
		fprintf(out, ", about %s left", span(b->remaining_ms, left, sizeof left));
	fputc('\n', out);
}

static void write_workers(FILE *out, const struct reeve_queue_status *s, int64_t now_us)
{
	static const struct column columns[] = {{"ID", COLUMN_NUMBER}, {"WORKER", COLUMN_TEXT}, {"STATE", COLUMN_WORD},
	    {"MODE", COLUMN_WORD}, {"SINCE", COLUMN_NUMBER}, {"HOLDS", COLUMN_NUMBER}, {"SUCCEEDED", COLUMN_NUMBER},
	    {"FAILED", COLUMN_NUMBER}, {"UP", COLUMN_NUMBER}, {0}};
	struct table *table = table_create(columns);
	char age[32];

	for (size_t i = 0; i < s->n_workers; i++) {
		const struct reeve_worker_info *w = &s->workers[i];

		table_number(table, w->incarnation);
		table_text(table, w->name);
		table_text(table, w->state);
		table_text(table, w->manual ? "manual" : w->mode);
		table_text(table, terminal_age(now_us, w->mode_since_us, age, sizeof age));
		table_number(table, w->holding);
		table_number(table, w->succeeded);
		table_number(table, w->failed);
		table_text(table, terminal_age(now_us, w->registered_us, age, sizeof age));
	}
	if (s->n_workers > 0)
		table_write(table, out, terminal_columns(stdout), false);
	else
		fprintf(out, "no workers\n");
	if (s->more_workers)
		fprintf(out, "these are the first %zu; reeve worker list --queue lists them all\n", s->n_workers);
	table_destroy(table);
}

static void write_status(FILE *out, const struct reeve_queue_status *s, int64_t now_us)
{
	char age[32];

	terminal_write_clean(out, s->queue);
	fprintf(out, ": %s", s->state);
	if (s->since_us)
		fprintf(out, " for %s", terminal_age(now_us, s->since_us, age, sizeof age));
	fprintf(out, "; %" PRId64 " waiting, %" PRId64 " running, %" PRId64 " finished\n", s->waiting, s->running, s->finished);
	if (s->batch)
		write_batch(out, s->batch);
	if (s->open_batches > 1)
		fprintf(out, "%" PRId64 " batches have not ended; reeve batch list --open --queue shows them all\n", s->open_batches);
	write_workers(out, s, now_us);
}

int queue_status(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_queue_status *status;
	struct reeve_client *client;
	const char *queue;
	int code;

	queue = command_named(&status_table, NULL, &shared, "queue", argc, argv, &code);
	client = queue ? command_connect(&shared, &code) : NULL;
	if (!client)
		return code;
	status = reeve_queue_status(client, queue, &failure);
	if (status && shared.json)
		command_print_json(status->wire);
	else if (status)
		write_status(stdout, status, reeve_client_now_us(client));
	code = status ? EXIT_OK : command_failed(&failure);
	reeve_queue_status_free(status);
	reeve_client_destroy(client);
	return code;
}

/*
 * progress
 */

struct progress_options {
	bool once, quiet, verbose;
	int64_t every_ms;
};

#define FIELD(field) .offset = offsetof(struct progress_options, field)

static const struct option_spec progress_specs[] = {
    {.name = "once", .type = OPTION_FLAG, FIELD(once), .help = "show it once"},
    {.name = "every",
        .type = OPTION_DURATION,
        FIELD(every_ms),
        .default_value = "1s",
        .min = 100,
        .max = 24 * 3600 * 1000,
        .argument = "DURATION",
        .help = "poll interval"},
    {.name = "quiet", .type = OPTION_FLAG, FIELD(quiet), .letter = 'q', .help = "show only the end"},
    {.name = "verbose", .type = OPTION_FLAG, FIELD(verbose), .letter = 'v', .help = "also show running tasks"},
    {.name = NULL},
};

static const struct option_table progress_table = {
    .program = "reeve queue progress",
    .usage = "NAME [--once] [--every DURATION] [--quiet | --verbose] [--json]",
    .summary = "Shows the status of a queue, with a line for each worker, until none of its tasks waits or runs "
               "(or it is stopped). On a terminal it is updated in place, elsewhere printed after each change. "
               "With --json, an object each time, as from `reeve queue status`.",
    .epilogue = "Exit codes: 0 all has ended, 1 and tasks of its batch failed, others as usual.\n"
                "\n"
                "Example: reeve queue progress mail --every 5s",
    .specs = progress_specs,
};

/* The output shown last. */
struct shown {
	char *text;
	int lines; /* on the terminal */
};

static void show_block(struct shown *shown, char *text)
{
	if (shown->text && strcmp(shown->text, text) == 0) {
		free(text);
		return;
	}
	if (terminal_columns(stdout) > 0) {
		if (shown->lines > 0)
			printf("\x1b[%dA\x1b[J", shown->lines);
		shown->lines = 0;
		for (const char *at = text; *at; at++)
			shown->lines += *at == '\n';
	}
	fputs(text, stdout);
	fflush(stdout);
	free(shown->text);
	shown->text = text;
}

static void write_running(FILE *out, struct reeve_client *client, const char *queue)
{
	static const struct column columns[] = {
	    {"TASK", COLUMN_NUMBER}, {"TYPE", COLUMN_TEXT}, {"ATTEMPT", COLUMN_NUMBER}, {"RUNS", COLUMN_NUMBER},
	    {"WORKER", COLUMN_TEXT}, {0}};
	struct reeve_filter filter = {.status = REEVE_TASK_EXECUTING, .queue = queue, .limit = RUNNING_MAX};
	struct reeve_tasks *tasks = reeve_list(client, &filter, NULL);
	struct table *table = table_create(columns);
	char age[32];

	for (size_t i = 0; tasks && i < tasks->count; i++) {
		const struct reeve_task *t = &tasks->tasks[i];

		table_number(table, t->id);
		table_text(table, t->type);
		table_number(table, t->attempt);
		table_text(table, terminal_age(reeve_client_now_us(client), t->started_us, age, sizeof age));
		table_text(table, t->worker);
	}
	if (tasks && tasks->count > 0)
		table_write(table, out, terminal_columns(stdout), false);
	table_destroy(table);
	reeve_tasks_free(tasks);
}

/* Returns true when no task is left that can progress. */
static bool drained(const struct reeve_queue_status *s)
{
	bool in_batch = s->batch && strcmp(s->batch->state, "ended") != 0 && s->batch->submitted > 0;

	return strcmp(s->state, "stopped") == 0 || (s->waiting == 0 && s->running == 0 && !in_batch);
}

/* Returns true if the shown batch is the queue's latest work. The outcome of an older, ended batch does not matter. */
static bool is_current(const struct reeve_queue_status *s)
{
	if (!s->batch || strcmp(s->batch->state, "ended") != 0)
		return s->batch;
	return strcmp(s->state, "stopped") == 0 || (strcmp(s->state, "finished") == 0 && s->since_us != 0);
}

static void show_progress(struct reeve_client *client, const struct reeve_queue_status *status,
    const struct progress_options *options, bool json, struct shown *shown)
{
	char *text = NULL;
	size_t size;
	FILE *out;

	if (json) {
		command_print_json(status->wire);
		fflush(stdout);
		return;
	}
	out = open_memstream(&text, &size);
	if (!out)
		abort();
	write_status(out, status, reeve_client_now_us(client));
	if (options->verbose)
		write_running(out, client, status->queue);
	fclose(out);
	show_block(shown, text);
}

static int follow_progress(
    struct reeve_client *client, const char *queue, const struct progress_options *options, bool json)
{
	struct reeve_failure failure = {0};
	struct shown shown = {0};
	int64_t batch = 0; /* the one being watched */
	int code = EXIT_OK;

	for (bool over = false; !over;) {
		struct reeve_queue_status *status = reeve_queue_status(client, queue, &failure);

		if (!status) {
			code = command_failed(&failure);
			break;
		}
		over = options->once || drained(status);
		if (!options->quiet || over)
			show_progress(client, status, options, json, &shown);
		if (is_current(status))
			batch = status->batch->id;
		if (over && !options->once && status->batch && status->batch->id == batch && status->batch->failed > 0)
			code = EXIT_TASK_FAILED;
		reeve_queue_status_free(status);
		if (!over)
			nanosleep(&(struct timespec){.tv_sec = options->every_ms / 1000,
			              .tv_nsec = options->every_ms % 1000 * 1000000},
			    NULL);
	}
	free(shown.text);
	return code;
}

int queue_progress(int argc, char **argv)
{
	struct progress_options options = {0};
	struct shared_options shared = {0};
	struct reeve_client *client;
	const char *queue;
	int code;

	queue = command_named(&progress_table, &options, &shared, "queue", argc, argv, &code);
	if (!queue)
		return code;
	if (options.quiet && options.verbose)
		return command_usage(&progress_table, "--quiet and --verbose cannot be combined");
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = follow_progress(client, queue, &options, shared.json);
	reeve_client_destroy(client);
	return code;
}
