/* `reeve worker list|scale|drain|pause|resume|stop`. */
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/terminal.h"
#include "common/limits.h"

#include <inttypes.h>
#include <reeve/v1/admin_calls.h>
#include <string.h>

/*
 * list
 */

/* A pull client reports no mode; for a worker that is gone, its end is known. */
static bool has_mode(const Reeve__V1__Worker *worker)
{
	return !worker->manual &&
	    (!fields_is(worker, "state", "gone") || fields_is(worker, "mode", "left") || fields_is(worker, "mode", "lost"));
}

static void show_mode(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Worker *worker = message;

	(void)now_us;
	if (worker->manual) {
		out->value = "manual";
	} else if (has_mode(worker)) {
		fields_word(worker, "mode", out);
		out->colour = terminal_state_colour(out->value);
	}
}

static void show_since(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Worker *worker = message;

	if (has_mode(worker))
		terminal_age(now_us, worker->mode_since_us, out->text, sizeof out->text);
}

static void show_heartbeat(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Worker *worker = message;

	if (!worker->manual)
		terminal_age(now_us, worker->heartbeat_us, out->text, sizeof out->text);
}

static const struct column columns[] = {
    COL_NUMBER("ID", "incarnation"),
    COL_TEXT("NAME", "name"),
    COL_WORD("STATE", "state", .as = AS_STATE),
    COL_WORD("MODE", NULL, .show = show_mode),
    COL_NUMBER("SINCE", NULL, .show = show_since),
    COL_NUMBER("SLOTS", "concurrency"),
    COL_NUMBER("HOLDS", "holding"),
    COL_NUMBER("COMPLETED", "completed"),
    COL_NUMBER("FAILED", "failed"),
    COL_NUMBER("UP", "registered_us", .as = AS_AGE),
    COL_NUMBER("HEARD", NULL, .show = show_heartbeat),
    COL_TEXT("QUEUES", "queues"),
    COL_TEXT("TYPES", "types"),
    COL_TEXT("OWNER", "owner"),
    COL_WORD("VERSION", "version"),
    {0},
};

static const struct option_spec list_specs[] = {
    OPT_FLAG('a', "all", OPTION_FIELD("all"), "also workers that are gone, and pull clients without tasks"),
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "only workers that serve this queue"),
    {0},
};

const struct call worker_list = {
    .options = {.program = "reeve worker list",
        .usage = "[--all] [--queue NAME] [--json]",
        .summary =
            "Lists workers: whether each is running, paused or draining and since when, its slots, its tasks, "
            "how many attempts it has completed and failed, its uptime, its last heartbeat, what it serves, and who registered it.",
        .specs = list_specs},
    .list = {.service = &reeve__v1__admin_service__descriptor,
        .method = "ListWorkers",
        .items = "workers",
        .columns = columns},
};

/*
 * scale, drain, pause, resume, stop
 */

static const struct option_spec control_specs[] = {
    OPT_FLAG('a', "all", OPTION_FIELD("all"), "all living workers"),
    {0},
};

static void print_names(const Reeve__V1__ControlWorkersResponse *answer, const char *word)
{
	static const struct column name_columns[] = {COL_TEXT("WORKER", NULL), COL_WORD("COMMAND", NULL), {0}};
	struct table *table = table_create(name_columns);

	for (size_t i = 0; i < answer->n_names; i++) {
		table_text(table, answer->names[i]);
		table_text(table, word);
	}
	table_print(table);
	table_destroy(table);
	if (answer->notified > answer->n_names)
		printf("… and %zu more\n", answer->notified - answer->n_names);
}

/* Sends the command to the worker that the operands name, or to all. `word`: the command in the printed table. */
static int control(const struct option_table *table, const struct shared_options *shared,
    Reeve__V1__ControlWorkersRequest *request, const char *word, int operands, char **argv)
{
	Reeve__V1__ControlWorkersResponse *answer;
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	int code;

	if (request->all && operands > 0)
		return command_usage(table, "use either --all or a worker's name, not both (\"%s\")", argv[1]);
	if (!request->all && operands == 0)
		return command_usage(
		    table, "the worker's name is missing; `reeve worker list` lists the names, and --all means all");
	if (!request->all) {
		request->name = command_operand(table, "worker", operands, argv, &code);
		if (!request->name)
			return code;
	}
	client = command_connect_to_change(shared, &code);
	if (!client)
		return code;
	answer = reeve_admin_control_workers(client, request, NULL, &failure);
	if (answer && shared->json)
		command_print_json(answer);
	else if (answer)
		print_names(answer, word);
	code = answer ? EXIT_OK : command_change_failed(&failure);
	reeve_free(answer);
	command_disconnect(client);
	return code;
}

static const struct option_table scale_table = {
    .program = "reeve worker scale",
    .usage = "NAME N | --all N [--json]",
    .summary =
        "Changes how many tasks a living worker, or each of them, runs at the same time; 0: none. With fewer, the "
        "running ones finish first. It lasts until the worker is started again, which has its own number.",
    .epilogue = "Examples: reeve worker scale dev-1 8\n"
                "          reeve worker scale --all 2",
    .specs = control_specs,
};

int worker_scale(int argc, char **argv)
{
	Reeve__V1__ControlWorkersRequest request = REEVE__V1__CONTROL_WORKERS_REQUEST__INIT;
	struct option_message options = {.message = &request.base};
	struct shared_options shared = {0};
	int operands, code;
	int64_t number;
	char word[32];

	if (!command_options(&scale_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands == 0)
		return command_usage(&scale_table, "the worker's name and the number of tasks are missing");
	number = 0;
	if (strcmp(argv[operands], "0") != 0 && (!command_number(argv[operands], &number) || number > LIMIT_CONCURRENCY))
		return command_usage(&scale_table, "\"%s\" is not a number of tasks; it must be a whole number from 0 to %d",
		    argv[operands], LIMIT_CONCURRENCY);
	request.action = REEVE__V1__WORKER_ACTION__WORKER_ACTION_SCALE;
	request.concurrency = (uint32_t)number;
	snprintf(word, sizeof word, "concurrency %" PRIu32, request.concurrency);
	return control(&scale_table, &shared, &request, word, operands - 1, argv);
}

#define ACTION(name, kind, text, example)                                                                              \
	{                                                                                                                  \
		name, REEVE__V1__WORKER_ACTION__WORKER_ACTION_##kind,                                                          \
		{                                                                                                              \
			.program = "reeve worker " name, .usage = "NAME | --all [--json]", .summary = text,                        \
			.epilogue = "Example: reeve worker " name " " example, .specs = control_specs                              \
		}                                                                                                              \
	}

static const struct {
	const char *verb;
	Reeve__V1__WorkerAction action;
	struct option_table table;
} actions[] = {
    ACTION("drain", DRAIN, "Drains a worker, or all: it takes no more tasks, finishes its running ones, and ends.",
        "--all"),
    ACTION("pause", PAUSE, "Pauses a worker, or all: it takes no more tasks. Its running ones go on.", "dev-1"),
    ACTION("resume", RESUME, "Resumes a paused worker, or all: it takes tasks again.", "dev-1"),
    ACTION("stop", STOP, "Stops a worker, or all: it takes no more tasks, gives back its running ones, and ends.",
        "dev-1"),
};

int worker_control(int argc, char **argv)
{
	Reeve__V1__ControlWorkersRequest request = REEVE__V1__CONTROL_WORKERS_REQUEST__INIT;
	struct option_message options = {.message = &request.base};
	struct shared_options shared = {0};
	int operands, code;
	size_t i = 0;

	while (strcmp(actions[i].verb, argv[0]) != 0)
		i++;
	if (!command_options(&actions[i].table, &options, &shared, argc, argv, &operands, &code))
		return code;
	request.action = actions[i].action;
	return control(&actions[i].table, &shared, &request, actions[i].verb, operands, argv);
}
