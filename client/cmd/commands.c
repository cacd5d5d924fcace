/*
 * The table of subcommands. Finds the requested one, moves options that came before its name after it, and runs it.
 */
#include "client/cmd/command.h"
#include "common/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int command_help(int argc, char **argv);

static const struct command commands[] = {
    {"submit", command_submit, "submit a task, or a file of them"},
    {"wait", command_wait, "wait until tasks have ended"},
    {"show", command_show, "show one task with its details and result"},
    {"list", command_list, "list tasks, newest first"},
    {"audit", command_audit, "tell what happened, in order"},
    {"cancel", command_cancel, "cancel tasks"},
    {"kill", command_kill, "end tasks dead"},
    {"retry", command_retry, "run tasks again now"},
    {"update", command_update, "change the priority, due time or attempts of tasks"},
    {"queues", command_queues, "show what stands in the queues"},
    {"queue", command_queue, "control a queue, change its settings, show how it stands"},
    {"workers", command_workers, "show the workers and what they hold"},
    {"worker", command_worker, "drain, pause, resume or stop workers"},
    {"scale", command_scale, "change how many tasks workers run at once"},
    {"fetch", command_fetch, "take tasks by hand"},
    {"report", command_report, "say how a task taken by hand ended"},
    {"extend", command_extend, "let a task taken by hand take longer"},
    {"batch", command_batch, "open, close, list and report batches of tasks, and wait for them"},
    {"schedule", command_schedule, "have tasks submitted, or queues started and stopped, again and again"},
    {"pipeline", command_pipeline, "define, list and show pipelines of stages"},
    {"stats", command_stats, "show totals, or counts of executions"},
    {"errors", command_errors, "show what went wrong, in groups"},
    {"metric", command_metric, "set and list numbers of applications, and the managers' counters"},
    {"check", command_check, "say whether all is well, as a plugin for monitoring"},
    {"dev", command_dev, "run everything on this machine, with a PostgreSQL of its own"},
    {"help", command_help, "show this, or the help of a subcommand"},
    {NULL},
};

static const struct command *find_command(const char *name)
{
	for (const struct command *command = commands; command->name; command++) {
		if (strcmp(command->name, name) == 0)
			return command;
	}
	return NULL;
}

static int unknown_command(const char *name)
{
	fprintf(stderr, "reeve: \"%s\" is no subcommand; `reeve --help` lists them\n", name);
	return EXIT_USAGE;
}

/* The help of `reeve` itself: the shared options' table under its name, with the subcommands listed at the end. */
static void show_help(void)
{
	struct option_table table = shared_options_table;
	char *list = NULL;
	size_t size;
	FILE *out = open_memstream(&list, &size);

	if (!out)
		abort();
	fprintf(out, "Subcommands:\n");
	for (const struct command *command = commands; command->name; command++)
		fprintf(out, "  %-9s %s\n", command->name, command->summary);
	fprintf(out, "\n`reeve help SUBCOMMAND` says what one takes. Options may stand before or after it.\n"
	             "\n"
	             "Exit codes: 0 done, 1 a task did not complete, 2 wrong usage, 3 no manager\n"
	             "reachable, or it refuses for now, 4 refused.");
	fclose(out);
	table.epilogue = list;
	options_help(&table, NULL, stdout);
	free(list);
}

static int command_help(int argc, char **argv)
{
	static char help[] = "--help";
	const struct command *command;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-')
			continue;
		command = find_command(argv[i]);
		if (!command)
			return unknown_command(argv[i]);
		if (command->run == command_help)
			break;
		return command->run(2, (char *[]){argv[i], help, NULL});
	}
	show_help();
	return EXIT_OK;
}

int command_find_name(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const struct option_spec *spec = shared_options_table.specs;

		if (argv[i][0] != '-')
			return i;
		while (spec->name && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, spec->name) != 0))
			spec++;
		if (spec->name && spec->type != OPTION_FLAG)
			i++;
	}
	return 0;
}

/* Turns "reeve --json list" into "list --json". Returns the arguments from the name at `at` on. */
static char **name_first(int at, char **argv)
{
	char *name = argv[at];

	memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof *argv);
	argv[1] = name;
	return argv + 1;
}

int command_words(
    const struct option_table *table, const char *things, const struct command_word *words, int argc, char **argv)
{
	struct shared_options shared = {0};
	int at = command_find_name(argc, argv), operands, code;
	char *list = NULL;
	size_t size;

	if (!at) {
		if (!command_options(table, NULL, &shared, argc, argv, &operands, &code))
			return code;
		return command_usage(table, "what is to be done with %s?", things);
	}
	argv = name_first(at, argv);
	for (const struct command_word *word = words; word->name; word++)
		if (strcmp(word->name, argv[0]) == 0)
			return word->run(argc - 1, argv);
	FILE *out = open_memstream(&list, &size);
	if (!out)
		abort();
	for (const struct command_word *word = words; word->name; word++)
		fprintf(out, "%s%s", word == words ? "" : word[1].name ? ", " : " or ", word->name);
	fclose(out);
	code = command_usage(table, "\"%s\" is none of its words: %s", argv[0], list);
	free(list);
	return code;
}

static int run(int argc, char **argv)
{
	int name = command_find_name(argc, argv);
	const struct command *command;
	struct shared_options shared = {0};
	int operands, code = EXIT_OK;

	if (name == 0) {
		struct reeve_error error = {0};
		char wants;

		if (!options_parse(
		        &shared_options_table, &shared, NULL, NULL, NULL, NULL, argc, argv, &operands, &wants, &error))
			return command_usage(&shared_options_table, "%s", error.message);
		if (wants == 'V')
			printf("reeve %s\n", REEVE_VERSION);
		else if (wants == 'h')
			show_help();
		else
			code = command_usage(&shared_options_table, "which subcommand?");
		return code;
	}
	command = find_command(argv[name]);
	if (!command)
		return unknown_command(argv[name]);

	command_notices(command->run != command_check); /* a monitoring system may read standard error as output */
	return command->run(argc - 1, name_first(name, argv));
}

int command_main(int argc, char **argv)
{
	return output_finish("reeve", run(argc, argv));
}
