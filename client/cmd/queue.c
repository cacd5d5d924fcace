/*
 * `reeve queue ACTION NAME`: start, stop, describe and others. Each action has its own options and so its own table;
 * the first argument that is the name of an action selects it.
 */
#include "client/cmd/queue.h"

#include "client/cmd/backoff.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLL_AGAIN_MS = 200 };

static const struct option_spec no_specs[] = {{.name = NULL}};

static const struct option_table table = {
    .program = "reeve queue",
    .usage = "start|stop|pause|resume|purge|delete|describe|status|progress|set NAME [OPTION]... [--json]",
    .summary = "Controls a queue: start (a new batch whose queue has autostart off, or a stopped or paused queue), stop "
               "(running tasks are cancelled, waiting ones end dead, open batches end), pause (no task is taken any more, "
               "running ones finish), resume, purge (what waits is cancelled), delete (its settings go). And shows it: "
               "describe (its settings), status (what stands in it, its batch, its workers), progress (the same until all "
               "has ended). And changes its settings: set.",
    .epilogue = "`reeve queue set --help`, `reeve queue stop --help` and `reeve queue progress --help`\n"
                "say what options they take.\n"
                "\n"
                "Examples: reeve queue pause mail\n"
                "          reeve queue status mail --json\n"
                "          reeve queue set mail --retry-limit 5 --backoff linear:3s --resting 5s",
    .specs = no_specs,
};

const char *queue_operand(const struct option_table *of, int operands, char **argv, int *code)
{
	if (operands < 2)
		*code = command_usage(of, "which queue?");
	else if (operands > 2)
		*code = command_usage(of, "one queue at a time; \"%s\" is too much", argv[3]);
	else if (!*argv[2])
		*code = command_usage(of, "the queue's name is empty");
	else
		return argv[2];
	return NULL;
}

/*
 * describe
 */

static void show_setting(const char *name, const char *text)
{
	printf("%-16s ", name);
	terminal_write_clean(stdout, *text ? text : "-");
	putchar('\n');
}

static void show_span(const char *name, int64_t ms, const char *otherwise)
{
	char text[64];

	show_setting(name, ms ? duration_format(ms, text, sizeof text) : otherwise);
}

static void show_retry(const struct reeve_queue_settings *s)
{
	char *backoff = backoff_format(&s->retry), text[64];

	snprintf(text, sizeof text, "%" PRId32 " after the first attempt", s->retry_limit);
	show_setting("retries", text);
	show_setting("backoff", backoff);
	snprintf(text, sizeof text, "%d %%",
	    s->retry.jitter_percent == 0 ? 25 : s->retry.jitter_percent < 0 ? 0 : (int)s->retry.jitter_percent);
	show_setting("jitter", text);
	free(backoff);
}

static const char *on_off(bool on)
{
	return on ? "on" : "off";
}

static void show_description(const struct reeve_queue_description *d)
{
	const struct reeve_queue_settings *s = &d->settings;
	char text[64];

	show_setting("queue", d->queue);
	show_setting("state", d->state);
	show_retry(s);
	show_span("resting", s->resting_ms, "none");
	show_span("waiting", s->waiting_ms, "none");
	show_setting("batches", on_off(s->batches));
	show_setting("autostart", on_off(s->autostart));
	show_setting("verbose", on_off(s->verbose));
	show_setting("callback", s->callback_url);
	if (*s->callback_url) {
		show_setting("callback tasks", on_off(s->callback_tasks));
		show_setting("callback secret", d->has_secret ? "set" : "none");
	}
	show_setting("callback type", s->callback_type);
	show_setting("entry", s->entry_type);
	show_setting("exit", s->exit_type);
	show_span("keeps completed", s->keep_completed_ms, "as all queues");
	show_span("keeps dead", s->keep_dead_ms, "as all queues");
	show_span("keeps cancelled", s->keep_cancelled_ms, "as all queues");
	if (d->is_set)
		show_setting("changed", terminal_time(d->updated_us, text, sizeof text));
	else
		show_setting("changed", "never: all of these are defaults");
}

int queue_describe(const char *queue, const struct shared_options *shared)
{
	struct reeve_failure failure = {0};
	struct reeve_queue_description *description;
	struct reeve_client *client;
	int code;

	client = command_connect(shared, &code);
	if (!client)
		return code;
	description = reeve_queue_describe(client, queue, &failure);
	if (description && shared->json)
		command_print_json(description->wire);
	else if (description)
		show_description(description);
	code = description ? EXIT_OK : command_failed(&failure);
	reeve_queue_description_free(description);
	reeve_client_destroy(client);
	return code;
}

static int describe(int argc, char **argv)
{
	struct shared_options shared = {0};
	const char *queue;
	int operands, code;

	if (!command_options(&table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	queue = queue_operand(&table, operands, argv, &code);
	return queue ? queue_describe(queue, &shared) : code;
}

/*
 * start, stop, pause, resume, purge, delete
 */

static const struct control {
	const char *name, *done; /* for the message afterwards */
	enum reeve_queue_action action;
} controls[] = {
    {"start", "started", REEVE_QUEUE_START},
    {"stop", "stopped", REEVE_QUEUE_STOP},
    {"pause", "paused", REEVE_QUEUE_PAUSE},
    {"resume", "resumed", REEVE_QUEUE_RESUME},
    {"purge", "purged", REEVE_QUEUE_PURGE},
    {"delete", "deleted", REEVE_QUEUE_DELETE},
};

struct control_options {
	bool wait;
};

static const struct option_spec stop_specs[] = {
    {.name = "wait",
        .type = OPTION_FLAG,
        .offset = offsetof(struct control_options, wait),
        .letter = 'w',
        .help = "wait until all that ran or waited has ended"},
    {.name = NULL},
};

static const struct option_table stop_table = {
    .program = "reeve queue stop",
    .usage = "NAME [--wait] [--json]",
    .summary = "Stops a queue: running tasks are cancelled, what waits ends dead with the code queue_stopped, and open "
               "batches end. It goes on when the command is over, unless that waits; tasks submitted meanwhile are refused. "
               "The next one that is submitted afterwards starts the queue again.",
    .epilogue = "Example: reeve queue stop mail --wait",
    .specs = stop_specs,
};

static void rest(void)
{
	nanosleep(&(struct timespec){.tv_nsec = POLL_AGAIN_MS * 1000000}, NULL);
}

/* Waits until a stop is complete. */
static bool wait_stopped(struct reeve_client *client, const char *queue, struct reeve_queue_controlled *controlled,
    struct reeve_failure *failure)
{
	while (strcmp(controlled->state, "stopping") == 0) {
		struct reeve_queue_status *status;

		rest();
		status = reeve_queue_status(client, queue, failure);
		if (!status)
			return false;
		snprintf(controlled->state, sizeof controlled->state, "%s", status->state);
		reeve_queue_status_free(status);
	}
	return true;
}

static void print_controlled(
    const char *queue, const struct control *control, const struct reeve_queue_controlled *controlled, bool json)
{
	bool stopping = strcmp(controlled->state, "stopping") == 0;

	if (json) {
		json_t *object = json_pack("{ss ss sI}", "queue", queue, "state", controlled->state, "tasks",
		    (json_int_t)controlled->tasks);
		char *text = json_dumps(object, JSON_COMPACT);

		puts(text);
		free(text);
		json_decref(object);
		return;
	}
	terminal_write_clean(stdout, queue);
	if (control->action == REEVE_QUEUE_PURGE)
		printf(": purged, %" PRId64 " task%s cancelled\n", controlled->tasks, controlled->tasks == 1 ? "" : "s");
	else if (control->action == REEVE_QUEUE_RESUME && strcmp(controlled->state, "pending") == 0)
		printf(": resumed; it waits to be started\n");
	else
		printf(": %s\n", stopping ? "being stopped" : control->done);
}

static int run_control(const struct control *control, int argc, char **argv)
{
	bool stop = control->action == REEVE_QUEUE_STOP;
	const struct option_table *of = stop ? &stop_table : &table;
	struct control_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_queue_controlled controlled;
	struct reeve_client *client;
	const char *queue;
	int operands, code;

	if (!command_options(of, &options, &shared, argc, argv, &operands, &code))
		return code;
	queue = queue_operand(of, operands, argv, &code);
	client = queue ? command_connect_to_change(&shared, &code) : NULL;
	if (!client)
		return code;
	if (!reeve_queue_control(client, queue, control->action, &controlled, &failure)) {
		code = command_change_failed(&failure);
	} else if (options.wait && !wait_stopped(client, queue, &controlled, &failure)) {
		code = command_failed(&failure);
	} else {
		print_controlled(queue, control, &controlled, shared.json);
		code = EXIT_OK;
	}
	command_disconnect(client);
	return code;
}

/*
 * choice of the action
 */

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} others[] = {
    {"describe", describe},
    {"status", queue_status},
    {"progress", queue_progress},
    {"set", queue_set},
};

/* Runs the action of this name; returns false if there is none. */
static bool run_action(const char *name, int argc, char **argv, int *code)
{
	for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
		if (strcmp(controls[i].name, name) == 0) {
			*code = run_control(&controls[i], argc, argv);
			return true;
		}
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (strcmp(others[i].name, name) == 0) {
			*code = others[i].run(argc, argv);
			return true;
		}
	}
	return false;
}

int command_queue(int argc, char **argv)
{
	struct shared_options shared = {0};
	int operands, code;

	for (int i = 1; i < argc; i++)
		if (run_action(argv[i], argc, argv, &code))
			return code;
	if (!command_options(&table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands == 0)
		return command_usage(&table, "do what?");
	return command_usage(&table, "\"%s\" is nothing that can be done with a queue", argv[1]);
}
