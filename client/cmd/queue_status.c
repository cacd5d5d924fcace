/* `reeve queue status` and `reeve queue progress`: a queue's status, once or until all its tasks have ended. */
#include "client/cmd/batch.h"
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/queue.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"
#include "common/mem.h"
#include "common/output.h"

#include <inttypes.h>
#include <reeve/v1/task_calls.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNNING_MAX = 100 };

/* Formats a duration as "1m5s", in full seconds, or in milliseconds if it is shorter than one. */
static const char *span(int64_t ms, char *out, size_t size)
{
	return duration_format(ms < 1000 ? ms : ms / 1000 * 1000, out, size);
}

static void write_batch(FILE *out, const Reeve__V1__Batch *b)
{
	char took[40], left[40];
	struct shown state;

	batch_show_end(b, 0, &state);
	fprintf(out, "batch %" PRId64 " ", b->id);
	terminal_write_clean(out, b->name);
	fprintf(out, ", %s: %" PRId64 " submitted, %" PRId64 " pending, %" PRId64 " completed, %" PRId64 " failed; %s",
	    state.value, b->submitted, b->pending, b->completed, b->failed, span(b->duration_ms, took, sizeof took));
	if (b->pending > 0 && b->remaining_ms < 0)
		fputs(", remaining time unknown", out);
	else if (b->pending > 0)
		fprintf(out, ", about %s left", span(b->remaining_ms, left, sizeof left));
	fputc('\n', out);
}

static void show_mode(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	if (((const Reeve__V1__Worker *)message)->manual)
		out->value = "manual";
	else
		fields_word(message, "mode", out);
}

/* `of`: "queue" or "batch", whose attempts are counted. */
#define WORKER_COLUMNS(of)                                                                                             \
	{                                                                                                                  \
		COL_NUMBER("ID", "incarnation"), COL_TEXT("WORKER", "name"), COL_WORD("STATE", "state"),                       \
		    COL_WORD("MODE", NULL, .show = show_mode), COL_NUMBER("SINCE", "mode_since_us", .as = AS_AGE),             \
		    COL_NUMBER("HOLDS", "holding"), COL_NUMBER("COMPLETED", of "_completed"),                                  \
		    COL_NUMBER("FAILED", of "_failed"), COL_NUMBER("UP", "registered_us", .as = AS_AGE),                       \
		{                                                                                                              \
			0                                                                                                          \
		}                                                                                                              \
	}

static const struct column queue_columns[] = WORKER_COLUMNS("queue"), batch_columns[] = WORKER_COLUMNS("batch");

static void write_workers(FILE *out, const Reeve__V1__QueueStatusResponse *s, int64_t now_us)
{
	const struct column *worker_columns = s->batch ? batch_columns : queue_columns;
	struct table *table = table_create(worker_columns);

	for (size_t i = 0; i < s->n_workers; i++)
		fields_row(table, worker_columns, s->workers[i], now_us);
	if (s->n_workers > 0)
		table_write(table, out, terminal_columns(stdout), false);
	else
		fprintf(out, "no workers\n");
	if (s->more_workers)
		fprintf(out, "these are the first %zu; reeve worker list --queue lists them all\n", s->n_workers);
	table_destroy(table);
}

static void write_status(FILE *out, const Reeve__V1__QueueStatusResponse *s, int64_t now_us)
{
	struct shown state;
	char age[32];

	fields_word(s, "state", &state);
	terminal_write_clean(out, s->queue);
	fprintf(out, ": %s", state.value);
	if (s->since_us)
		fprintf(out, " for %s", terminal_age(now_us, s->since_us, age, sizeof age));
	fprintf(out,
	    "; %" PRId64 " waiting, %" PRId64 " running, %" PRId64 " ended (%" PRId64 " completed, %" PRId64 " failed)\n",
	    s->waiting, s->running, s->ended, s->completed, s->failed);
	if (s->batch)
		write_batch(out, s->batch);
	if (s->open_batches > 1)
		fprintf(out, "%" PRId64 " batches have not ended; reeve batch list --open --queue shows them all\n",
		    s->open_batches);
	write_workers(out, s, now_us);
}

static void print_status(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	(void)call;
	(void)request;
	write_status(stdout, answer, now_us);
}

const struct call queue_status = {
    .options = {.program = "reeve queue status",
        .usage = "NAME [--json]",
        .summary = "Shows a queue: its state, how many tasks wait, run and have ended, its open or last batch with an "
                   "estimate of the remaining time, and the workers that serve it.",
        .epilogue = "Example: reeve queue status mail --json"},
    .operand = "queue",
    .noun = "queue",
    .list = {.service = &reeve__v1__queue_service__descriptor, .method = "Status"},
    .print = print_status,
};

/*
 * progress
 */

struct progress_options {
	bool once, quiet, running;
	int64_t every_ms;
};

static const struct option_spec progress_specs[] = {
    OPT_FLAG(0, "once", OPTION_AT(struct progress_options, once), "show it once"),
    OPT_SPAN(0, "interval", OPTION_AT(struct progress_options, every_ms), 100, 24 * 3600 * 1000, "poll interval",
        .default_value = "1s"),
    OPT_FLAG(0, "quiet", OPTION_AT(struct progress_options, quiet), "show only the end"),
    OPT_FLAG(0, "running", OPTION_AT(struct progress_options, running), "also show running tasks"),
    {0},
};

static const struct option_table progress_table = {
    .program = "reeve queue progress",
    .usage = "NAME [--once] [--interval DURATION] [--quiet | --running] [--json]",
    .summary = "Shows the status of a queue, with a line for each worker, until none of its tasks waits or runs "
               "(or it is stopped). On a terminal it is updated in place, elsewhere printed after each change. "
               "With --json, an object each time, as from `reeve queue status`.",
    .epilogue = "Exit codes: 0 all has ended, 1 and tasks of its batch failed, others as usual.\n"
                "\n"
                "Example: reeve queue progress mail --interval 5s",
    .specs = progress_specs,
};

/* The output shown last. */
struct block {
	char *text;
	int lines; /* on the terminal */
};

static void show_block(struct block *block, char *text)
{
	if (block->text && strcmp(block->text, text) == 0) {
		free(text);
		return;
	}
	if (terminal_columns(stdout) > 0) {
		if (block->lines > 0)
			printf("\x1b[%dA\x1b[J", block->lines);
		block->lines = terminal_lines(text);
	}
	fputs(text, stdout);
	fflush(stdout);
	free(block->text);
	block->text = text;
}

static const struct column running_columns[] = {
    COL_NUMBER("TASK", "id"),
    COL_TEXT("TYPE", "type"),
    COL_NUMBER("ATTEMPT", "attempt"),
    COL_NUMBER("RUNS", "started_us", .as = AS_AGE),
    COL_TEXT("WORKER", "worker"),
    {0},
};

static void write_running(FILE *out, struct reeve_client *client, const char *queue)
{
	Reeve__V1__ListRequest request = {.status = TASK(EXECUTING), .queue = queue, .limit = RUNNING_MAX};
	Reeve__V1__ListResponse *tasks = reeve_task_list(client, &request, NULL, NULL);
	struct table *table = table_create(running_columns);

	for (size_t i = 0; tasks && i < tasks->n_tasks; i++)
		fields_row(table, running_columns, tasks->tasks[i], reeve_client_now_us(client));
	if (tasks && tasks->n_tasks > 0)
		table_write(table, out, terminal_columns(stdout), false);
	table_destroy(table);
	reeve_free(tasks);
}

static bool in_state(const Reeve__V1__QueueStatusResponse *s, const char *state)
{
	return fields_is(s, "state", state);
}

static bool batch_ended(const Reeve__V1__QueueStatusResponse *s)
{
	return fields_is(s->batch, "state", "ended");
}

/* Returns true when no task is left that can progress. */
static bool drained(const Reeve__V1__QueueStatusResponse *s)
{
	bool in_batch = s->batch && !batch_ended(s) && s->batch->submitted > 0;

	return in_state(s, "stopped") || (s->waiting == 0 && s->running == 0 && !in_batch);
}

/* Returns true if the shown batch is the queue's latest work. The outcome of an older, ended batch does not matter. */
static bool is_current(const Reeve__V1__QueueStatusResponse *s)
{
	if (!s->batch || !batch_ended(s))
		return s->batch;
	return in_state(s, "stopped") || (in_state(s, "finished") && s->since_us != 0);
}

static void show_progress(struct reeve_client *client, const Reeve__V1__QueueStatusResponse *status,
    const struct progress_options *options, bool json, struct block *block)
{
	char *text = NULL;
	size_t size;
	FILE *out;

	if (json) {
		command_print_json(status);
		fflush(stdout);
		return;
	}
	out = mem_stream(&text, &size);
	write_status(out, status, reeve_client_now_us(client));
	if (options->running)
		write_running(out, client, status->queue);
	fclose(out);
	show_block(block, text);
}

static int follow_progress(
    struct reeve_client *client, const char *queue, const struct progress_options *options, bool json)
{
	Reeve__V1__QueueStatusRequest request = {.queue = queue};
	struct reeve_failure failure = {0};
	struct block block = {0};
	int64_t batch = 0; /* the one being watched */
	int code = EXIT_OK;

	for (bool over = false; !over && (options->quiet || !output_lost());) {
		Reeve__V1__QueueStatusResponse *status = reeve_queue_status(client, &request, NULL, &failure);

		if (!status) {
			code = command_failed(&failure);
			break;
		}
		over = options->once || drained(status);
		if (!options->quiet || over)
			show_progress(client, status, options, json, &block);
		if (is_current(status))
			batch = status->batch->id;
		if (over && !options->once && status->batch && status->batch->id == batch && status->batch->failed > 0)
			code = EXIT_TASK_FAILED;
		reeve_free(status);
		if (!over)
			nanosleep(
			    &(struct timespec){.tv_sec = options->every_ms / 1000, .tv_nsec = options->every_ms % 1000 * 1000000},
			    NULL);
	}
	free(block.text);
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
	if (options.quiet && options.running)
		return command_usage(&progress_table, "--quiet and --running cannot be combined");
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = follow_progress(client, queue, &options, shared.json);
	reeve_client_destroy(client);
	return code;
}
