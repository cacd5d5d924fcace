/* `reeve worker scale|drain|pause|resume|stop`: remote control of workers. */
#include "client/cmd/command.h"
#include "client/cmd/table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONCURRENCY_MAX = 10000 };

struct control_options {
	bool all;
};

static const struct option_spec specs[] = {
    {.name = "all",
        .type = OPTION_FLAG,
        .offset = offsetof(struct control_options, all),
        .letter = 'a',
        .help = "all living workers"},
    {.name = NULL},
};

/* A command to workers. */
struct control {
	const char *name; /* NULL: all */
	enum reeve_worker_action action;
	uint32_t concurrency;
	const char *word; /* the command in the printed table */
};

static void print_names(const struct reeve_names *names, const char *word)
{
	static const struct column columns[] = {{"WORKER", COLUMN_TEXT}, {"COMMAND", COLUMN_WORD}, {0}};
	struct table *table = table_create(columns);

	for (size_t i = 0; i < names->count; i++) {
		table_text(table, names->names[i]);
		table_text(table, word);
	}
	table_print(table);
	table_destroy(table);
	if (names->notified > names->count)
		printf("… and %zu more\n", names->notified - names->count);
}

static int run_control(const struct shared_options *shared, const struct control *control)
{
	struct reeve_failure failure = {0};
	struct reeve_names *names;
	struct reeve_client *client;
	int code;

	client = command_connect_to_change(shared, &code);
	if (!client)
		return code;
	names = reeve_control_workers(client, control->name, control->action, control->concurrency, &failure);
	if (names && shared->json)
		command_print_json(names->wire);
	else if (names)
		print_names(names, control->word);
	code = names ? EXIT_OK : command_change_failed(&failure);
	reeve_names_free(names);
	command_disconnect(client);
	return code;
}

/* Reads the name of the worker from the operands, or accepts none if `all`. Returns false with *code set after an error
 * message. */
static bool take_name(const struct option_table *table, bool all, int operands, char **argv, struct control *control,
    int *code)
{
	if (all && operands > 0)
		*code = command_usage(table, "use either --all or a worker's name, not both (\"%s\")", argv[1]);
	else if (!all && operands == 0)
		*code = command_usage(table, "the worker's name is missing; `reeve worker list` lists the names, and --all means all");
	else if (!all)
		control->name = command_operand(table, "worker", operands, argv, code);
	return control->name || (all && operands == 0);
}

/*
 * scale
 */

static const struct option_table scale_table = {
    .program = "reeve worker scale",
    .usage = "NAME N | --all N [--json]",
    .summary = "Changes how many tasks a living worker, or each of them, runs at the same time. With fewer, the running ones "
               "finish first. It lasts until the worker is started again, which has its own number.",
    .epilogue = "Examples: reeve worker scale dev-1 8\n"
                "          reeve worker scale --all 2",
    .specs = specs,
};

static bool read_concurrency(const char *text, uint32_t *value)
{
	char *end;

	errno = 0;
	long long number = isdigit((unsigned char)*text) ? strtoll(text, &end, 10) : 0;
	if (number < 1 || number > CONCURRENCY_MAX || errno || *end != '\0')
		return false;
	*value = (uint32_t)number;
	return true;
}

int worker_scale(int argc, char **argv)
{
	struct control_options options = {0};
	struct shared_options shared = {0};
	struct control control = {.action = REEVE_WORKER_SCALE};
	int operands, code;
	char word[32];

	if (!command_options(&scale_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands == 0)
		return command_usage(&scale_table, "the worker's name and the number of tasks are missing");
	if (!read_concurrency(argv[operands], &control.concurrency))
		return command_usage(&scale_table, "\"%s\" is not a number of tasks; it must be a whole number from 1 to %d",
		    argv[operands], CONCURRENCY_MAX);
	if (!take_name(&scale_table, options.all, operands - 1, argv, &control, &code))
		return code;
	snprintf(word, sizeof word, "concurrency %" PRIu32, control.concurrency);
	control.word = word;
	return run_control(&shared, &control);
}

/*
 * drain, pause, resume, stop
 */

#define CONTROL_USAGE "NAME | --all [--json]"

static const struct {
	const char *verb;
	enum reeve_worker_action action;
	struct option_table table;
} actions[] = {
    {"drain", REEVE_WORKER_DRAIN,
        {.program = "reeve worker drain",
            .usage = CONTROL_USAGE,
            .summary = "Drains a worker, or all: it takes no more tasks, finishes its running ones, and ends.",
            .epilogue = "Example: reeve worker drain --all",
            .specs = specs}},
    {"pause", REEVE_WORKER_PAUSE,
        {.program = "reeve worker pause",
            .usage = CONTROL_USAGE,
            .summary = "Pauses a worker, or all: it takes no more tasks. Its running ones go on.",
            .epilogue = "Example: reeve worker pause dev-1",
            .specs = specs}},
    {"resume", REEVE_WORKER_RESUME,
        {.program = "reeve worker resume",
            .usage = CONTROL_USAGE,
            .summary = "Resumes a paused worker, or all: it takes tasks again.",
            .epilogue = "Example: reeve worker resume dev-1",
            .specs = specs}},
    {"stop", REEVE_WORKER_STOP,
        {.program = "reeve worker stop",
            .usage = CONTROL_USAGE,
            .summary = "Stops a worker, or all: it takes no more tasks, gives back its running ones, and ends.",
            .epilogue = "Example: reeve worker stop dev-1",
            .specs = specs}},
};

int worker_control(int argc, char **argv)
{
	struct control_options options = {0};
	struct shared_options shared = {0};
	struct control control = {0};
	int operands, code;
	size_t i = 0;

	while (strcmp(actions[i].verb, argv[0]) != 0)
		i++;
	const struct option_table *table = &actions[i].table;
	if (!command_options(table, &options, &shared, argc, argv, &operands, &code))
		return code;
	control.action = actions[i].action;
	control.word = actions[i].verb;
	if (!take_name(table, options.all, operands, argv, &control, &code))
		return code;
	return run_control(&shared, &control);
}
