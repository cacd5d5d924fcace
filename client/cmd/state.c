/* `reeve queue list`, `reeve worker list` and `reeve stats`. */
#include "client/cmd/command.h"
#include "client/cmd/executions.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * queue list
 */

struct queues_options {
	const char *queue;
};

static const struct option_spec queues_specs[] = {
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = offsetof(struct queues_options, queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "only this queue"},
    {.name = NULL},
};

static const struct option_table queues_table = {
    .program = "reeve queue list",
    .usage = "[--queue NAME] [--json]",
    .summary = "Counts the tasks of each queue and type: due (with the age of the oldest), delayed, executing, "
               "and failed (to be retried).",
    .specs = queues_specs,
};

static const struct column queue_columns[] = {{"QUEUE", COLUMN_TEXT}, {"TYPE", COLUMN_TEXT}, {"QUEUED", COLUMN_NUMBER},
    {"DELAYED", COLUMN_NUMBER}, {"EXECUTING", COLUMN_NUMBER}, {"FAILED", COLUMN_NUMBER}, {"OLDEST", COLUMN_NUMBER},
    {0}};

static void print_queues(const struct reeve_queues *queues, int64_t now_us)
{
	struct table *table = table_create(queue_columns);
	char age[32];

	for (size_t i = 0; i < queues->count; i++) {
		const struct reeve_queue *queue = &queues->queues[i];

		table_text(table, queue->queue);
		table_text(table, queue->type);
		table_number(table, queue->queued);
		table_number(table, queue->delayed);
		table_number(table, queue->executing);
		table_number(table, queue->failed);
		table_text(table, terminal_age(now_us, queue->oldest_due_us, age, sizeof age));
	}
	if (queues->count > 0)
		table_print(table);
	else
		fprintf(stderr, "no queues\n");
	table_destroy(table);
}

int queue_list(int argc, char **argv)
{
	struct queues_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_queues *queues;
	struct reeve_client *client;
	int code;

	if (!command_only_options(&queues_table, &options, &shared, argc, argv, &code))
		return code;
	if (options.queue && !*options.queue)
		return command_usage(&queues_table, "--queue is empty");
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	queues = reeve_queues(client, options.queue, &failure);
	if (queues && shared.json) {
		for (size_t i = 0; i < queues->count; i++)
			command_print_json(queues->queues[i].wire);
	} else if (queues) {
		print_queues(queues, reeve_client_now_us(client));
	}
	code = queues ? EXIT_OK : command_failed(&failure);
	reeve_queues_free(queues);
	reeve_client_destroy(client);
	return code;
}

/*
 * worker list
 */

struct workers_options {
	struct reeve_workers_query query;
};

static const struct option_spec workers_specs[] = {
    {.name = "all",
        .type = OPTION_FLAG,
        .offset = offsetof(struct workers_options, query.all),
        .letter = 'a',
        .help = "also workers that are gone, and pull clients without tasks"},
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = offsetof(struct workers_options, query.queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "only workers that serve this queue"},
    {.name = NULL},
};

static const struct option_table workers_table = {
    .program = "reeve worker list",
    .usage = "[--all] [--queue NAME] [--json]",
    .summary =
        "Lists workers: whether each is running, paused or draining and since when, its slots, its tasks, how "
        "many attempts it has completed and failed, its uptime, its last heartbeat, and what it serves.",
    .specs = workers_specs,
};

static const struct column worker_columns[] = {{"ID", COLUMN_NUMBER}, {"NAME", COLUMN_TEXT}, {"STATE", COLUMN_WORD},
    {"MODE", COLUMN_WORD}, {"SINCE", COLUMN_NUMBER}, {"SLOTS", COLUMN_NUMBER}, {"HOLDS", COLUMN_NUMBER},
    {"SUCCEEDED", COLUMN_NUMBER}, {"FAILED", COLUMN_NUMBER}, {"UP", COLUMN_NUMBER}, {"HEARD", COLUMN_NUMBER}, {"QUEUES", COLUMN_TEXT}, {"TYPES", COLUMN_TEXT}, {"VERSION", COLUMN_WORD}, {0}};

/* Returns "a,b,c", or "all". The caller must free() it. */
static char *join(const char *const *names, size_t count)
{
	size_t size = 4;
	char *text, *to;

	for (size_t i = 0; i < count; i++)
		size += strlen(names[i]) + 1;
	text = malloc(size);
	if (!text)
		abort();
	strcpy(text, count ? "" : "all");
	to = text;
	for (size_t i = 0; i < count; i++)
		to = stpcpy(i ? stpcpy(to, ",") : to, names[i]);
	return text;
}

static void print_workers(const struct reeve_workers *workers, int64_t now_us)
{
	struct table *table = table_create(worker_columns);

	for (size_t i = 0; i < workers->count; i++) {
		const struct reeve_worker_info *worker = &workers->workers[i];
		char *queues = join(worker->queues, worker->n_queues);
		char *types = join(worker->types, worker->n_types);
		const char *colour = strcmp(worker->state, "alive") == 0  ? "\x1b[32m"
		                     : strcmp(worker->state, "late") == 0 ? "\x1b[33m"
		                                                          : "\x1b[2m";
		char age[32];

		table_number(table, worker->incarnation);
		table_text(table, worker->name);
		table_coloured(table, worker->state, colour);
		/* A pull client reports no state; for a worker that is gone, its end is known. */
		bool gone = strcmp(worker->state, "gone") == 0;
		bool went = strcmp(worker->mode, "left") == 0 || strcmp(worker->mode, "lost") == 0;
		bool says = !worker->manual && (!gone || went);

		table_coloured(table, worker->manual ? "manual" : says ? worker->mode : "",
		    says && strcmp(worker->mode, "running") != 0 && strcmp(worker->mode, "left") != 0 ? "\x1b[33m" : "");
		table_text(table, says ? terminal_age(now_us, worker->mode_since_us, age, sizeof age) : "");
		table_number(table, worker->concurrency);
		table_number(table, worker->holding);
		table_number(table, worker->succeeded);
		table_number(table, worker->failed);
		table_text(table, terminal_age(now_us, worker->registered_us, age, sizeof age));
		table_text(table, worker->manual ? "" : terminal_age(now_us, worker->heartbeat_us, age, sizeof age));
		table_text(table, queues);
		table_text(table, types);
		table_text(table, worker->version);
		free(queues);
		free(types);
	}
	if (workers->count > 0)
		table_print(table);
	else
		fprintf(stderr, "no workers\n");
	table_destroy(table);
}

int worker_list(int argc, char **argv)
{
	struct workers_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_workers *workers;
	struct reeve_client *client;
	int code;

	if (!command_only_options(&workers_table, &options, &shared, argc, argv, &code))
		return code;
	if (options.query.queue && !*options.query.queue)
		return command_usage(&workers_table, "--queue is empty");
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	workers = reeve_workers(client, &options.query, &failure);
	if (workers && shared.json) {
		for (size_t i = 0; i < workers->count; i++)
			command_print_json(workers->workers[i].wire);
	} else if (workers) {
		print_workers(workers, reeve_client_now_us(client));
	}
	code = workers ? EXIT_OK : command_failed(&failure);
	reeve_workers_free(workers);
	reeve_client_destroy(client);
	return code;
}

/*
 * stats
 */

struct stats_options {
	const char *by;
	struct reeve_executions_query query;
};

static const struct option_spec stats_specs[] = {
    {.name = "by",
        .type = OPTION_TEXT,
        .offset = offsetof(struct stats_options, by),
        .argument = "hour|type",
        .help = "count ended attempts and their times, by hour (UTC) or by queue and type"},
    {.name = "since",
        .type = OPTION_TIME,
        .offset = offsetof(struct stats_options, query.since_us),
        .argument = "TIME",
        .help = "with --by: only attempts that ended from this time on; if not set, in the last day"},
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = offsetof(struct stats_options, query.queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "with --by: only this queue"},
    {.name = "type",
        .type = OPTION_TEXT,
        .offset = offsetof(struct stats_options, query.type),
        .argument = "TYPE",
        .letter = 't',
        .help = "with --by: only this type"},
    {.name = NULL},
};

static const struct option_table stats_table = {
    .program = "reeve stats",
    .usage = "[--by hour|type [--since TIME] [--queue NAME] [--type TYPE]] [--json]",
    .summary = "Shows totals: live tasks, finished tasks that are kept, workers, and the manager's own counters. "
               "With --by: how many attempts ended, and how long they took.",
    .epilogue = "Example: reeve stats --by hour --since '8h ago' --queue mail",
    .specs = stats_specs,
};

static void print_stats(const struct reeve_stats *stats)
{
	static const struct column task_columns[] = {{"TASKS AND WORKERS", COLUMN_WORD}, {"NOW", COLUMN_NUMBER}, {0}};
	static const struct column counter_columns[] = {
	    {"THE MANAGER'S COUNTERS", COLUMN_WORD}, {"SINCE ITS START", COLUMN_NUMBER}, {0}};
	const struct reeve_counter totals[] = {
	    {"queued", stats->queued},
	    {"delayed", stats->delayed},
	    {"executing", stats->executing},
	    {"failed", stats->failed},
	    {"completed", stats->completed},
	    {"dead", stats->dead},
	    {"cancelled", stats->cancelled},
	    {"workers alive", stats->workers_alive},
	};
	struct table *table = table_create(task_columns);

	for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
		table_text(table, totals[i].name);
		table_number(table, totals[i].value);
	}
	table_print(table);
	table_destroy(table);
	if (stats->n_counters == 0)
		return;
	putchar('\n');
	table = table_create(counter_columns);
	for (size_t i = 0; i < stats->n_counters; i++) {
		table_text(table, stats->counters[i].name);
		table_number(table, stats->counters[i].value);
	}
	table_print(table);
	table_destroy(table);
}

/* Prints totals. Returns the exit code. */
static int show_stats(struct reeve_client *client, bool json)
{
	struct reeve_failure failure = {0};
	struct reeve_stats *stats = reeve_stats(client, &failure);

	if (!stats)
		return command_failed(&failure);
	if (json)
		command_print_json(stats->wire);
	else
		print_stats(stats);
	reeve_stats_free(stats);
	return EXIT_OK;
}

/* Returns what is wrong with the options, or NULL. */
static const char *stats_problem(const struct stats_options *options)
{
	const struct reeve_executions_query *query = &options->query;

	if (!options->by)
		return query->since_us || query->queue || query->type ? "--since, --queue and --type go with --by" : NULL;
	if (strcmp(options->by, "hour") != 0 && strcmp(options->by, "type") != 0)
		return "--by takes hour or type";
	if (query->since_us < 0)
		return "--since lies before 1970";
	if (query->queue && !*query->queue)
		return "--queue is empty";
	return query->type && !*query->type ? "--type is empty" : NULL;
}

int command_stats(int argc, char **argv)
{
	struct stats_options options = {0};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int code;

	if (!command_only_options(&stats_table, &options, &shared, argc, argv, &code))
		return code;
	if (stats_problem(&options))
		return command_usage(&stats_table, "%s", stats_problem(&options));
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	if (options.by) {
		options.query.by_type = strcmp(options.by, "type") == 0;
		code = executions_show(client, &options.query, shared.json);
	} else {
		code = show_stats(client, shared.json);
	}
	reeve_client_destroy(client);
	return code;
}
