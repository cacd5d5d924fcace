/* `reeve queue list|describe|start|stop|pause|resume|purge|delete`. */
#include "client/cmd/queue.h"

#include "client/cmd/backoff.h"
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/terminal.h"
#include "common/limits.h"

#include <inttypes.h>
#include <jansson.h>
#include <reeve/v1/admin_calls.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ACTION(name) REEVE__V1__QUEUE_ACTION__QUEUE_ACTION_##name

enum { POLL_AGAIN_MS = 200, WIDTH = 16 };

/*
 * list
 */

static const struct option_spec list_specs[] = {
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "only this queue"),
    {0},
};

static const struct option_table list_table = {
    .program = "reeve queue list",
    .usage = "[--queue NAME] [--json]",
    .summary = "Counts the tasks of each queue and type: due (with the age of the oldest), delayed, executing, "
               "and failed (to be retried).",
    .specs = list_specs,
};

const struct column queue_count_columns[] = {
    COL_TEXT("QUEUE", "queue"),
    COL_TEXT("TYPE", "type"),
    COL_NUMBER("QUEUED", "queued"),
    COL_NUMBER("DELAYED", "delayed"),
    COL_NUMBER("EXECUTING", "executing"),
    COL_NUMBER("FAILED", "failed"),
    COL_NUMBER("OLDEST", "oldest_due_us", .as = AS_AGE),
    {0},
};

int queue_list(int argc, char **argv)
{
	static const struct list list = {.items = "queues", .columns = queue_count_columns};
	Reeve__V1__ListQueuesRequest request = REEVE__V1__LIST_QUEUES_REQUEST__INIT;
	struct option_message options = {.message = &request.base};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	Reeve__V1__ListQueuesResponse *queues;
	struct reeve_client *client;
	int code;

	if (!command_only_options(&list_table, &options, &shared, argc, argv, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	queues = reeve_queues(client, &request, &failure);
	if (queues)
		list_print_answer(&list, client, queues, INT64_MAX, shared.json);
	code = queues ? EXIT_OK : command_failed(&failure);
	reeve_free(queues);
	reeve_client_destroy(client);
	return code;
}

/*
 * describe
 */

static const Reeve__V1__QueueSettings *settings_of(const void *message)
{
	return ((const Reeve__V1__DescribeQueueResponse *)message)->settings;
}

static void show_retries(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	if (settings_of(message))
		snprintf(out->text, sizeof out->text, "%" PRId32 " after the first attempt", settings_of(message)->retry_limit);
}

static const Reeve__V1__RetryPolicy *retry_of(const void *message)
{
	static const Reeve__V1__RetryPolicy none;
	const Reeve__V1__QueueSettings *settings = settings_of(message);

	return settings && settings->retry ? settings->retry : &none;
}

static void show_backoff(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	out->value = out->owned = backoff_format(retry_of(message));
}

static void show_max_running(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__QueueSettings *settings = settings_of(message);

	(void)now_us;
	if (settings && settings->max_running >= 0)
		snprintf(out->text, sizeof out->text, "%d", (int)settings->max_running);
	else
		out->value = "any number";
}

static void show_jitter(const void *message, int64_t now_us, struct shown *out)
{
	int32_t percent = retry_of(message)->jitter_percent;

	(void)now_us;
	percent = percent == 0 ? DEFAULT_JITTER_PERCENT : percent < 0 ? 0 : percent;
	snprintf(out->text, sizeof out->text, "%d %%", (int)percent);
}

static bool has_callback(const void *message)
{
	return settings_of(message) && *settings_of(message)->callback_url;
}

static void show_callback_tasks(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	if (has_callback(message))
		out->value = settings_of(message)->callback_tasks ? "on" : "off";
}

static void show_callback_attempts(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	if (settings_of(message) && settings_of(message)->callback_attempts)
		out->value = "on";
}

static void show_secret(const void *message, int64_t now_us, struct shown *out)
{
	(void)now_us;
	if (has_callback(message))
		out->value = ((const Reeve__V1__DescribeQueueResponse *)message)->has_secret ? "set" : "none";
}

static void show_changed(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__DescribeQueueResponse *description = message;

	(void)now_us;
	if (description->is_set)
		terminal_time(description->updated_us, out->text, sizeof out->text);
	else
		out->value = "never: all of these are defaults";
}

static const struct column settings_lines[] = {
    {"queue", .field = "queue"},
    {"state", .field = "state"},
    {"retries", .show = show_retries},
    {"backoff", .show = show_backoff},
    {"jitter", .show = show_jitter},
    {"max running", .show = show_max_running},
    {"priority", .field = "settings.priority", .otherwise = "0"},
    {"timeout", .field = "settings.timeout_ms", .as = AS_SPAN},
    {"resting", .field = "settings.resting_ms", .as = AS_SPAN, .otherwise = "none"},
    {"waiting", .field = "settings.waiting_ms", .as = AS_SPAN, .otherwise = "none"},
    {"batches", .field = "settings.batches", .as = AS_SWITCH},
    {"autostart", .field = "settings.autostart", .as = AS_SWITCH},
    {"verbose", .field = "settings.verbose", .as = AS_SWITCH},
    {"callback", .field = "settings.callback_url", .otherwise = "-"},
    {"callback tasks", .show = show_callback_tasks},
    {"each attempt", .show = show_callback_attempts},
    {"callback secret", .show = show_secret},
    {"callback type", .field = "settings.callback_type", .otherwise = "-"},
    {"entry", .field = "settings.entry_type", .otherwise = "-"},
    {"exit", .field = "settings.exit_type", .otherwise = "-"},
    {"keeps completed", .field = "settings.keep_completed_ms", .as = AS_SPAN, .otherwise = "as all queues"},
    {"keeps dead", .field = "settings.keep_dead_ms", .as = AS_SPAN, .otherwise = "as all queues"},
    {"keeps cancelled", .field = "settings.keep_cancelled_ms", .as = AS_SPAN, .otherwise = "as all queues"},
    {"keeps keys", .field = "settings.key_ttl_ms", .as = AS_SPAN, .otherwise = "as long as their tasks"},
    {"changed", .show = show_changed},
    {0},
};

const struct call queue_describe = {
    .options = {.program = "reeve queue describe",
        .usage = "NAME [--json]",
        .summary = "Shows a queue's settings.",
        .epilogue = "Example: reeve queue describe mail"},
    .operand = "queue",
    .noun = "queue",
    .list = {.service = &reeve__v1__queue_service__descriptor, .method = "Describe", .columns = settings_lines},
    .width = WIDTH,
};

int queue_print_settings(struct reeve_client *client, const char *queue, bool json)
{
	Reeve__V1__DescribeQueueRequest request = {.queue = queue};
	struct reeve_failure failure = {0};
	Reeve__V1__DescribeQueueResponse *description = reeve_queue_describe(client, &request, NULL, &failure);

	if (!description)
		return command_failed(&failure);
	call_print(&queue_describe, client, &request, description, json);
	reeve_free(description);
	return EXIT_OK;
}

/*
 * start, pause, resume, purge, delete, stop
 */

/* "mail: paused" */
static void print_controlled(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	const Reeve__V1__ControlQueueRequest *asked = request;
	const Reeve__V1__ControlQueueResponse *controlled = answer;

	(void)now_us;
	terminal_write_clean(stdout, asked->queue);
	if (asked->action == ACTION(PURGE))
		printf(": purged, %" PRId64 " task%s cancelled\n", controlled->tasks, controlled->tasks == 1 ? "" : "s");
	else if (asked->action == ACTION(RESUME) && fields_is(controlled, "state", "not_started"))
		printf(": resumed; it waits to be started\n");
	else
		printf(": %s\n", fields_is(controlled, "state", "stopping") ? "being stopped" : call->done);
}

static void print_controlled_json(const struct call *call, const void *request, const void *answer)
{
	const Reeve__V1__ControlQueueResponse *controlled = answer;
	struct shown state;

	(void)call;
	fields_word(controlled, "state", &state);
	command_print_object(json_pack("{ss ss sI}", "queue", ((const Reeve__V1__ControlQueueRequest *)request)->queue,
	    "state", state.value, "tasks", (json_int_t)controlled->tasks));
}

#define CONTROL(verb, what, word, text)                                                                                \
	CALL_CONTROL("queue", "queue", "mail", &reeve__v1__queue_service__descriptor, verb, ACTION(what), word, text)

const struct call queue_start = CONTROL(
    "start", START, "started", "Starts a stopped or paused queue, or the new batch of a queue whose autostart is off.");
const struct call queue_pause =
    CONTROL("pause", PAUSE, "paused", "Pauses a queue: no more of its tasks are started. Running ones finish.");
const struct call queue_resume = CONTROL("resume", RESUME, "resumed", "Resumes a paused queue.");
const struct call queue_purge = CONTROL("purge", PURGE, "purged", "Cancels all waiting tasks of a queue.");
const struct call queue_delete = CONTROL(
    "delete", DELETE, "deleted", "Deletes the settings of a queue. Its tasks stay, and have the default settings.");
static const struct call stopping = CONTROL("stop", STOP, "stopped", "");

struct stop_options {
	bool wait;
};

static const struct option_spec stop_specs[] = {
    OPT_FLAG('w', "wait", OPTION_AT(struct stop_options, wait), "wait until all its tasks have ended"),
    {0},
};

static const struct option_table stop_table = {
    .program = "reeve queue stop",
    .usage = "NAME [--wait] [--json]",
    .summary = "Stops a queue: running tasks are cancelled, waiting ones end dead with the code queue_stopped, and "
               "open batches end. Without --wait the command ends before that. A submit into the queue waits "
               "until then, and starts the queue again.",
    .epilogue = "Example: reeve queue stop mail --wait",
    .specs = stop_specs,
};

/* Waits until a stop is complete. Returns the queue's last status, or NULL. */
static Reeve__V1__QueueStatusResponse *wait_stopped(
    struct reeve_client *client, const char *queue, struct reeve_failure *failure)
{
	Reeve__V1__QueueStatusRequest request = {.queue = queue};
	Reeve__V1__QueueStatusResponse *status = reeve_queue_status(client, &request, NULL, failure);

	while (status && fields_is(status, "state", "stopping")) {
		reeve_free(status);
		nanosleep(&(struct timespec){.tv_nsec = POLL_AGAIN_MS * 1000000}, NULL);
		status = reeve_queue_status(client, &request, NULL, failure);
	}
	return status;
}

static int stop(struct reeve_client *client, const char *queue, bool wait, bool json)
{
	Reeve__V1__ControlQueueRequest request = {.queue = queue, .action = ACTION(STOP)};
	struct reeve_failure failure = {0};
	Reeve__V1__ControlQueueResponse *controlled = reeve_queue_control(client, &request, NULL, &failure);
	Reeve__V1__QueueStatusResponse *status = NULL;
	int code = EXIT_OK;

	if (!controlled)
		return command_change_failed(&failure);
	if (wait && fields_is(controlled, "state", "stopping")) {
		status = wait_stopped(client, queue, &failure);
		if (!status)
			code = command_failed(&failure);
	}
	if (status)
		controlled->state = status->state;
	if (code == EXIT_OK)
		call_print(&stopping, client, &request, controlled, json);
	reeve_free(status);
	reeve_free(controlled);
	return code;
}

int queue_stop(int argc, char **argv)
{
	struct stop_options options = {0};
	struct shared_options shared = {0};
	struct reeve_client *client;
	const char *queue;
	int code;

	queue = command_named(&stop_table, &options, &shared, "queue", argc, argv, &code);
	client = queue ? command_connect_to_change(&shared, &code) : NULL;
	if (!client)
		return code;
	code = stop(client, queue, options.wait, shared.json);
	command_disconnect(client);
	return code;
}
