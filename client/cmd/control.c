/* `reeve scale` and `reeve worker`: remote control of workers. */
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
        .help = "all workers that are alive"},
    {.name = NULL},
};

/* A command to workers. */
struct control {
	const char *name; /* NULL: all */
	enum reeve_worker_action action;
	uint32_t concurrency;
	const char *told; /* the command's name in the table */
};

static void print_names(const struct reeve_names *names, const char *told)
{
	static const struct column columns[] = {{"WORKER", COLUMN_TEXT}, {"ORDER", COLUMN_WORD}, {0}};
	struct table *table = table_create(columns);

	for (size_t i = 0; i < names->count; i++) {
		table_text(table, names->names[i]);
		table_text(table, told);
	}
	table_print(table);
	table_destroy(table);
	if (names->told > names->count)
		printf("… and %zu more\n", names->told - names->count);
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
		print_names(names, control->told);
	code = names ? EXIT_OK : command_change_failed(&failure);
	reeve_names_free(names);
	command_disconnect(client);
	return code;
}

/* Reads the name of the worker from the remaining operands, or accepts none if `all`. Returns false with *code set
 * after an error message. */
static bool take_name(const struct option_table *table, bool all, int operands, char **argv, struct control *control,
    int *code)
{
	if (all && operands > 0)
		*code = command_usage(table, "both --all and a worker's name, \"%s\"", argv[0]);
	else if (!all && operands == 0)
		*code = command_usage(table, "which worker? (`reeve workers` lists them; --all for all)");
	else if (operands > 1)
		*code = command_usage(table, "one worker at a time, or --all; \"%s\" is too much", argv[1]);
	else if (!all && !*argv[0])
		*code = command_usage(table, "the worker's name is empty");
	else
		control->name = all ? NULL : argv[0];
	return control->name || (all && operands == 0);
}

/*
 * scale
 */

static const struct option_table scale_table = {
    .program = "reeve scale",
    .usage = "WORKER N | --all N [--json]",
    .summary = "Changes how many tasks a worker that is alive, or every one, runs at once, while it runs. With fewer, "
               "those that run finish first. It lasts until the worker is started again, which has its own number.",
    .epilogue = "Examples: reeve scale dev-1 8\n"
                "          reeve scale --all 2",
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

int command_scale(int argc, char **argv)
{
	struct control_options options = {0};
	struct shared_options shared = {0};
	struct control control = {.action = REEVE_WORKER_SCALE};
	int operands, code;
	char told[32];

	if (!command_options(&scale_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands == 0)
		return command_usage(&scale_table, "which worker, and how many tasks at once?");
	if (!read_concurrency(argv[operands], &control.concurrency))
		return command_usage(&scale_table, "\"%s\" is no number of tasks; it must be a whole number from 1 to %d",
		    argv[operands], CONCURRENCY_MAX);
	if (!take_name(&scale_table, options.all, operands - 1, argv + 1, &control, &code))
		return code;
	snprintf(told, sizeof told, "concurrency %" PRIu32, control.concurrency);
	control.told = told;
	return run_control(&shared, &control);
}

/*
 * worker
 */

static const struct option_table worker_table = {
    .program = "reeve worker",
    .usage = "drain|pause|resume|stop NAME | --all [--json]",
    .summary = "Controls a worker that is alive, or every one: drain (take no more tasks, finish those that run, end), "
               "pause (take no more tasks), resume (take tasks again), stop (take no more tasks, give back those that "
               "run, end).",
    .epilogue = "Examples: reeve worker pause dev-1\n"
                "          reeve worker drain --all",
    .specs = specs,
};

int command_worker(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum reeve_worker_action action;
	} actions[] = {
	    {"drain", REEVE_WORKER_DRAIN},
	    {"pause", REEVE_WORKER_PAUSE},
	    {"resume", REEVE_WORKER_RESUME},
	    {"stop", REEVE_WORKER_STOP},
	};
	struct control_options options = {0};
	struct shared_options shared = {0};
	struct control control = {0};
	int operands, code;

	if (!command_options(&worker_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (operands == 0)
		return command_usage(&worker_table, "drain, pause, resume or stop?");
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
		if (strcmp(argv[1], actions[i].name) == 0) {
			control.action = actions[i].action;
			control.told = actions[i].name;
		}
	}
	if (!control.told)
		return command_usage(&worker_table, "\"%s\" is neither drain, pause, resume nor stop", argv[1]);
	if (!take_name(&worker_table, options.all, operands - 1, argv + 2, &control, &code))
		return code;
	return run_control(&shared, &control);
}
