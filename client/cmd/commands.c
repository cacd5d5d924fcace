/*
 * Finds the requested command in the table of commands, moves options that came before its name after it, and runs it.
 */
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "common/mem.h"
#include "common/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_COMMAND(noun_, verb_, run_, summary_)                                                                      \
	{.noun = (noun_), .verb = (verb_), .run = (run_), .summary = (summary_)},
#define ROW_CALL(noun_, verb_, call_, summary_)                                                                        \
	{.noun = (noun_), .verb = (verb_), .call = &(call_), .summary = (summary_)},

const struct command command_rows[] = {COMMANDS(ROW_COMMAND, ROW_CALL){0}};

static const struct noun {
	const char *name, *summary, *examples;
} nouns[] = {
    {"task", "Submits, follows and changes tasks. `reeve task VERB` is the same as `reeve VERB`.",
        "Example: reeve task list --where status=dead"},
    {"queue", "Shows and controls queues, and changes their settings.",
        "Examples: reeve queue pause mail\n"
        "          reeve queue status mail --json\n"
        "          reeve queue set mail --retry-limit 5 --backoff linear:3s --resting 5s"},
    {"worker", "Shows and controls workers.",
        "Examples: reeve worker list --queue mail\n"
        "          reeve worker pause dev-1\n"
        "          reeve worker drain --all"},
    {"batch", "Batches: tasks that are counted together, with actions when the first begins and when all have ended.",
        "Example:\n"
        "  id=$(reeve batch open nightly --queue reports)\n"
        "  reeve submit --bulk reports.jsonl --batch $id\n"
        "  reeve batch close $id\n"
        "  reeve batch wait $id"},
    {"callback", "HTTP calls about batches and their tasks.", "Example: reeve callback list --state given_up"},
    {"schedule", "Schedules submit tasks, or start and stop queues, again and again.",
        "Examples:\n"
        "  reeve schedule add nightly --cron '1 0 * * *' --zone Europe/Berlin report\n"
        "  reeve schedule add poll --every 30s fetch 'https://example.org'\n"
        "  reeve schedule add close --cron '0 8 * * *' --queue-action stop --queue night"},
    {"pipeline", "Pipelines: tasks that pass through stages. The result of one stage is the input of the next.",
        "Example:\n"
        "  reeve pipeline define images.json\n"
        "  reeve submit --pipeline images '{\"url\":\"https://example.org/a.jpg\"}' --wait"},
    {"metric", "Metrics: numbers of applications, by category and name, and the managers' own counters.",
        "Example:\n"
        "  reeve metric put shop open-orders 17\n"
        "  reeve metric list shop"},
    {"token", "Access tokens, and users of the manager's machine: who may call, and what. Only for admins.",
        "Example: reeve token create shop --role submitter --queue mail --output shop.token"},
    {"certs", "A private CA and the certificates of a fleet, for tls+tcp://. Needs no manager.",
        "Example:\n"
        "  reeve certs init\n"
        "  reeve certs issue manager-1 --dns manager-1.example.org\n"
        "  reeve certs issue worker-7\n"
        "  reeve certs renew --all --within 30d\n"
        "  reeve certs revoke worker-7"},
    {0},
};

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static const struct command *find_command(const char *noun, const char *verb)
{
	for (const struct command *command = command_rows; command->verb; command++)
		if (same(command->noun, noun) && same(command->verb, verb))
			return command;
	return NULL;
}

/* Finds `reeve VERB`. */
static const struct command *find_verb(const char *verb)
{
	const struct command *command = find_command(NULL, verb);

	return command ? command : find_command("task", verb);
}

const struct command *command_find(const char *noun, const char *verb)
{
	return noun ? find_command(noun, verb) : find_verb(verb);
}

static const struct noun *find_noun(const char *name)
{
	for (const struct noun *noun = nouns; noun->name; noun++)
		if (strcmp(noun->name, name) == 0)
			return noun;
	return NULL;
}

bool command_is_noun(const char *name)
{
	return find_noun(name) != NULL;
}

void command_nouns(void (*put)(void *arg, const char *noun, const char *about), void *arg)
{
	for (const struct noun *noun = nouns; noun->name; noun++)
		put(arg, noun->name, noun->summary);
}

static int unknown_command(const char *name)
{
	command_log("unknown command \"%s\"; `reeve --help` lists the commands", name);
	return EXIT_USAGE;
}

static void write_verbs(const char *noun, FILE *out)
{
	for (const struct command *command = command_rows; command->verb; command++)
		if (same(command->noun, noun))
			fprintf(out, "  %-9s %s\n", command->verb, command->summary);
}

/* The help of `reeve` itself: the shared options, and then the commands. */
static void show_help(void)
{
	struct option_table table = shared_options_table;
	char *list;
	size_t size;
	FILE *out = mem_stream(&list, &size);

	fprintf(out, "Tasks (`reeve task VERB` is the same):\n");
	write_verbs("task", out);
	fprintf(out, "\nOther nouns (`reeve help queue` lists the verbs of queues):\n");
	for (const struct noun *noun = nouns + 1; noun->name; noun++) { /* without the first, task */
		int column = fprintf(out, "  %-9s ", noun->name);
		for (const struct command *command = command_rows; command->verb; command++) {
			if (!same(command->noun, noun->name))
				continue;
			if (column + (int)strlen(command->verb) + 2 > 80)
				column = fprintf(out, "\n%12s", "") - 1;
			column += fprintf(out, "%s%s", command->verb, same(command[1].noun, noun->name) ? ", " : "\n");
		}
	}
	fprintf(out, "\nThe system:\n");
	write_verbs(NULL, out);
	fprintf(out,
	    "\n`reeve help COMMAND` shows the help of a command. Options stand before or after\n"
	    "its name.\n"
	    "\n"
	    "Exit codes: 0 success, 1 a task did not complete, 2 wrong usage, 3 no manager\n"
	    "reachable, or it refuses for now, 4 refused.");
	fclose(out);
	table.epilogue = list;
	options_help(&table, NULL, stdout);
	free(list);
}

/* `reeve queue` without a verb, or with an unknown one: its help, or a usage error. */
static int run_noun(const struct noun *noun, const char *verb, int argc, char **argv)
{
	static const struct option_spec none[] = {{0}};
	struct shared_options shared = {0};
	char program[32], *list;
	size_t size;
	FILE *out = mem_stream(&list, &size);
	int operands, code;

	fprintf(out, "Verbs:\n");
	write_verbs(noun->name, out);
	fprintf(out, "\n`reeve help %s VERB` shows the help of a verb.\n\n%s", noun->name, noun->examples);
	fclose(out);
	snprintf(program, sizeof program, "reeve %s", noun->name);
	const struct option_table table = {.program = program,
	    .usage = "VERB [ARGUMENT]... [OPTION]...",
	    .summary = noun->summary,
	    .epilogue = list,
	    .specs = none};
	if (verb)
		code = command_usage(&table, "unknown verb \"%s\"; `reeve help %s` lists the verbs", verb, noun->name);
	else if (command_options(&table, NULL, &shared, argc, argv, &operands, &code))
		code = command_usage(&table, "the verb is missing; `reeve help %s` lists the verbs", noun->name);
	free(list);
	return code;
}

static int run_command(const struct command *command, int argc, char **argv)
{
	return command->call ? call_run(command->call, argc, argv) : command->run(argc, argv);
}

int command_help(int argc, char **argv)
{
	static char help[] = "--help";
	char *names[2] = {NULL, NULL};
	int n = 0;

	for (int i = 1; i < argc && n < 2; i++)
		if (argv[i][0] != '-')
			names[n++] = argv[i];
	const struct noun *noun = n ? find_noun(names[0]) : NULL;
	const struct command *command = noun ? find_command(noun->name, names[1]) : n ? find_verb(names[0]) : NULL;
	if (noun && !command)
		return run_noun(noun, names[1], 2, (char *[]){names[0], help, NULL});
	if (n && !command)
		return unknown_command(names[0]);
	if (n && command->run != command_help)
		return run_command(command, 2, (char *[]){(char *)(uintptr_t)command->verb, help, NULL});
	show_help();
	return EXIT_OK;
}

void command_tables(const struct command *command, options_see *see, void *arg)
{
	static char help[] = "--help";

	options_observe(see, arg);
	if (command && command->run != command_help)
		run_command(command, 2, (char *[]){(char *)(uintptr_t)command->verb, help, NULL});
	else if (!command)
		show_help();
	options_observe(NULL, NULL);
}

/* Returns the index of the first operand, which is a noun or verb; 0 if there is none. Only shared options may come
 * before it, and some of those take their value from the next argument. */
static int find_name(int argc, char **argv)
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

/* `reeve` without a command. */
static int run_nothing(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	int operands;
	char wants;

	if (!options_parse(&shared_options_table, &shared, NULL, NULL, NULL, NULL, argc, argv, &operands, &wants, &error))
		return command_usage(&shared_options_table, "%s", error.message);
	if (wants == 'V')
		printf("reeve %s\n", REEVE_VERSION);
	else if (wants == 'h')
		show_help();
	else
		return command_usage(&shared_options_table, "the command is missing; `reeve --help` lists the commands");
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	int at = find_name(argc, argv);
	const struct command *command;
	const struct noun *noun;

	if (!at)
		return run_nothing(argc, argv);
	argv = name_first(at, argv);
	argc--;
	noun = find_noun(argv[0]);
	if (noun) {
		at = find_name(argc, argv);
		if (!at)
			return run_noun(noun, NULL, argc, argv);
		argv = name_first(at, argv);
		argc--;
	}
	command = noun ? find_command(noun->name, argv[0]) : find_verb(argv[0]);
	if (!command)
		return noun ? run_noun(noun, argv[0], argc, argv) : unknown_command(argv[0]);
	command_notices(command->run != command_check); /* a monitoring system may read standard error as output */
	return run_command(command, argc, argv);
}

int command_main(int argc, char **argv)
{
	return output_finish("reeve", run(argc, argv));
}
