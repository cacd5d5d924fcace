/* `reeve pipeline define|list|show`. */
#include "client/cmd/backoff.h"
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/pipeline_file.h"
#include "client/cmd/terminal.h"

#include <reeve/v1/pipeline_calls.h>
#include <stdlib.h>

enum { WIDTH = 12 };

static void show_backoff(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__PipelineStage *stage = message;

	(void)now_us;
	if (stage->retry)
		out->value = out->owned = backoff_format(stage->retry);
}

static const struct column stage_columns[] = {
    COL_TEXT("STAGE", "name"),
    COL_TEXT("TYPE", "type"),
    COL_TEXT("NEXT", "next"),
    COL_NUMBER("TRIES", "max_attempts"),
    COL_NUMBER("TIMEOUT", "timeout_ms", .as = AS_SPAN),
    COL_TEXT("BACKOFF", NULL, .show = show_backoff),
    COL_TEXT("PRIO", "priority.value"),
    {0},
};

static void show_defined(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Pipeline *pipeline = message;
	char time[40];

	(void)now_us;
	snprintf(out->text, sizeof out->text, "%s, by %s", terminal_time(pipeline->created_us, time, sizeof time),
	    pipeline->source);
}

static const struct column lines[] = {
    {"pipeline", .field = "name"},
    {"max steps", .field = "max_steps"},
    {"defined", .show = show_defined},
    {0},
};

static void print_pipeline(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	const Reeve__V1__Pipeline *pipeline = answer;
	struct table *table = table_create(stage_columns);

	(void)call;
	(void)request;
	fields_lines(WIDTH, lines, pipeline, now_us);
	putchar('\n');
	for (size_t i = 0; i < pipeline->n_stages; i++)
		fields_row(table, stage_columns, pipeline->stages[i], now_us);
	table_print(table);
	table_destroy(table);
}

const struct call pipeline_show = {
    .options = {.program = "reeve pipeline show",
        .usage = "NAME [--json]",
        .summary = "Shows the current definition of a pipeline, with its stages.",
        .epilogue = "Example: reeve pipeline show images"},
    .operand = "name",
    .noun = "pipeline",
    .list = {.service = &reeve__v1__pipeline_service__descriptor, .method = "Show"},
    .part = "pipeline",
    .print = print_pipeline,
};

static void show_stages(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	snprintf(out->text, sizeof out->text, "%zu", ((const Reeve__V1__Pipeline *)message)->n_stages);
}

static void show_first(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Pipeline *pipeline = message;

	(void)now_us;
	if (pipeline->n_stages)
		out->value = pipeline->stages[0]->name;
}

static const struct column list_columns[] = {
    COL_TEXT("NAME", "name"),
    COL_NUMBER("STAGES", NULL, .show = show_stages),
    COL_NUMBER("STEPS", "max_steps"),
    COL_TEXT("FIRST", NULL, .show = show_first),
    COL_TEXT("DEFINED", "created_us", .as = AS_TIME),
    COL_TEXT("BY", "source"),
    {0},
};

const struct call pipeline_list = {
    .options = {.program = "reeve pipeline list",
        .usage = "[--json]",
        .summary = "Lists the current definitions of pipelines by name.",
        .epilogue = "Example: reeve pipeline list --json"},
    .list = {.service = &reeve__v1__pipeline_service__descriptor,
        .method = "List",
        .items = "pipelines",
        .columns = list_columns},
};

static const struct column status_columns[] = {
    COL_TEXT("STAGE", "stage"),
    COL_TEXT("TYPE", "type"),
    COL_TEXT("QUEUE", "queue"),
    COL_NUMBER("QUEUED", "queued"),
    COL_NUMBER("DELAYED", "delayed"),
    COL_NUMBER("EXECUTING", "executing"),
    COL_NUMBER("FAILED", "failed"),
    {0},
};

static void print_status(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	static const struct list list = {.items = "stages", .columns = status_columns};

	(void)call;
	(void)request;
	(void)now_us;
	list_print_answer(&list, NULL, answer, INT64_MAX, false);
	if (((const Reeve__V1__PipelineStatusResponse *)answer)->truncated)
		command_log("only the first 50000 tasks of each definition are counted");
}

const struct call pipeline_status = {
    .options = {.program = "reeve pipeline status",
        .usage = "NAME [--json]",
        .summary = "Counts the live tasks of a pipeline by stage: due, delayed, executing, and failed (to be retried).",
        .epilogue = "Example: reeve pipeline status images"},
    .operand = "name",
    .noun = "pipeline",
    .list = {.service = &reeve__v1__pipeline_service__descriptor, .method = "Status"},
    .print = print_status,
};

static const struct option_table define_table = {
    .program = "reeve pipeline define",
    .usage = "FILE|- [--json]",
    .summary = "Defines a pipeline, or replaces its definition. Tasks that have begun keep the old one. The same "
               "definition again changes nothing.",
    .epilogue = "The file is a JSON object: {\"name\": \"images\", \"max_steps\": 100, \"stages\": [\n"
                "  {\"name\": \"fetch\", \"type\": \"http.get\", \"next\": \"shrink\", \"max_attempts\": 3,\n"
                "   \"timeout\": \"30s\", \"backoff\": \"exp:1s:1h\", \"jitter\": 25, \"priority\": 5,\n"
                "   \"queue\": \"images\"}, ...]}\n"
                "A stage needs only a name and a type. Without next, the next stage of the file\n"
                "follows. The pipeline ends after the last stage, or one with \"next\": \"end\".\n"
                "\n"
                "Example: reeve pipeline define images.json",
};

static int define(struct reeve_client *client, Reeve__V1__Pipeline *given, bool json)
{
	Reeve__V1__DefinePipelineRequest request = {.pipeline = given};
	struct reeve_failure failure = {0};
	Reeve__V1__DefinePipelineResponse *answer = reeve_pipeline_define(client, &request, NULL, &failure);
	const Reeve__V1__Pipeline *pipeline = answer ? answer->pipeline : NULL;

	if (!answer)
		return command_change_failed(&failure);
	if (pipeline && json) {
		command_print_json(pipeline);
	} else if (pipeline) {
		printf("pipeline ");
		terminal_write_clean(stdout, pipeline->name);
		printf(": %zu stage%s, %s\n", pipeline->n_stages, pipeline->n_stages > 1 ? "s" : "",
		    answer->changed ? "defined" : "unchanged");
	}
	reeve_free(answer);
	return EXIT_OK;
}

int pipeline_define(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_error error;
	Reeve__V1__Pipeline *pipeline;
	struct reeve_client *client;
	int operands, code;

	if (!command_options(&define_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != 1)
		return command_usage(&define_table, operands ? "too many arguments: give one FILE" : "FILE is missing");
	pipeline = pipeline_file_read(argv[1], &error);
	if (!pipeline) {
		command_log("%s: %s", argv[1], error.message);
		return EXIT_USAGE;
	}
	client = command_connect_to_change(&shared, &code);
	if (client)
		code = define(client, pipeline, shared.json);
	command_disconnect(client);
	reeve__v1__pipeline__free_unpacked(pipeline, NULL);
	return code;
}
