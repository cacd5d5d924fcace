/* `reeve queue set NAME`: changes the settings that are passed, and no others. */
#include "client/cmd/queue.h"

#include "client/cmd/backoff.h"
#include "common/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NOT_GIVEN INT64_MIN
#define LONGEST_PERIOD_MS (INT64_C(365) * 24 * 3600 * 1000)
#define DAY_MS (INT64_C(24) * 3600 * 1000)

struct set_options {
	int64_t retry_limit, resting_ms, waiting_ms, jitter;
	const char *backoff, *autostart, *verbose, *batches;
	const char *callback, *secret_file, *callback_tasks, *callback_type, *entry, *exit;
	struct option_list keep;
};

#define FIELD(field) .offset = offsetof(struct set_options, field)

static const struct option_spec specs[] = {
    {.name = "retry-limit",
        .type = OPTION_INTEGER,
        FIELD(retry_limit),
        .min = -1,
        .max = 9999,
        .argument = "N",
        .help = "attempts after the first, for tasks that do not set it; -1: the default, 4"},
    {.name = "backoff",
        .type = OPTION_TEXT,
        FIELD(backoff),
        .argument = "POLICY",
        .help = "retry delays of tasks that do not set them: default, fixed:D, linear:STEP[:BASE], "
                "exp:BASE[:CAP], poly:BASE[:EXPONENT] or list:D,D,…; a linear one without BASE begins with the "
                "resting period"},
    {.name = "jitter",
        .type = OPTION_INTEGER,
        FIELD(jitter),
        .min = 0,
        .max = 100,
        .argument = "PERCENT",
        .help = "with --backoff: maximum random part that is subtracted from each delay (default: 25)"},
    {.name = "resting",
        .type = OPTION_DURATION,
        FIELD(resting_ms),
        .max = LONGEST_PERIOD_MS,
        .argument = "DURATION",
        .help = "time for which a worker's slot takes no task after one of the queue; 0: none"},
    {.name = "waiting",
        .type = OPTION_DURATION,
        FIELD(waiting_ms),
        .max = LONGEST_PERIOD_MS,
        .argument = "DURATION",
        .help = "time from a worker's start until its first task of the queue; 0: none"},
    {.name = "batches",
        .type = OPTION_TEXT,
        FIELD(batches),
        .argument = "yes|no",
        .help = "create batches of its tasks automatically"},
    {.name = "autostart",
        .type = OPTION_TEXT,
        FIELD(autostart),
        .argument = "yes|no",
        .help = "no: a new batch waits for `reeve queue start`; turns batches on"},
    {.name = "verbose",
        .type = OPTION_TEXT,
        FIELD(verbose),
        .argument = "yes|no",
        .help = "log each step of its tasks in the managers' logs"},
    {.name = "callback",
        .type = OPTION_TEXT,
        FIELD(callback),
        .argument = "URL",
        .help = "URL to call at begin and end of each batch; \"\": none; turns batches on"},
    {.name = "callback-secret-file",
        .type = OPTION_TEXT,
        FIELD(secret_file),
        .argument = "FILE",
        .help = "file whose first line signs these calls; \"\": no signature"},
    {.name = "callback-tasks",
        .type = OPTION_TEXT,
        FIELD(callback_tasks),
        .argument = "yes|no",
        .help = "also call the URL at the end of each task"},
    {.name = "callback-type",
        .type = OPTION_TEXT,
        FIELD(callback_type),
        .argument = "TYPE",
        .help = "submit a task of this type for each of these events; \"\": none; turns batches on"},
    {.name = "entry",
        .type = OPTION_TEXT,
        FIELD(entry),
        .argument = "TYPE",
        .help = "run a task of this type before the first of a batch; \"\": none; turns batches on"},
    {.name = "exit",
        .type = OPTION_TEXT,
        FIELD(exit),
        .argument = "TYPE",
        .help = "run a task of this type after the last of a batch; \"\": none; turns batches on"},
    {.name = "keep",
        .type = OPTION_LIST,
        FIELD(keep),
        .argument = "OUTCOME=DAYS[,…]",
        .help = "retention by outcome: completed=30d, dead=90d, cancelled=default"},
    {.name = NULL},
};

static const struct option_table table = {
    .program = "reeve queue set",
    .usage = "NAME [OPTION]... [--json]",
    .summary = "Changes settings of a queue; the others stay. They apply to tasks, batches and workers from then "
               "on. `reeve queue describe NAME` shows them.",
    .epilogue = "Examples: reeve queue set mail --retry-limit 5 --backoff list:1m,5m,30m,2h\n"
                "          reeve queue set night --autostart no --waiting 10s --resting 5s\n"
                "          reeve queue set mail --keep completed=7d,dead=90d",
    .specs = specs,
};

/* The settings to change, and their fields. */
struct change {
	struct reeve_queue_settings settings;
	unsigned fields;
	struct backoff backoff;
	char secret[1024];
};

static bool take_flag(const char *name, const char *text, bool *value, unsigned field, struct change *change,
    struct reeve_error *error)
{
	if (!text)
		return true;
	change->fields |= field;
	return flag_parse(text, value) ||
	       error_set(error, STATUS(INVALID_ARGUMENT), "--%s: \"%s\" is neither yes nor no", name, text);
}

static void take_text(const char *text, const char **value, unsigned field, struct change *change)
{
	if (!text)
		return;
	*value = text;
	change->fields |= field;
}

static void take_number(int64_t given, int64_t *value, unsigned field, struct change *change)
{
	if (given == NOT_GIVEN)
		return;
	*value = given;
	change->fields |= field;
}

static bool take_backoff(const struct set_options *options, struct change *change, struct reeve_error *error)
{
	struct reeve_error why = {0};

	if (!options->backoff)
		return options->jitter == NOT_GIVEN || error_set(error, STATUS(INVALID_ARGUMENT), "--jitter needs a --backoff");
	change->fields |= REEVE_QUEUE_RETRY;
	if (strcmp(options->backoff, "default") == 0 && options->jitter == NOT_GIVEN)
		return true;
	if (!backoff_parse(&change->backoff, options->backoff, options->jitter, &why))
		return error_set(error, STATUS(INVALID_ARGUMENT), "--backoff: %s", why.message);
	change->settings.retry = change->backoff.policy;
	return true;
}

static bool take_secret(const char *path, struct change *change, struct reeve_error *error)
{
	FILE *file;

	if (!path)
		return true;
	change->fields |= REEVE_QUEUE_CALLBACK_SECRET;
	if (!*path)
		return true;
	file = fopen(path, "re");
	if (!file || !fgets(change->secret, sizeof change->secret, file)) {
		if (file)
			fclose(file);
		return error_set(error, STATUS(INVALID_ARGUMENT), "--callback-secret-file: %s cannot be read, or is empty", path);
	}
	fclose(file);
	change->secret[strcspn(change->secret, "\r\n")] = '\0';
	change->settings.callback_secret = change->secret;
	return *change->secret || error_set(error, STATUS(INVALID_ARGUMENT),
	                              "--callback-secret-file: the first line of %s is empty", path);
}

/* Parses one "dead=90d". */
static bool take_kept(const char *text, struct change *change, struct reeve_error *error)
{
	const struct {
		const char *outcome;
		int64_t *ms;
		unsigned field;
	} outcomes[] = {
	    {"completed=", &change->settings.keep_completed_ms, REEVE_QUEUE_KEEP_COMPLETED},
	    {"dead=", &change->settings.keep_dead_ms, REEVE_QUEUE_KEEP_DEAD},
	    {"cancelled=", &change->settings.keep_cancelled_ms, REEVE_QUEUE_KEEP_CANCELLED},
	};

	for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
		size_t length = strlen(outcomes[i].outcome);

		if (strncmp(text, outcomes[i].outcome, length) != 0)
			continue;
		change->fields |= outcomes[i].field;
		if (strcmp(text + length, "default") == 0)
			return true;
		if (duration_parse(text + length, outcomes[i].ms) && *outcomes[i].ms > 0 && *outcomes[i].ms % DAY_MS == 0)
			return true;
		return error_set(error, STATUS(INVALID_ARGUMENT), "--keep: \"%s\" is not in whole days, like %s30d", text,
		    outcomes[i].outcome);
	}
	return error_set(error, STATUS(INVALID_ARGUMENT),
	    "--keep: \"%s\" is not like completed=30d, dead=90d or cancelled=default", text);
}

static bool take_keeping(const struct option_list *list, struct change *change, struct reeve_error *error)
{
	for (size_t i = 0; i < list->count; i++)
		if (!take_kept(list->items[i], change, error))
			return false;
	return true;
}

static bool take_options(const struct set_options *options, struct change *change, struct reeve_error *error)
{
	struct reeve_queue_settings *s = &change->settings;
	int64_t retry_limit = 0;

	take_number(options->retry_limit, &retry_limit, REEVE_QUEUE_RETRY_LIMIT, change);
	s->retry_limit = (int32_t)retry_limit;
	take_number(options->resting_ms, &s->resting_ms, REEVE_QUEUE_RESTING, change);
	take_number(options->waiting_ms, &s->waiting_ms, REEVE_QUEUE_WAITING, change);
	take_text(options->callback, &s->callback_url, REEVE_QUEUE_CALLBACK_URL, change);
	take_text(options->callback_type, &s->callback_type, REEVE_QUEUE_CALLBACK_TYPE, change);
	take_text(options->entry, &s->entry_type, REEVE_QUEUE_ENTRY_TYPE, change);
	take_text(options->exit, &s->exit_type, REEVE_QUEUE_EXIT_TYPE, change);
	return take_backoff(options, change, error) && take_secret(options->secret_file, change, error) &&
	       take_flag("autostart", options->autostart, &s->autostart, REEVE_QUEUE_AUTOSTART, change, error) &&
	       take_flag("verbose", options->verbose, &s->verbose, REEVE_QUEUE_VERBOSE, change, error) &&
	       take_flag("batches", options->batches, &s->batches, REEVE_QUEUE_BATCHES, change, error) &&
	       take_flag("callback-tasks", options->callback_tasks, &s->callback_tasks, REEVE_QUEUE_CALLBACK_TASKS, change,
	           error) &&
	       take_keeping(&options->keep, change, error);
}

int queue_set(int argc, char **argv)
{
	struct set_options options = {
	    .retry_limit = NOT_GIVEN, .resting_ms = NOT_GIVEN, .waiting_ms = NOT_GIVEN, .jitter = NOT_GIVEN};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_error error = {0};
	struct reeve_client *client;
	struct change change = {0};
	const char *queue;
	int code;

	queue = command_named(&table, &options, &shared, "queue", argc, argv, &code);
	if (!queue)
		return code;
	if (!take_options(&options, &change, &error))
		return command_usage(&table, "%s", error.message);
	if (!change.fields)
		return command_usage(&table, "the setting is missing");
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	code = EXIT_OK;
	if (!reeve_queue_set(client, queue, &change.settings, change.fields, &failure))
		code = command_change_failed(&failure);
	command_disconnect(client);
	if (code != EXIT_OK)
		return code;
	return queue_print_settings(queue, &shared);
}
