/* `reeve queue set NAME`: changes the settings that are passed, and no others. */
#include "client/cmd/backoff.h"
#include "client/cmd/command.h"
#include "client/cmd/queue.h"
#include "client/cmd/secret.h"
#include "common/clock.h"
#include "common/limits.h"

#include <stdio.h>
#include <string.h>

struct set_options {
	struct option_message message; /* the settings */
	int64_t jitter;
	const char *backoff, *secret_file;
	struct option_list keep;
};

static const struct option_spec specs[] = {
    OPT_INTEGER(0, "retry-limit", OPTION_FIELD("retry_limit"), -1, LIMIT_ATTEMPTS - 1, "N",
        "attempts after the first, for tasks that do not set it; -1: the default, 4"),
    OPT_INTEGER(0, "max-running", OPTION_FIELD("max_running"), -1, LIMIT_MAX_RUNNING, "N",
        "maximum number of its tasks that run at once, over all workers; -1: any number"),
    OPT_INTEGER('p', "priority", OPTION_FIELD("priority"), -LIMIT_PRIORITY, LIMIT_PRIORITY, "N",
        "priority of tasks that do not set it"),
    OPT_SPAN(0, "timeout", OPTION_FIELD("timeout_ms"), 0, DAYS_MS(LIMIT_TIMEOUT_DAYS),
        "how long an attempt may run, for tasks that do not set it; 0: the default, 1m"),
    OPT_TEXT(0, "backoff", OPTION_AT(struct set_options, backoff), "POLICY",
        "retry delays of tasks that do not set them: default, fixed:D, linear:STEP[:BASE], exp:BASE[:CAP], "
        "poly:BASE[:EXPONENT] or list:D,D,…; a linear one without BASE begins with the resting period"),
    OPT_INTEGER(0, "jitter", OPTION_AT(struct set_options, jitter), 0, 100, "PERCENT",
        "with --backoff: maximum random part that is subtracted from each delay (default: " LIMIT_TEXT(
            DEFAULT_JITTER_PERCENT) ")"),
    OPT_SPAN(0, "resting", OPTION_FIELD("resting_ms"), 0, DAYS_MS(LIMIT_PERIOD_DAYS),
        "time for which a worker's slot takes no task of the queue after one; 0: none"),
    OPT_SPAN(0, "waiting", OPTION_FIELD("waiting_ms"), 0, DAYS_MS(LIMIT_PERIOD_DAYS),
        "time from a start of the queue, a batch or a worker until the first task of the queue; 0: none"),
    OPT_CHOICE(0, "batches", OPTION_FIELD("batches"), "yes|no", "create batches of its tasks automatically"),
    OPT_CHOICE(0, "autostart", OPTION_FIELD("autostart"), "yes|no",
        "no: a new batch waits for `reeve queue start`; turns batches on"),
    OPT_CHOICE(0, "verbose", OPTION_FIELD("verbose"), "yes|no", "log each step of its tasks in the managers' logs"),
    OPT_TEXT(0, "callback", OPTION_FIELD("callback_url"), "URL",
        "URL to call at begin and end of each batch; \"\": none; turns batches on"),
    OPT_TEXT(0, "callback-secret-file", OPTION_AT(struct set_options, secret_file), "FILE",
        "file whose first line signs these calls; \"\": no signature"),
    OPT_CHOICE(
        0, "callback-tasks", OPTION_FIELD("callback_tasks"), "yes|no", "also call the URL at the end of each task"),
    OPT_CHOICE(0, "callback-attempts", OPTION_FIELD("callback_attempts"), "yes|no",
        "also notify of each attempt after which a task goes on"),
    OPT_TEXT(0, "callback-type", OPTION_FIELD("callback_type"), "TYPE",
        "submit a task of this type for each of these events; \"\": none; turns batches on"),
    OPT_TEXT(0, "entry", OPTION_FIELD("entry_type"), "TYPE",
        "run a task of this type before the first of a batch; \"\": none; turns batches on"),
    OPT_TEXT(0, "exit", OPTION_FIELD("exit_type"), "TYPE",
        "run a task of this type after the last of a batch; \"\": none; turns batches on"),
    OPT_LIST(0, "keep", OPTION_AT(struct set_options, keep), "OUTCOME=TIME[,…]",
        "retention by outcome, in days or hours: completed=12h, dead=90d, cancelled=default"),
    OPT_SPAN(0, "key-ttl", OPTION_FIELD("key_ttl_ms"), 0, DAYS_MS(LIMIT_DELAY_DAYS),
        "how long keys are kept after the submit, of tasks that do not set it; 0: as long as their tasks"),
    {0},
};

static const struct option_table table = {
    .program = "reeve queue set",
    .usage = "NAME [OPTION]... [--json]",
    .summary = "Changes settings of a queue; the others stay. They apply to tasks, batches and workers from then "
               "on. `reeve queue describe NAME` shows them.",
    .epilogue = "Examples: reeve queue set mail --retry-limit 5 --backoff list:1m,5m,30m,2h\n"
                "          reeve queue set night --autostart no --waiting 10s --resting 5s\n"
                "          reeve queue set reports --max-running 3\n"
                "          reeve queue set mail --keep completed=7d,dead=90d",
    .specs = specs,
};

/* The settings to change. */
struct change {
	Reeve__V1__QueueSettings settings;
	struct set_options options;
	struct backoff backoff;
	char secret[SECRET_BYTES];
};

static bool take_backoff(struct change *change, struct reeve_error *error)
{
	const struct set_options *options = &change->options;
	struct reeve_error why = {0};

	if (!options->backoff)
		return options->jitter == NOT_GIVEN || error_set(error, STATUS(INVALID_ARGUMENT), "--jitter needs a --backoff");
	option_note(&change->options.message, "retry");
	if (strcmp(options->backoff, "default") == 0 && options->jitter == NOT_GIVEN)
		return true;
	if (!backoff_parse(&change->backoff, options->backoff, options->jitter, &why))
		return error_set(error, STATUS(INVALID_ARGUMENT), "--backoff: %s", why.message);
	change->settings.retry = &change->backoff.policy;
	return true;
}

static bool take_secret(struct change *change, struct reeve_error *error)
{
	const char *path = change->options.secret_file;

	if (!path)
		return true;
	option_note(&change->options.message, "callback_secret");
	if (!*path)
		return true;
	change->settings.callback_secret = change->secret;
	return secret_read(path, change->secret, error);
}

/* Parses one "dead=90d". */
static bool take_kept(const char *text, struct change *change, struct reeve_error *error)
{
	const struct {
		const char *outcome;
		int64_t *ms;
		const char *field;
	} outcomes[] = {
	    {"completed=", &change->settings.keep_completed_ms, "keep_completed_ms"},
	    {"dead=", &change->settings.keep_dead_ms, "keep_dead_ms"},
	    {"cancelled=", &change->settings.keep_cancelled_ms, "keep_cancelled_ms"},
	};

	for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
		size_t length = strlen(outcomes[i].outcome);

		if (strncmp(text, outcomes[i].outcome, length) != 0)
			continue;
		option_note(&change->options.message, outcomes[i].field);
		if (strcmp(text + length, "default") == 0)
			return true;
		if (duration_parse(text + length, outcomes[i].ms) && *outcomes[i].ms > 0 &&
		    *outcomes[i].ms % (DAY_MS / 24) == 0)
			return true;
		return error_set(error, STATUS(INVALID_ARGUMENT), "--keep: \"%s\" is not in whole hours, like %s12h or 30d",
		    text, outcomes[i].outcome);
	}
	return error_set(error, STATUS(INVALID_ARGUMENT),
	    "--keep: \"%s\" is not like completed=30d, dead=90d or cancelled=default", text);
}

static bool take_options(struct change *change, struct reeve_error *error)
{
	for (size_t i = 0; i < change->options.keep.count; i++)
		if (!take_kept(change->options.keep.items[i], change, error))
			return false;
	return take_backoff(change, error) && take_secret(change, error);
}

int queue_set(int argc, char **argv)
{
	struct change change = {.settings = REEVE__V1__QUEUE_SETTINGS__INIT, .options.jitter = NOT_GIVEN};
	struct option_message *message = &change.options.message;
	Reeve__V1__SetQueueRequest request = {.settings = &change.settings};
	Reeve__V1__SetQueueResponse *response;
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_error error = {0};
	struct reeve_client *client;
	int code;

	message->message = &change.settings.base;
	request.queue = command_named(&table, &change.options, &shared, "queue", argc, argv, &code);
	if (!request.queue)
		return code;
	if (!take_options(&change, &error))
		return command_usage(&table, "%s", error.message);
	if (!message->n_set)
		return command_usage(&table, "nothing is to be changed: give at least one setting, such as --retry-limit 5");
	request.n_fields = message->n_set;
	request.fields = message->set;
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	response = reeve_queue_set(client, &request, NULL, &failure);
	code = response ? queue_print_settings(client, request.queue, shared.json) : command_change_failed(&failure);
	reeve_free(response);
	command_disconnect(client);
	return code;
}
