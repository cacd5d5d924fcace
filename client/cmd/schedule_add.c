/* `reeve schedule add` and `edit`, with the same options: those of a submit, and the times. */
#include "client/cmd/command.h"
#include "client/cmd/interrupts.h"
#include "client/cmd/schedule.h"
#include "client/cmd/task_options.h"
#include "common/limits.h"

#include <errno.h>
#include <reeve/v1/schedule_calls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CATCH_UP(name) REEVE__V1__CATCH_UP_POLICY__CATCH_UP_POLICY_##name

struct schedule_options {
	struct option_message message; /* the schedule */
	struct task_options task;
	const char *catch_up;
};

static const struct option_spec specs[] = {
    OPT_NAME(0, "cron", OPTION_FIELD("cron"), "EXPR",
        "cron expression: minute, hour, day of month, month, day of week, such as \"1 0 * * 1-5\""),
    OPT_NAME(
        0, "zone", OPTION_FIELD("zone"), "TZ", "time zone of the expression, such as Europe/Berlin; if not set, UTC"),
    OPT_SPAN(
        0, "every", OPTION_FIELD("every_ms"), LIMIT_EVERY_MIN_MS, DAYS_MS(LIMIT_EVERY_DAYS), "interval between runs"),
    OPT_TIME(0, "start", OPTION_FIELD("start_us"),
        "time from which the interval counts, and the first run if it is in the future or --catch-up is set; if not set, now"),
    OPT_FLAG(0, "manual", OPTION_FIELD("manual"), "run only by `reeve schedule run`"),
    OPT_TEXT(0, "catch-up", OPTION_AT(struct schedule_options, catch_up), "skip|one|all:N",
        "which missed runs to make up for, when no manager was there: none, the latest, or the latest N (1 to " LIMIT_TEXT(
            LIMIT_CATCH_UP) "); if not set, one. With a --start in the past also those since then"),
    OPT_CHOICE(0, "concurrency-policy", OPTION_FIELD("concurrency_policy"), "allow|forbid|queue",
        "if the task of the previous run has not ended: one at the same time, no run, or one after it; if not set, queue"),
    OPT_CHOICE(0, "queue-action", OPTION_FIELD("queue_action"), "start|stop|pause|resume",
        "instead of a task: an action on the queue that --queue names"),
    TASK_OPTIONS(struct schedule_options, "task.", NULL, NULL),
    {0},
};

static const struct option_table add_table = {
    .program = "reeve schedule add",
    .usage =
        "NAME --cron EXPR [--zone TZ] | --every DURATION [--start TIME] | --manual  TYPE|--pipeline NAME [DETAILS|-] "
        "[OPTION]...",
    .summary = "Adds a schedule, which submits a task of TYPE repeatedly, with any option of `reeve submit` "
               "(except --at and --key-version); with --queue-action it acts on a queue instead. A --key can contain "
               "{name}, {date} and {time}. If not set, it is {name}:{date} for a cron expression with one minute "
               "and one hour, else {name}:{time}.",
    .epilogue = "Examples:\n"
                "  reeve schedule add nightly --cron '1 0 * * *' --zone Europe/Berlin report\n"
                "  reeve schedule add poll --every 30s fetch --concurrency-policy forbid\n"
                "  reeve schedule add daily --every 1d --start 2026-01-01 --catch-up all:7 report\n"
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
	Reeve__V1__Schedule schedule;
	Reeve__V1__TaskSpec task; /* if no option has created one */
	struct schedule_options options;
	const char *fields[OPTION_FIELDS]; /* those that are set, as an edit names them */
	size_t n_fields;
	char *details; /* from standard input, or NULL */
};

static bool wrong(struct reeve_error *error, const char *help)
{
	return error_set(error, STATUS(INVALID_ARGUMENT), "%s", help);
}

static bool is_set(const struct definition *d, const char *field)
{
	return option_is_set(&d->options.message, field);
}

static void note(struct definition *d, const char *field)
{
	option_note(&d->options.message, field);
}

/*
 * times
 */

static bool take_catch_up(struct definition *d, const char *text, struct reeve_error *error)
{
	Reeve__V1__Schedule *schedule = &d->schedule;
	char *end = NULL;
	long max = 0;

	if (!text)
		return true;
	note(d, "catch_up");
	errno = 0;
	if (strncmp(text, "all:", 4) == 0 && text[4] >= '0' && text[4] <= '9')
		max = strtol(text + 4, &end, 10);
	if (strcmp(text, "skip") == 0)
		schedule->catch_up = CATCH_UP(SKIP);
	else if (strcmp(text, "one") == 0)
		schedule->catch_up = CATCH_UP(ONE);
	else if (max < 1 || max > LIMIT_CATCH_UP || errno || *end)
		return error_set(error, STATUS(INVALID_ARGUMENT),
		    "--catch-up: \"%.60s\" is invalid; it takes skip, one or all:N, N from 1 to " LIMIT_TEXT(LIMIT_CATCH_UP),
		    text);
	else
		schedule->catch_up = CATCH_UP(ALL);
	schedule->max_catch_up = (uint32_t)max;
	return true;
}

static bool take_when(struct definition *d, struct reeve_error *error)
{
	if (is_set(d, "cron") + is_set(d, "every_ms") + d->schedule.manual > 1)
		return wrong(error, "--cron, --every and --manual cannot be combined");
	if (is_set(d, "start_us") && (is_set(d, "cron") || d->schedule.manual))
		return wrong(error, "--start needs --every");
	return take_catch_up(d, d->options.catch_up, error);
}

/*
 * task or action
 */

static bool take_task(struct definition *d, int operands, char **argv, struct reeve_error *error)
{
	bool has_pipeline = is_set(d, "task.pipeline");
	int details_at = has_pipeline ? 2 : 3;
	Reeve__V1__TaskSpec *task = d->schedule.task;

	if (is_set(d, "task.run_at_us"))
		return wrong(error, "--at cannot be used here: the schedule sets the time; use --delay");
	if (is_set(d, "task.version"))
		return wrong(error, "--key-version cannot be used here: each run has its own key");
	if (!task)
		task = &d->task;
	if (!task_options_complete(&d->options.message, "task.", &d->options.task, task, error))
		return false;
	if (d->options.task.backoff)
		note(d, "task.retry");
	if (d->options.task.retry_limit != NOT_GIVEN)
		note(d, "task.max_attempts");
	if (operands > 1 && !has_pipeline) {
		task->type = argv[2];
		note(d, "task.type");
	}
	if (operands >= details_at) {
		task->details = argv[details_at];
		note(d, "task.details");
	}
	return true;
}

/* The fields of `set` as an edit names them: the retry policy is one. */
static void name_fields(struct definition *d)
{
	const struct option_message *message = &d->options.message;
	bool has_retry = false;

	for (size_t i = 0; i < message->n_set; i++) {
		bool is_retry = strncmp(message->set[i], "task.retry", 10) == 0;

		if (!is_retry || !has_retry)
			d->fields[d->n_fields++] = is_retry ? "task.retry" : message->set[i];
		has_retry |= is_retry;
		if (strncmp(message->set[i], "task.", 5) == 0 && !d->schedule.task)
			d->schedule.task = &d->task;
	}
}

/* If there is a --queue-action, --queue names its queue. */
static bool take_action(struct definition *d, struct reeve_error *error)
{
	if (!is_set(d, "queue_action"))
		return true;
	if (is_set(d, "task.type"))
		return wrong(error, "--queue-action and a TYPE cannot be combined");
	for (size_t i = 0; i < d->n_fields; i++) {
		if (strncmp(d->fields[i], "task.", 5) != 0)
			continue;
		if (strcmp(d->fields[i], "task.queue") != 0)
			return wrong(error, "--queue-action takes no options of a task but --queue");
		d->fields[i] = "action_queue";
		d->schedule.action_queue = d->schedule.task->queue;
	}
	d->schedule.task = NULL;
	return true;
}

static bool take_definition(struct definition *d, int operands, char **argv, struct reeve_error *error)
{
	if (operands < 1)
		return wrong(error, "the schedule's NAME is missing");
	if (is_set(d, "task.pipeline") && operands > 2)
		return wrong(
		    error, "a TYPE cannot be combined with --pipeline: give NAME and DETAILS (quote details with blanks)");
	if (operands > 3)
		return wrong(error, "too many arguments: give NAME, TYPE and DETAILS (quote details with blanks)");
	if (!*argv[1])
		return wrong(error, "the schedule's NAME is empty");
	d->schedule.name = argv[1];
	if (!take_when(d, error) || !take_task(d, operands, argv, error))
		return false;
	name_fields(d);
	return take_action(d, error);
}

/* Returns what a new definition lacks, or NULL; an edit need not have it. */
static const char *addition_problem(const struct definition *d)
{
	const Reeve__V1__Schedule *s = &d->schedule;

	if (!is_set(d, "cron") && !s->every_ms && !s->manual)
		return "a schedule needs --cron, --every or --manual";
	if (s->start_us && !s->every_ms)
		return "--start needs --every";
	if (s->queue_action && !*s->action_queue)
		return "--queue-action needs a --queue";
	if (!s->queue_action && !is_set(d, "task.type") && !is_set(d, "task.pipeline"))
		return "the task's TYPE is missing (or --pipeline, or --queue-action)";
	return NULL;
}

/*
 * sending
 */

static bool read_details(struct reeve_client *client, struct definition *d, int *code)
{
	Reeve__V1__TaskSpec *task = d->schedule.task;

	if (!task || !is_set(d, "task.details") || strcmp(task->details, "-") != 0)
		return true;
	task->details = d->details = task_details_read(client, code);
	return d->details != NULL;
}

/* Checks the task before it is sent. An edit sends only a part of one: the check adds required fields that it lacks. */
static bool check_task(struct reeve_client *client, const struct definition *d, bool is_new, int *code)
{
	struct reeve_failure failure = {0};
	Reeve__V1__TaskSpec full;

	if (!d->schedule.task)
		return true;
	full = *d->schedule.task;
	if (!is_new && !is_set(d, "task.type") && !is_set(d, "task.pipeline"))
		full.type = "x";
	if (!is_new && !is_set(d, "task.key"))
		full.key = "x";
	/* The limit of details is known after the first contact. */
	if (reeve_client_ready(client, &failure) && reeve_check(client, &full, &failure))
		return true;
	*code = command_failed(&failure);
	return false;
}

/* Sends the definition. Returns the answer, whose schedule is *schedule. */
static void *call(struct reeve_client *client, struct definition *d, bool is_new, Reeve__V1__Schedule **schedule,
    struct reeve_failure *failure)
{
	Reeve__V1__EditScheduleRequest edit = {.schedule = &d->schedule, .n_fields = d->n_fields, .fields = d->fields};
	Reeve__V1__AddScheduleRequest addition = {.schedule = &d->schedule};

	if (is_new) {
		Reeve__V1__AddScheduleResponse *added = reeve_schedule_add(client, &addition, NULL, failure);

		*schedule = added ? added->schedule : NULL;
		return added;
	}
	Reeve__V1__EditScheduleResponse *edited = reeve_schedule_edit(client, &edit, NULL, failure);

	*schedule = edited ? edited->schedule : NULL;
	return edited;
}

static int send(struct reeve_client *client, struct definition *d, bool is_new, bool json)
{
	Reeve__V1__BatchReportResponse *batch = NULL;
	Reeve__V1__TaskSpec *task = d->schedule.task;
	struct reeve_failure failure = {0};
	Reeve__V1__Schedule *schedule;
	void *answer;
	int code = EXIT_OK;

	if (!read_details(client, d, &code))
		return code;
	if (task && task->batch_id && !is_set(d, "task.queue")) {
		/* All tasks of a batch are of one queue. */
		batch = task_options_batch(client, task->batch_id, &code);
		if (!batch)
			return code;
		task->queue = batch->batch->queue;
		d->fields[d->n_fields++] = "task.queue";
	}
	interrupts_watch(client, false); /* not while details are being read */
	if (check_task(client, d, is_new, &code)) {
		answer = call(client, d, is_new, &schedule, &failure);
		if (!answer)
			code = command_change_failed(&failure);
		else if (schedule && json)
			command_print_json(schedule);
		else if (schedule)
			schedule_print(schedule, reeve_client_now_us(client));
		reeve_free(answer);
	}
	reeve_free(batch);
	return code;
}

static int define(const struct option_table *table, bool is_new, int argc, char **argv)
{
	struct definition d = {.schedule = REEVE__V1__SCHEDULE__INIT, .task = REEVE__V1__TASK_SPEC__INIT};
	struct shared_options shared = {0};
	struct reeve_error error = {0};
	struct reeve_client *client;
	const char *problem;
	int operands, code;

	d.options = (struct schedule_options){.message.message = &d.schedule.base, .task.retry_limit = NOT_GIVEN};
	if (!command_options(table, &d.options, &shared, argc, argv, &operands, &code))
		return code;
	if (!take_definition(&d, operands, argv, &error))
		return command_usage(table, "%s", error.message);
	problem = is_new ? addition_problem(&d)
	    : d.n_fields ? NULL
	                 : "nothing is to be changed: give the options to change, or a TYPE";
	if (problem)
		return command_usage(table, "%s", problem);
	interrupts_hold();
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = send(client, &d, is_new, shared.json);
	free(d.details);
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
