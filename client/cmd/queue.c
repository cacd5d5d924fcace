/* `reeve queue describe|start|stop|pause|resume|purge|delete`. */
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

int queue_print_settings(const char *queue, const struct shared_options *shared)
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

static const struct option_table describe_table = {
    .program = "reeve queue describe",
    .usage = "NAME [--json]",
    .summary = "Shows a queue's settings.",
    .epilogue = "Example: reeve queue describe mail",
    .specs = no_specs,
};

int queue_describe(int argc, char **argv)
{
	struct shared_options shared = {0};
	const char *queue;
	int code;

	queue = command_named(&describe_table, NULL, &shared, "queue", argc, argv, &code);
	return queue ? queue_print_settings(queue, &shared) : code;
}

/*
 * start, stop, pause, resume, purge, delete
 */

struct control_options {
	bool wait;
};

static const struct option_spec stop_specs[] = {
    {.name = "wait",
        .type = OPTION_FLAG,
        .offset = offsetof(struct control_options, wait),
        .letter = 'w',
        .help = "wait until all its tasks have ended"},
    {.name = NULL},
};

static const struct control {
	const char *verb, *done; /* `done`: for the message afterwards */
	enum reeve_queue_action action;
	struct option_table table;
} controls[] = {
    {"start", "started", REEVE_QUEUE_START,
        {.program = "reeve queue start",
            .usage = "NAME [--json]",
            .summary = "Starts a stopped or paused queue, or the new batch of a queue whose autostart is off.",
            .epilogue = "Example: reeve queue start mail",
            .specs = no_specs}},
    {"stop", "stopped", REEVE_QUEUE_STOP,
        {.program = "reeve queue stop",
            .usage = "NAME [--wait] [--json]",
            .summary = "Stops a queue: running tasks are cancelled, waiting ones end dead with the code queue_stopped, and "
                       "open batches end. Without --wait the command ends before that. Tasks that are submitted in the "
                       "meantime are refused. The next one after it starts the queue again.",
            .epilogue = "Example: reeve queue stop mail --wait",
            .specs = stop_specs}},
    {"pause", "paused", REEVE_QUEUE_PAUSE,
        {.program = "reeve queue pause",
            .usage = "NAME [--json]",
            .summary = "Pauses a queue: no more of its tasks are started. Running ones finish.",
            .epilogue = "Example: reeve queue pause mail",
            .specs = no_specs}},
    {"resume", "resumed", REEVE_QUEUE_RESUME,
        {.program = "reeve queue resume",
            .usage = "NAME [--json]",
            .summary = "Resumes a paused queue.",
            .epilogue = "Example: reeve queue resume mail",
            .specs = no_specs}},
    {"purge", "purged", REEVE_QUEUE_PURGE,
        {.program = "reeve queue purge",
            .usage = "NAME [--json]",
            .summary = "Cancels all waiting tasks of a queue.",
            .epilogue = "Example: reeve queue purge mail",
            .specs = no_specs}},
    {"delete", "deleted", REEVE_QUEUE_DELETE,
        {.program = "reeve queue delete",
            .usage = "NAME [--json]",
            .summary = "Deletes the settings of a queue. Its tasks stay, and have the default settings.",
            .epilogue = "Example: reeve queue delete mail",
            .specs = no_specs}},
};

static void wait_a_moment(void)
{
	nanosleep(&(struct timespec){.tv_nsec = POLL_AGAIN_MS * 1000000}, NULL);
}

/* Waits until a stop is complete. */
static bool wait_stopped(struct reeve_client *client, const char *queue, struct reeve_queue_controlled *controlled,
    struct reeve_failure *failure)
{
	while (strcmp(controlled->state, "stopping") == 0) {
		struct reeve_queue_status *status;

		wait_a_moment();
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
	else if (control->action == REEVE_QUEUE_RESUME && strcmp(controlled->state, "not_started") == 0)
		printf(": resumed; it waits to be started\n");
	else
		printf(": %s\n", stopping ? "being stopped" : control->done);
}

int queue_control(int argc, char **argv)
{
	struct control_options options = {0};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_queue_controlled controlled;
	const struct control *control = controls;
	struct reeve_client *client;
	const char *queue;
	int code;

	while (strcmp(control->verb, argv[0]) != 0)
		control++;
	queue = command_named(&control->table, &options, &shared, "queue", argc, argv, &code);
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
