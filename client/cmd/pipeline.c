/* `reeve pipeline define|list|show`. */
#include "client/cmd/backoff.h"
#include "client/cmd/command.h"
#include "client/cmd/pipeline_file.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec no_specs[] = {{.name = NULL}};

/* --- show -------------------------------------------------------------------------------------------------------- */

static const struct option_table show_table = {
    .program = "reeve pipeline show",
    .usage = "NAME [--json]",
    .summary = "Shows the current definition of a pipeline, with its stages.",
    .epilogue = "Example: reeve pipeline show images",
    .specs = no_specs,
};

static const struct column stage_columns[] = {{"STAGE", COLUMN_TEXT}, {"TYPE", COLUMN_TEXT}, {"NEXT", COLUMN_TEXT},
    {"TRIES", COLUMN_NUMBER}, {"TIMEOUT", COLUMN_NUMBER}, {"BACKOFF", COLUMN_TEXT}, {"PRIO", COLUMN_TEXT}, {0}};

static void show_stage(struct table *table, const struct reeve_stage *stage)
{
	char span[64], priority[32] = "";
	char *growth = stage->retry ? backoff_format(stage->retry) : NULL;

	if (stage->priority)
		snprintf(priority, sizeof priority, "%" PRId32, *stage->priority);
	table_text(table, stage->name);
	table_text(table, stage->type);
	table_text(table, stage->next);
	table_number(table, stage->max_attempts);
	table_text(table, duration_format(stage->timeout_ms, span, sizeof span));
	table_text(table, growth ? growth : "");
	table_text(table, priority);
	free(growth);
}

static void show_pipeline(const struct reeve_pipeline *pipeline)
{
	struct table *table = table_create(stage_columns);
	char time[40];

	printf("pipeline     ");
	terminal_write_clean(stdout, pipeline->name);
	printf("\nmax steps    %" PRIu32 "\ndefined      %s, by ", pipeline->max_steps,
	    terminal_time(pipeline->created_us, time, sizeof time));
	terminal_write_clean(stdout, pipeline->source);
	printf("\n\n");
	for (size_t i = 0; i < pipeline->n_stages; i++)
		show_stage(table, &pipeline->stages[i]);
	table_print(table);
	table_destroy(table);
}

int pipeline_show(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_pipeline *pipeline;
	struct reeve_client *client;
	const char *name;
	int code;

	name = command_named(&show_table, NULL, &shared, "pipeline", argc, argv, &code);
	if (!name)
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = EXIT_OK;
	pipeline = reeve_pipeline_show(client, name, &failure);
	if (!pipeline)
		code = command_failed(&failure);
	else if (shared.json)
		command_print_json(pipeline->wire);
	else
		show_pipeline(pipeline);
	reeve_pipeline_free(pipeline);
	reeve_client_destroy(client);
	return code;
}

/* --- define ------------------------------------------------------------------------------------------------------ */

static const struct option_table define_table = {
    .program = "reeve pipeline define",
    .usage = "FILE|- [--json]",
    .summary =
        "Defines a pipeline, or replaces its definition. Tasks that have begun keep the old one. The same "
        "definition again changes nothing.",
    .epilogue = "The file is a JSON object: {\"name\": \"images\", \"max_steps\": 100, \"stages\": [\n"
                "  {\"name\": \"fetch\", \"type\": \"http.get\", \"next\": \"shrink\", \"max_attempts\": 3,\n"
                "   \"timeout\": \"30s\", \"backoff\": \"exp:1s:1h\", \"jitter\": 25, \"priority\": 5}, ...]}\n"
                "Of a stage only name and type must be given. Without next the following stage of\n"
                "the file is next, after the last none; \"next\": \"end\" says that none is.\n"
                "\n"
                "Example: reeve pipeline define images.json",
    .specs = no_specs,
};

static int define(struct reeve_client *client, const struct reeve_pipeline *given, bool json)
{
	struct reeve_failure failure = {0};
	bool changed;
	struct reeve_pipeline *pipeline = reeve_pipeline_define(client, given, NULL, &changed, &failure);

	if (!pipeline)
		return command_change_failed(&failure);
	if (json) {
		command_print_json(pipeline->wire);
	} else {
		printf("pipeline ");
		terminal_write_clean(stdout, pipeline->name);
		printf(": %zu stage%s, %s\n", pipeline->n_stages, pipeline->n_stages > 1 ? "s" : "",
		    changed ? "defined" : "unchanged");
	}
	reeve_pipeline_free(pipeline);
	return EXIT_OK;
}

int pipeline_define(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_error error;
	struct pipeline_file *file;
	struct reeve_client *client;
	int operands, code;

	if (!command_options(&define_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != 1)
		return command_usage(&define_table, operands ? "one file at a time" : "the file is missing");
	file = pipeline_file_read(argv[1], &error);
	if (!file) {
		command_log("%s: %s", argv[1], error.message);
		return EXIT_USAGE;
	}
	client = command_connect_to_change(&shared, &code);
	if (client)
		code = define(client, pipeline_file_pipeline(file), shared.json);
	command_disconnect(client);
	pipeline_file_free(file);
	return code;
}

/* --- list -------------------------------------------------------------------------------------------------------- */

static const struct option_table list_table = {
    .program = "reeve pipeline list",
    .usage = "[--json]",
    .summary = "Lists the current definitions of pipelines by name.",
    .epilogue = "Example: reeve pipeline list --json",
    .specs = no_specs,
};

static const struct column list_columns[] = {{"NAME", COLUMN_TEXT}, {"STAGES", COLUMN_NUMBER}, {"STEPS", COLUMN_NUMBER},
    {"FIRST", COLUMN_TEXT}, {"DEFINED", COLUMN_TEXT}, {"BY", COLUMN_TEXT}, {0}};

static void list_row(struct table *table, const struct reeve_pipeline *pipeline)
{
	char time[40];

	table_text(table, pipeline->name);
	table_number(table, (int64_t)pipeline->n_stages);
	table_number(table, pipeline->max_steps);
	table_text(table, pipeline->n_stages ? pipeline->stages[0].name : "");
	table_text(table, terminal_time(pipeline->created_us, time, sizeof time));
	table_text(table, pipeline->source);
}

int pipeline_list(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_pipelines *pipelines;
	struct reeve_client *client;
	struct table *table;
	int code;

	if (!command_only_options(&list_table, NULL, &shared, argc, argv, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = EXIT_OK;
	table = table_create(list_columns);
	pipelines = reeve_pipeline_list(client, &failure);
	if (!pipelines)
		code = command_failed(&failure);
	for (size_t i = 0; pipelines && i < pipelines->count; i++) {
		if (shared.json)
			command_print_json(pipelines->pipelines[i].wire);
		else
			list_row(table, &pipelines->pipelines[i]);
	}
	if (pipelines && !shared.json)
		table_print(table);
	table_destroy(table);
	reeve_pipelines_free(pipelines);
	reeve_client_destroy(client);
	return code;
}
