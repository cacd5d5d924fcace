/* `reeve errors`: errors in groups. */
#include "client/cmd/command.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct errors_options {
	const char *by;
	const char *queue;
	const char *type;
	int64_t since_us;
	int64_t limit;
};

static const struct option_spec specs[] = {
    {.name = "by",
        .type = OPTION_TEXT,
        .offset = offsetof(struct errors_options, by),
        .default_value = "text",
        .argument = "text|code",
        .help = "group errors with the same text, or with the same error code"},
    {.name = "queue",
        .type = OPTION_TEXT,
        .offset = offsetof(struct errors_options, queue),
        .argument = "NAME",
        .letter = 'q',
        .help = "only tasks of this queue"},
    {.name = "type",
        .type = OPTION_TEXT,
        .offset = offsetof(struct errors_options, type),
        .argument = "TYPE",
        .letter = 't',
        .help = "only tasks of this type"},
    {.name = "since",
        .type = OPTION_TIME,
        .offset = offsetof(struct errors_options, since_us),
        .argument = "TIME",
        .help = "only errors from this time on; if not set, of the last day"},
    {.name = "limit",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct errors_options, limit),
        .default_value = "100",
        .min = 1,
        .max = 10000,
        .argument = "N",
        .letter = 'n',
        .help = "maximum number of groups"},
    {.name = NULL},
};

static const struct option_table table_of_options = {
    .program = "reeve errors",
    .usage = "[--by text|code] [--queue NAME] [--type TYPE] [--since TIME] [--limit N] [--json]",
    .summary = "Shows errors in groups: how many attempts ended with each, how many tasks wait for their retry or "
               "are dead, when it was first and last seen, and its last task.",
    .epilogue = "Examples:\n"
                "  reeve errors --queue mail --since '2h ago'\n"
                "  reeve retry --where 'status=dead error=\"no route to host\"'",
    .specs = specs,
};

static const struct column columns[] = {{"ATTEMPTS", COLUMN_NUMBER}, {"WAITING", COLUMN_NUMBER}, {"DEAD", COLUMN_NUMBER},
    {"FIRST", COLUMN_NUMBER}, {"LAST", COLUMN_NUMBER}, {"TASK", COLUMN_NUMBER}, {"CODE", COLUMN_TEXT},
    {"ERROR", COLUMN_TEXT}, {0}};

static void print_groups(const struct reeve_error_groups *groups, int64_t now_us)
{
	struct table *table = table_create(columns);
	char age[32];

	for (size_t i = 0; i < groups->count; i++) {
		const struct reeve_error_group *group = &groups->groups[i];

		table_number(table, group->attempts);
		table_number(table, group->waiting);
		table_number(table, group->dead);
		table_text(table, terminal_age(now_us, group->first_us, age, sizeof age));
		table_text(table, terminal_age(now_us, group->last_us, age, sizeof age));
		table_number(table, group->example_id);
		table_text(table, group->error_code);
		table_text(table, group->error);
	}
	if (groups->count > 0)
		table_print(table);
	else
		fprintf(stderr, "no errors\n");
	table_destroy(table);
}

static int show(struct reeve_client *client, const struct reeve_errors_query *query, bool json)
{
	struct reeve_failure failure = {0};
	struct reeve_error_groups *groups = reeve_errors(client, query, &failure);

	if (!groups)
		return command_failed(&failure);
	for (size_t i = 0; json && i < groups->count; i++)
		command_print_json(groups->groups[i].wire);
	if (!json)
		print_groups(groups, reeve_client_now_us(client));
	if (groups->more)
		command_log("there are more groups than the %zu shown; --limit and --since choose", groups->count);
	reeve_error_groups_free(groups);
	return EXIT_OK;
}

/* Returns what is wrong with the options, or NULL. */
static const char *problem(const struct errors_options *options)
{
	if (strcmp(options->by, "text") != 0 && strcmp(options->by, "code") != 0)
		return "--by takes text or code";
	if (options->since_us < 0)
		return "--since lies before 1970";
	if (options->queue && !*options->queue)
		return "--queue is empty";
	return options->type && !*options->type ? "--type is empty" : NULL;
}

int command_errors(int argc, char **argv)
{
	struct errors_options options = {0};
	struct shared_options shared = {0};
	struct reeve_client *client;
	int code;

	if (!command_only_options(&table_of_options, &options, &shared, argc, argv, &code))
		return code;
	if (problem(&options))
		return command_usage(&table_of_options, "%s", problem(&options));
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	const struct reeve_errors_query query = {
	    .by_code = strcmp(options.by, "code") == 0,
	    .queue = options.queue,
	    .type = options.type,
	    .since_us = options.since_us,
	    .limit = (uint32_t)options.limit,
	};
	code = show(client, &query, shared.json);
	reeve_client_destroy(client);
	return code;
}
