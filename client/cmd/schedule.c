/* `reeve schedule list|show|runs|pause|resume|remove|run`; schedule_add.c has add and edit. */
#include "client/cmd/schedule.h"

#include "client/cmd/backoff.h"
#include "client/cmd/call.h"
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"
#include "common/limits.h"

#include <inttypes.h>
#include <jansson.h>
#include <reeve/v1/schedule_calls.h>
#include <stdlib.h>
#include <string.h>

#define ACTION(name) REEVE__V1__SCHEDULE_ACTION__SCHEDULE_ACTION_##name

enum { WIDTH = 9 };

/*
 * one schedule as text
 */

/* "1 0 * * *", "every 30s" or "manual" */
static void show_when(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Schedule *schedule = message;
	char span[64];

	(void)now_us;
	if (*schedule->cron)
		out->value = schedule->cron;
	else if (schedule->every_ms)
		snprintf(out->text, sizeof out->text, "every %s", duration_format(schedule->every_ms, span, sizeof span));
	else
		out->value = "manual";
}

/* "report", "pipeline images" or "stop queue night" */
static void show_what(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Schedule *schedule = message;
	struct shown action;

	(void)now_us;
	fields_word(schedule, "queue_action", &action);
	if (!schedule->task)
		snprintf(out->text, sizeof out->text, "%s queue %s", action.value, schedule->action_queue);
	else if (*schedule->task->pipeline)
		snprintf(out->text, sizeof out->text, "pipeline %s", schedule->task->pipeline);
	else
		out->value = schedule->task->type;
}

static void show_action(const void *message, int64_t now_us, struct shown *out)
{
	if (!((const Reeve__V1__Schedule *)message)->task)
		show_what(message, now_us, out);
}

static void show_queue(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__TaskSpec *task = ((const Reeve__V1__Schedule *)message)->task;

	(void)now_us;
	if (task)
		out->value = *task->queue ? task->queue : "default";
}

static void show_backoff(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__TaskSpec *task = ((const Reeve__V1__Schedule *)message)->task;

	(void)now_us;
	if (task && task->retry)
		out->value = out->owned = backoff_format(task->retry);
}

static void show_jitter(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__TaskSpec *task = ((const Reeve__V1__Schedule *)message)->task;
	int32_t percent = task && task->retry ? task->retry->jitter_percent : 0;

	(void)now_us;
	if (percent && percent != DEFAULT_JITTER_PERCENT)
		snprintf(out->text, sizeof out->text, "%d %%", percent < 0 ? 0 : (int)percent);
}

static void show_catch_up(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Schedule *schedule = message;
	struct shown word;

	(void)now_us;
	fields_word(schedule, "catch_up", &word);
	snprintf(
	    out->text, sizeof out->text, schedule->max_catch_up ? "%s:%" PRIu32 : "%s", word.value, schedule->max_catch_up);
}

static void show_state(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Schedule *schedule = message;

	(void)now_us;
	if (schedule->paused)
		out->value = "paused";
	else if (schedule->waits_for)
		snprintf(out->text, sizeof out->text, "waits for task %" PRId64, schedule->waits_for);
}

static void show_last(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Schedule *schedule = message;
	char at[40], task[40] = "";
	struct shown outcome;

	(void)now_us;
	if (!schedule->last_us)
		return;
	fields_word(schedule, "last_outcome", &outcome);
	if (schedule->last_task_id)
		snprintf(task, sizeof task, ", task %" PRId64, schedule->last_task_id);
	snprintf(out->text, sizeof out->text, "%s, %s%s%s", terminal_time(schedule->last_us, at, sizeof at), outcome.value,
	    task, schedule->last_scheduled_us ? "" : ", manual");
}

static void show_changed(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Schedule *schedule = message;

	(void)now_us;
	if (schedule->updated_us && schedule->updated_us != schedule->created_us)
		terminal_time(schedule->updated_us, out->text, sizeof out->text);
}

static const struct column lines[] = {
    {"schedule", .field = "name"},
    {"when", .show = show_when},
    {"zone", .field = "zone"},
    {"start", .field = "start_us", .as = AS_TIME},
    {"queue", .show = show_queue},
    {"type", .field = "task.type"},
    {"pipeline", .field = "task.pipeline"},
    {"details", .field = "task.details"},
    {"priority", .field = "task.priority", .as = AS_NUMBER},
    {"delay", .field = "task.delay_ms", .as = AS_SPAN},
    {"key", .field = "task.key"},
    {"key ttl", .field = "task.key_ttl_ms", .as = AS_SPAN},
    {"attempts", .field = "task.max_attempts", .as = AS_NUMBER},
    {"timeout", .field = "task.timeout_ms", .as = AS_SPAN},
    {"backoff", .show = show_backoff},
    {"jitter", .show = show_jitter},
    {"as", .field = "task.source"},
    {"batch", .field = "task.batch_id", .as = AS_NUMBER},
    {"does", .show = show_action},
    {"catch-up", .show = show_catch_up},
    {"concurrency policy", .field = "concurrency_policy"},
    {"state", .show = show_state},
    {"next", .field = "next_us", .as = AS_TIME},
    {"last", .show = show_last},
    {"source", .field = "source"},
    {"added", .field = "created_us", .as = AS_TIME},
    {"changed", .show = show_changed},
    {0},
};

void schedule_print(const Reeve__V1__Schedule *schedule, int64_t now_us)
{
	char text[40];

	fields_lines(WIDTH, lines, schedule, now_us);
	for (size_t i = 0; i < schedule->n_scheduled_us; i++)
		fields_line(WIDTH, i ? "" : "scheduled", terminal_time(schedule->scheduled_us[i], text, sizeof text));
}

/*
 * show, list, runs
 */

static void print_schedule(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	(void)call;
	(void)request;
	schedule_print(answer, now_us);
}

static const struct option_spec show_specs[] = {
    OPT_INTEGER(0, "next", OPTION_FIELD("preview"), 1, LIMIT_PREVIEW, "N", "show the next N scheduled times"),
    {0},
};

const struct call schedule_show = {
    .options = {.program = "reeve schedule show",
        .usage = "NAME [--next N] [--json]",
        .summary = "Shows a schedule and its next run.",
        .epilogue = "Example: reeve schedule show nightly --next 5",
        .specs = show_specs},
    .operand = "name",
    .noun = "schedule",
    .list = {.service = &reeve__v1__schedule_service__descriptor, .method = "Show"},
    .part = "schedule",
    .print = print_schedule,
};

static const struct column list_columns[] = {
    COL_TEXT("NAME", "name"),
    COL_TEXT("WHEN", NULL, .show = show_when),
    COL_WORD("ZONE", "zone"),
    COL_TEXT("DOES", NULL, .show = show_what),
    COL_WORD("NEXT", "next_us", .as = AS_TIME),
    COL_WORD("LAST", "last_us", .as = AS_TIME),
    COL_WORD("OUTCOME", "last_outcome"),
    COL_TEXT("STATE", NULL, .show = show_state),
    {0},
};

const struct call schedule_list = {
    .options = {.program = "reeve schedule list",
        .usage = "[--json]",
        .summary = "Lists schedules by name: their times and zones, what they do, their next run, and the outcome of "
                   "the last.",
        .epilogue = "Example: reeve schedule list --json | jq -r 'select(.paused).name'"},
    .list = {.service = &reeve__v1__schedule_service__descriptor,
        .method = "List",
        .items = "schedules",
        .unsent = "task.details",
        .columns = list_columns},
};

static const struct option_spec runs_specs[] = {
    CALL_LIMIT("runs"),
    OPT_INTEGER(
        0, "before", OPTION_FIELD("before_id"), 1, INT64_MAX, "ID", "only runs with ids below this one, for paging"),
    {0},
};

static const struct column runs_columns[] = {
    COL_NUMBER("ID", "id"),
    COL_WORD("SCHEDULED", "scheduled_us", .as = AS_TIME, .otherwise = "manual"),
    COL_WORD("FIRED", "at_us", .as = AS_TIME),
    COL_WORD("OUTCOME", "outcome"),
    COL_NUMBER("TASK", "task_id", .as = AS_NUMBER),
    COL_WORD("STATUS", "task_status", .as = AS_STATE),
    COL_TEXT("BY", "actor"),
    COL_TEXT("NOTE", "note"),
    {0},
};

const struct call schedule_runs = {
    .options = {.program = "reeve schedule runs",
        .usage = "NAME [--limit N] [--before ID] [--json]",
        .summary = "Lists the runs of a schedule, newest first: when they were scheduled and when they fired, and the "
                   "task with its current status. It also lists those of a removed schedule.",
        .epilogue = "Example: reeve schedule runs nightly --limit 7",
        .specs = runs_specs},
    .operand = "name",
    .noun = "schedule",
    .list = {.service = &reeve__v1__schedule_service__descriptor,
        .method = "Runs",
        .items = "runs",
        .columns = runs_columns},
};

/*
 * pause, resume, remove, run
 */

/* "nightly: paused" */
static void print_controlled(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	(void)answer;
	(void)now_us;
	terminal_write_clean(stdout, ((const Reeve__V1__ControlScheduleRequest *)request)->name);
	printf(": %s\n", call->done);
}

/* {"name":…,"done":…} */
static void print_controlled_json(const struct call *call, const void *request, const void *answer)
{
	const char *name = ((const Reeve__V1__ControlScheduleRequest *)request)->name;

	(void)answer;
	command_print_object(json_pack("{ss ss}", "name", name, "done", call->done));
}

#define CONTROL(verb, action, word, text)                                                                              \
	CALL_CONTROL(                                                                                                      \
	    "schedule", "name", "nightly", &reeve__v1__schedule_service__descriptor, verb, ACTION(action), word, text)

const struct call schedule_pause = CONTROL("pause", PAUSE, "paused",
    "Pauses a schedule: it does not run until it is resumed. The tasks that it has submitted go on.");

const struct call schedule_resume = CONTROL("resume", RESUME, "resumed",
    "Resumes a paused schedule. Its next run is computed from now; the runs it missed are not made up for.");

const struct call schedule_remove = CONTROL("remove", REMOVE, "removed",
    "Removes a schedule's definition. Its runs are still listed until they are old, and its tasks go on.");

static void print_run(const struct call *call, const void *request, const void *answer, int64_t now_us)
{
	const Reeve__V1__ScheduleRun *run = answer;
	struct shown outcome;

	(void)call;
	(void)request;
	(void)now_us;
	fields_word(run, "outcome", &outcome);
	if (run->task_id)
		printf("%" PRId64 "\n", run->task_id);
	if (strcmp(outcome.value, "submitted") != 0)
		command_log("%s%s%s", outcome.value, *run->note ? ": " : "", run->note);
}

const struct call schedule_run = {
    .options = {.program = "reeve schedule run",
        .usage = "NAME [--json]",
        .summary = "Runs a schedule now, in addition to its scheduled runs, even if it is paused, whatever its "
                   "--concurrency-policy, and prints the task's id. The task has its own key.",
        .epilogue = "Example: reeve wait $(reeve schedule run nightly)"},
    .operand = "name",
    .noun = "schedule",
    .changes = true,
    .list = {.service = &reeve__v1__schedule_service__descriptor, .method = "Run"},
    .part = "run",
    .print = print_run,
};
