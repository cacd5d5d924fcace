/* `reeve schedule pause|resume|remove|run`. */
#include "client/cmd/schedule.h"

#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec no_specs[] = {{.name = NULL}};

/*
 * pause, resume, remove
 */

static const struct {
	const char *verb, *done;
	enum reeve_schedule_action action;
	struct option_table table;
} actions[] = {
    {"pause", "paused", REEVE_SCHEDULE_PAUSE,
        {.program = "reeve schedule pause",
            .usage = "NAME [--json]",
            .summary = "Pauses a schedule: it does not run until it is resumed. The tasks that it has submitted go on.",
            .epilogue = "Example: reeve schedule pause nightly",
            .specs = no_specs}},
    {"resume", "resumed", REEVE_SCHEDULE_RESUME,
        {.program = "reeve schedule resume",
            .usage = "NAME [--json]",
            .summary = "Resumes a paused schedule. Its next run is computed from now; the runs it missed are not made up for.",
            .epilogue = "Example: reeve schedule resume nightly",
            .specs = no_specs}},
    {"remove", "removed", REEVE_SCHEDULE_REMOVE,
        {.program = "reeve schedule remove",
            .usage = "NAME [--json]",
            .summary = "Removes a schedule's definition. Its runs are still listed until they are old, and its tasks go on.",
            .epilogue = "Example: reeve schedule remove nightly",
            .specs = no_specs}},
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

int schedule_control(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	const char *name;
	int code;
	size_t i = 0;

	while (strcmp(actions[i].verb, argv[0]) != 0)
		i++;
	name = command_named(&actions[i].table, NULL, &shared, "schedule", argc, argv, &code);
	client = name ? command_connect_to_change(&shared, &code) : NULL;
	if (!client)
		return code;
	if (reeve_schedule_control(client, name, actions[i].action, &failure))
		print_done(name, actions[i].done, shared.json);
	else
		code = command_change_failed(&failure);
	command_disconnect(client);
	return code;
}

/*
 * run
 */

static const struct option_table run_table = {
    .program = "reeve schedule run",
    .usage = "NAME [--json]",
    .summary = "Runs a schedule now, in addition to its scheduled runs, even if it is paused, whatever its "
               "--concurrency-policy, and prints the task's id. The task has its own key.",
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

int schedule_run(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_schedule_runs *runs;
	struct reeve_client *client;
	const char *name;
	int code;

	name = command_named(&run_table, NULL, &shared, "schedule", argc, argv, &code);
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
