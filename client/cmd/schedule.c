/* `reeve schedule`: repeated tasks and actions. Each action is a subcommand with options of its own. */
#include "client/cmd/schedule.h"

#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec no_specs[] = {{.name = NULL}};

const char *schedule_operand(const struct option_table *table, int operands, char **argv, int *code)
{
	if (operands < 1)
		*code = command_usage(table, "which schedule? (`reeve schedule list` lists them)");
	else if (operands > 1)
		*code = command_usage(table, "one schedule at a time; \"%s\" is too much", argv[2]);
	else if (!*argv[1])
		*code = command_usage(table, "the schedule's name is empty");
	else
		return argv[1];
	return NULL;
}

/*
 * pause, resume, remove
 */

static const struct option_table pause_table = {
    .program = "reeve schedule pause",
    .usage = "NAME [--json]",
    .summary = "Pauses a schedule: it does not come until it is resumed. What it has submitted goes on.",
    .epilogue = "Example: reeve schedule pause nightly",
    .specs = no_specs,
};

static const struct option_table resume_table = {
    .program = "reeve schedule resume",
    .usage = "NAME [--json]",
    .summary =
        "Resumes a paused schedule. It is planned anew from now on: what would have come meanwhile is not made up for.",
    .epilogue = "Example: reeve schedule resume nightly",
    .specs = no_specs,
};

static const struct option_table remove_table = {
    .program = "reeve schedule remove",
    .usage = "NAME [--json]",
    .summary = "Removes a schedule's definition. Its runs are still listed, until they are old, and its tasks go on.",
    .epilogue = "Example: reeve schedule remove nightly",
    .specs = no_specs,
};

/* Prints {"name":…,"done":…}. */
static void print_done(const char *name, const char *done, bool json)
{
	if (json) {
		json_t *object = json_pack("{ss ss}", "name", name, "done", done);
		char *text = json_dumps(object, JSON_COMPACT);

		puts(text);
		free(text);
		json_decref(object);
		return;
	}
	terminal_write_clean(stdout, name);
	printf(": %s\n", done);
}

static int control(
    const struct option_table *table, enum reeve_schedule_action action, const char *done, int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	const char *name;
	int operands, code;

	if (!command_options(table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	name = schedule_operand(table, operands, argv, &code);
	client = name ? command_connect_to_change(&shared, &code) : NULL;
	if (!client)
		return code;
	if (reeve_schedule_control(client, name, action, &failure))
		print_done(name, done, shared.json);
	else
		code = command_change_failed(&failure);
	command_disconnect(client);
	return code;
}

static int schedule_pause(int argc, char **argv)
{
	return control(&pause_table, REEVE_SCHEDULE_PAUSE, "paused", argc, argv);
}

static int schedule_resume(int argc, char **argv)
{
	return control(&resume_table, REEVE_SCHEDULE_RESUME, "resumed", argc, argv);
}

static int schedule_remove(int argc, char **argv)
{
	return control(&remove_table, REEVE_SCHEDULE_REMOVE, "removed", argc, argv);
}

/*
 * run
 */

static const struct option_table run_table = {
    .program = "reeve schedule run",
    .usage = "NAME [--json]",
    .summary = "Runs a schedule now, beside what is planned, paused or not, whatever it says of overlap, and prints "
               "the task's "
               "id. The task has a key of its own.",
    .epilogue = "Example: reeve wait $(reeve schedule run nightly)",
    .specs = no_specs,
};

static void print_run(const struct reeve_schedule_run *run, bool json)
{
	if (json) {
		command_print_json(run->wire);
		return;
	}
	if (run->task_id)
		printf("%" PRId64 "\n", run->task_id);
	if (strcmp(run->outcome, "submitted") != 0)
		command_log("%s%s%s", run->outcome, *run->note ? ": " : "", run->note);
}

static int schedule_run(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_schedule_runs *runs;
	struct reeve_client *client;
	const char *name;
	int operands, code;

	if (!command_options(&run_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	name = schedule_operand(&run_table, operands, argv, &code);
	client = name ? command_connect_to_change(&shared, &code) : NULL;
	if (!client)
		return code;
	runs = reeve_schedule_run(client, name, NULL, &failure);
	if (runs)
		print_run(&runs->runs[0], shared.json);
	else
		code = command_change_failed(&failure);
	reeve_schedule_runs_free(runs);
	command_disconnect(client);
	return code;
}

/*
 * choice of the action
 */

static const struct option_table table = {
    .program = "reeve schedule",
    .usage = "add|list|show|runs|pause|resume|run|edit|remove [OPTION]...",
    .summary =
        "Schedules: definitions of tasks that are submitted, or queues that are started and stopped, again and again, "
        "apart from the runs they make.",
    .epilogue = "  add NAME      makes one: by a cron expression, at an interval, or by hand only\n"
                "  list          lists them\n"
                "  show NAME     tells all of one, and when it comes next\n"
                "  runs NAME     lists what came of its runs\n"
                "  pause NAME    has it not come until it is resumed\n"
                "  resume NAME   has it come again, from now on\n"
                "  run NAME      runs it now, beside what is planned\n"
                "  edit NAME     changes what is given\n"
                "  remove NAME   removes the definition; its tasks go on\n"
                "\n"
                "`reeve schedule WORD --help` says what each takes.\n"
                "\n"
                "Examples:\n"
                "  reeve schedule add nightly --cron '1 0 * * *' --zone Europe/Berlin report\n"
                "  reeve schedule add poll --every 30s fetch 'https://example.org'\n"
                "  reeve schedule add close --cron '0 8 * * *' --queue-action stop --queue night",
    .specs = no_specs,
};

int command_schedule(int argc, char **argv)
{
	static const struct command_word words[] = {{"add", schedule_add}, {"list", schedule_list},
	    {"show", schedule_show}, {"runs", schedule_runs}, {"pause", schedule_pause}, {"resume", schedule_resume},
	    {"run", schedule_run}, {"edit", schedule_edit}, {"remove", schedule_remove}, {NULL}};

	return command_words(&table, "schedules", words, argc, argv);
}
