/* `reeve schedule add` and `edit`, with the same options: those of a submit, and the times. */
#include "client/cmd/interrupts.h"
#include "client/cmd/schedule.h"
#include "client/cmd/task_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MAX_MS (INT64_C(3650) * 24 * 3600 * 1000)

struct schedule_options {
	struct task_options task;
	const char *cron, *zone, *catch_up, *concurrency_policy, *queue_action;
	int64_t every_ms, start_us;
	bool manual;
};

#define FIELD(field) .offset = offsetof(struct schedule_options, field)

static const struct option_spec specs[] = {
    {.name = "cron",
        .type = OPTION_TEXT,
        FIELD(cron),
        .argument = "EXPR",
        .help = "cron expression: minute, hour, day of month, month, day of week, such as \"1 0 * * 1-5\""},
    {.name = "zone",
        .type = OPTION_TEXT,
        FIELD(zone),
        .argument = "TZ",
        .help = "time zone of the expression, such as Europe/Berlin; if not set, UTC"},
    {.name = "every",
        .type = OPTION_DURATION,
        FIELD(every_ms),
        .min = 100,
        .max = EVERY_MAX_MS,
        .argument = "DURATION",
        .help = "interval between runs"},
    {.name = "start",
        .type = OPTION_TIME,
        FIELD(start_us),
        .argument = "TIME",
        .help =
            "time from which the interval counts, and the first run if it is in the future; if not set, now"},
    {.name = "manual", .type = OPTION_FLAG, FIELD(manual), .help = "run only by `reeve schedule run`"},
    {.name = "catch-up",
        .type = OPTION_TEXT,
        FIELD(catch_up),
        .argument = "skip|one|all:N",
        .help =
            "which missed runs to make up for, when no manager was there: none, the latest, or the latest N (1 to "
            "1000); if not set, one"},
    {.name = "concurrency-policy",
        .type = OPTION_TEXT,
        FIELD(concurrency_policy),
        .argument = "allow|forbid|queue",
        .help =
            "if the task of the previous run has not ended: one at the same time, no run, or one after it; if not "
            "set, queue"},
    {.name = "queue-action",
        .type = OPTION_TEXT,
        FIELD(queue_action),
        .argument = "start|stop|pause|resume",
        .help = "instead of a task: an action on the queue that --queue names"},
    TASK_OPTION_SPECS_BUT(struct schedule_options, task, NULL, NULL),
    {.name = NULL},
};

static const struct option_table add_table = {
    .program = "reeve schedule add",
    .usage =
        "NAME --cron EXPR [--zone TZ] | --every DURATION [--start TIME] | --manual  TYPE|--pipeline NAME [DETAILS|-] "
        "[OPTION]...",
    .summary = "Adds a schedule, which submits a task of TYPE repeatedly, with any option of `reeve submit` "
               "(except --at and --version); with --queue-action it acts on a queue instead. A --key can contain "
               "{name}, {date} and {time}. If not set, it is {name}:{date} for a cron expression with one minute "
               "and one hour, else {name}:{time}.",
    .epilogue =
        "Examples:\n"
        "  reeve schedule add nightly --cron '1 0 * * *' --zone Europe/Berlin report\n"
        "  reeve schedule add poll --every 30s fetch --concurrency-policy forbid\n"
        "  reeve schedule add close --cron '0 8 * * *' --queue-action stop --queue night\n"
        "  reeve schedule add cleanup --manual tidy",
    .specs = specs,
};

static const struct option_table edit_table = {
    .program = "reeve schedule edit",
    .usage = "NAME [TYPE [DETAILS|-]] [OPTION]...",
    .summary = "Changes the given parts of a schedule. A new cron expression, zone or interval counts from now "
               "on. A paused schedule stays paused.",
    .epilogue = "Examples:\n"
                "  reeve schedule edit nightly --cron '30 0 * * *'\n"
                "  reeve schedule edit nightly --priority 0 --catch-up all:7\n"
                "  reeve schedule edit nightly report '{\"days\":2}'",
    .specs = specs,
};

/* The definition to send. */
struct definition {
	struct reeve_schedule_spec spec;
	Reeve__V1__TaskSpec task;
	unsigned fields; /* those that were set */
	char *details;   /* from standard input, or NULL */
};

/* The fields of a task, which a definition with an action on a queue lacks. */
static const unsigned task_fields = ~0U << 9;

static bool wrong(struct reeve_error *error, const char *help)
{
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s", help);
}

/*
 * times
 */

static bool take_catch_up(struct definition *d, const char *text, struct reeve_error *error)
{
	char *end;
	long most;

	if (!text)
		return true;
	d->fields |= REEVE_SCHEDULE_MISSED;
	if (strcmp(text, "skip") == 0) {
		d->spec.catch_up = REEVE_CATCH_UP_SKIP;
	} else if (strcmp(text, "one") == 0) {
		d->spec.catch_up = REEVE_CATCH_UP_ONE;
	} else {
		errno = 0;
		most =
		    strncmp(text, "all:", 4) == 0 && text[4] >= '0' && text[4] <= '9' ? strtol(text + 4, &end, 10) : 0;
		if (most < 1 || most > 1000 || errno || *end)
			return error_set(error, STATUS(INVALID_ARGUMENT),
			    "--catch-up: \"%.60s\" is invalid; it takes skip, one or all:N, N from 1 to 1000", text);
		d->spec.catch_up = REEVE_CATCH_UP_ALL;
		d->spec.max_catch_up = (uint32_t)most;
	}
	return true;
}

/* Returns the number of a word in a list, from 1; 0: it is not in the list. */
static int word_number(const char *const *words, const char *text)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], text) == 0)
			return i + 1;
	return 0;
}

static bool take_concurrency_policy(struct definition *d, const char *text, struct reeve_error *error)
{
	static const char *const words[] = {"allow", "forbid", "queue", NULL};

	if (!text)
		return true;
	d->fields |= REEVE_SCHEDULE_OVERLAP;
	d->spec.concurrency_policy = (enum reeve_concurrency_policy)word_number(words, text);
	return d->spec.concurrency_policy || error_set(error, STATUS(INVALID_ARGUMENT),
	                              "--concurrency-policy: \"%.60s\" is invalid; it takes allow, forbid or queue", text);
}

static bool take_when(struct definition *d, const struct schedule_options *o, struct reeve_error *error)
{
	int ways = (o->cron != NULL) + (o->every_ms != 0) + o->manual;

	if (ways > 1)
		return wrong(error, "--cron, --every and --manual cannot be combined");
	if (o->cron && !*o->cron)
		return wrong(error, "--cron is empty");
	if (o->zone && !*o->zone)
		return wrong(error, "--zone is empty");
	if (o->cron)
		d->fields |= REEVE_SCHEDULE_CRON;
	if (o->every_ms)
		d->fields |= REEVE_SCHEDULE_EVERY;
	if (o->manual)
		d->fields |= REEVE_SCHEDULE_MANUAL;
	if (o->zone)
		d->fields |= REEVE_SCHEDULE_ZONE;
	if (o->start_us != NOT_GIVEN)
		d->fields |= REEVE_SCHEDULE_START;
	if (o->start_us != NOT_GIVEN && o->start_us <= 0)
		return wrong(error, "--start lies before 1970");
	if (o->start_us != NOT_GIVEN && (o->cron || o->manual))
		return wrong(error, "--start is for --every");
	d->spec.cron = o->cron;
	d->spec.zone = o->zone;
	d->spec.every_ms = o->every_ms;
	d->spec.start_us = o->start_us != NOT_GIVEN ? o->start_us : 0;
	d->spec.manual = o->manual;
	return take_catch_up(d, o->catch_up, error) && take_concurrency_policy(d, o->concurrency_policy, error);
}

/*
 * task or action
 */

static void note_task_fields(struct definition *d, const struct task_options *o)
{
	const struct {
		bool given;
		unsigned field;
	} all[] = {
	    {o->queue, REEVE_SCHEDULE_TASK_QUEUE},
	    {o->priority != NOT_GIVEN, REEVE_SCHEDULE_TASK_PRIORITY},
	    {o->delay_ms != NOT_GIVEN, REEVE_SCHEDULE_TASK_DELAY},
	    {o->key, REEVE_SCHEDULE_TASK_KEY},
	    {o->key_ttl_ms != NOT_GIVEN, REEVE_SCHEDULE_TASK_KEY_TTL},
	    {o->max_attempts != NOT_GIVEN || o->retry_limit != NOT_GIVEN, REEVE_SCHEDULE_TASK_MAX_ATTEMPTS},
	    {o->timeout_ms != NOT_GIVEN, REEVE_SCHEDULE_TASK_TIMEOUT},
	    {task_options_retry_given(o), REEVE_SCHEDULE_TASK_RETRY},
	    {o->source, REEVE_SCHEDULE_TASK_SOURCE},
	    {o->batch != NOT_GIVEN, REEVE_SCHEDULE_TASK_BATCH},
	    {o->pipeline, REEVE_SCHEDULE_TASK_PIPELINE},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].given)
			d->fields |= all[i].field;
}

static bool take_task(
    struct definition *d, struct schedule_options *o, int operands, char **argv, struct reeve_error *error)
{
	const char *problem = task_options_problem(&o->task);
	int details_at = o->task.pipeline ? 2 : 3;
	struct reeve_error growth = {0};

	if (problem)
		return wrong(error, problem);
	if (o->task.at_us != NOT_GIVEN)
		return wrong(error, "--at cannot be used here: the schedule sets the time; use --delay");
	if (o->task.version != NOT_GIVEN)
		return wrong(error, "--version cannot be used here: each run has its own key");
	if (!task_options_growth(&o->task, &growth))
		return error_set(error, STATUS(INVALID_ARGUMENT), "--backoff: %s", growth.message);
	note_task_fields(d, &o->task);
	d->task = task_options_spec(&o->task, operands > 1 && !o->task.pipeline ? argv[2] : NULL);
	if (d->task.type)
		d->fields |= REEVE_SCHEDULE_TASK_TYPE;
	if (operands > details_at - 1) {
		d->fields |= REEVE_SCHEDULE_TASK_DETAILS;
		d->task.details = argv[details_at];
	}
	if (d->fields & task_fields)
		d->spec.task = &d->task;
	return true;
}

/* Sets the action from --queue-action; then --queue is its queue. */
static bool take_action(struct definition *d, const struct schedule_options *o, struct reeve_error *error)
{
	static const char *const words[] = {"start", "stop", "pause", "resume", NULL};

	if (!o->queue_action)
		return true;
	d->spec.queue_action = (enum reeve_queue_action)word_number(words, o->queue_action);
	if (!d->spec.queue_action)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "--queue-action: \"%.60s\" is invalid; it takes start, stop, pause or resume", o->queue_action);
	if (d->fields & REEVE_SCHEDULE_TASK_TYPE)
		return wrong(error, "--queue-action and a TYPE cannot be combined");
	if (d->fields & task_fields & ~(unsigned)REEVE_SCHEDULE_TASK_QUEUE)
		return wrong(error, "--queue-action takes no options of a task but --queue");
	d->fields |= REEVE_SCHEDULE_QUEUE_ACTION;
	if (o->task.queue)
		d->fields = (d->fields & ~(unsigned)REEVE_SCHEDULE_TASK_QUEUE) | REEVE_SCHEDULE_ACTION_QUEUE;
	d->spec.action_queue = o->task.queue;
	d->spec.task = NULL;
	return true;
}

static bool take_definition(
    struct definition *d, struct schedule_options *o, int operands, char **argv, struct reeve_error *error)
{
	if (operands < 1)
		return wrong(error, "what is it called?");
	if (o->task.pipeline && operands > 2)
		return wrong(
		    error, "with a --pipeline no TYPE is given, only NAME and DETAILS (with blanks they need quotes)");
	if (operands > 3)
		return wrong(error, "NAME, one TYPE and one DETAILS are taken (details with blanks need quotes)");
	if (!*argv[1])
		return wrong(error, "its name is empty");
	d->spec.name = argv[1];
	return take_when(d, o, error) && take_task(d, o, operands, argv, error) && take_action(d, o, error);
}

/* Returns what a new definition lacks, or NULL; an edit need not have it. */
static const char *addition_problem(const struct definition *d)
{
	const struct reeve_schedule_spec *s = &d->spec;

	if (!s->cron && !s->every_ms && !s->manual)
		return "when? (--cron, --every or --manual)";
	if (s->start_us && !s->every_ms)
		return "--start is for --every";
	if (s->queue_action && !s->action_queue)
		return "--queue-action needs a --queue";
	if (!s->queue_action && !(d->fields & (REEVE_SCHEDULE_TASK_TYPE | REEVE_SCHEDULE_TASK_PIPELINE)))
		return "the task's TYPE is missing (or --pipeline, or --queue-action)";
	return NULL;
}

/*
 * sending
 */

/* Sets the task's queue to its batch's: all tasks of a batch are of one queue. Returns false with *code set after an
 * error message. */
static bool find_batch_queue(
    struct reeve_client *client, struct definition *d, struct reeve_batch_report **batch, int *code)
{
	struct reeve_failure failure = {0};

	if (!d->spec.task || !d->task.batch_id || d->task.queue)
		return true;
	*batch = reeve_batch_report(client, d->task.batch_id, 0, 1, &failure);
	if (!*batch) {
		*code = command_failed(&failure);
		return false;
	}
	d->task.queue = (*batch)->batch.queue;
	d->fields |= REEVE_SCHEDULE_TASK_QUEUE;
	return true;
}

static bool read_details(struct reeve_client *client, struct definition *d, int *code)
{
	if (!d->task.details || strcmp(d->task.details, "-") != 0)
		return true;
	d->details = task_details_read(client, code);
	d->task.details = d->details;
	return d->details != NULL;
}

static int send(struct reeve_client *client, struct definition *d, bool is_new, bool json)
{
	struct reeve_batch_report *batch = NULL;
	struct reeve_schedule *schedule = NULL;
	struct reeve_failure failure = {0};
	int code = EXIT_OK;

	if (read_details(client, d, &code) && find_batch_queue(client, d, &batch, &code)) {
		interrupts_watch(client, false); /* not while details are being read */
		schedule = is_new ? reeve_schedule_add(client, &d->spec, NULL, &failure)
		                  : reeve_schedule_edit(client, &d->spec, d->fields, &failure);
		if (schedule)
			schedule_print(schedule, json);
		else
			code = command_change_failed(&failure);
	}
	reeve_schedule_free(schedule);
	reeve_batch_report_free(batch);
	return code;
}

static int define(const struct option_table *table, bool is_new, int argc, char **argv)
{
	struct schedule_options options = {.task = task_options_none, .start_us = NOT_GIVEN};
	struct shared_options shared = {0};
	struct definition definition = {0};
	struct reeve_error error = {0};
	struct reeve_client *client;
	const char *problem;
	int operands, code;

	if (!command_options(table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (!take_definition(&definition, &options, operands, argv, &error))
		return command_usage(table, "%s", error.message);
	problem = is_new ? addition_problem(&definition) : definition.fields ? NULL : "the change is missing";
	if (problem)
		return command_usage(table, "%s", problem);
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = send(client, &definition, is_new, shared.json);
	free(definition.details);
	command_disconnect(client);
	return code;
}

int schedule_add(int argc, char **argv)
{
	return define(&add_table, true, argc, argv);
}

int schedule_edit(int argc, char **argv)
{
	return define(&edit_table, false, argc, argv);
}
