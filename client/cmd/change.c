/*
 * `reeve cancel`, `reeve discard`, `reeve retry` and `reeve update`: changing any number of tasks, selected by ids or by
 * conditions.
 */
#include "client/cmd/command.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "client/cmd/where.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The tasks of one call: some ids, or conditions. */
struct selection {
	const int64_t *ids;
	size_t count;
	const struct reeve_where *where;
	bool dry_run;
};

/* Options that select tasks other than by ids: the first part of each command's options. */
struct selecting {
	const char *where;
	int64_t running_longer_ms;
	bool dry_run;
};

#define SELECTING_SPECS(options)                                                                                       \
	{.name = "where",                                                                                              \
	    .type = OPTION_TEXT,                                                                                       \
	    .offset = offsetof(options, selecting.where),                                                              \
	    .argument = "CONDITIONS",                                                                                  \
	    .help = "instead of ids: all tasks that match, such as 'status=dead type=mail error~timeout older=1h'"},    \
	    {.name = "running-longer",                                                                                 \
	        .type = OPTION_DURATION,                                                                               \
	        .offset = offsetof(options, selecting.running_longer_ms),                                              \
	        .min = 1,                                                                                              \
	        .max = INT64_C(3153600000000),                                                                         \
	        .argument = "DURATION",                                                                                \
	        .help = "instead of ids, or with --where: executing tasks whose attempt began this long ago or earlier"},\
	{                                                                                                              \
		.name = "dry-run", .type = OPTION_FLAG, .offset = offsetof(options, selecting.dry_run),                \
		.help = "with --where: change nothing, only show which tasks match"                                \
	}

/* A change to tasks. */
struct change {
	const struct option_table *table;
	/* Calls the library. */
	struct reeve_changes *(*call)(struct reeve_client *client, const struct selection *selection, void *arg,
	    struct reeve_failure *failure);
	void *arg;
	const char *done;      /* "cancelled", "told to start again": the tasks' state afterwards, for the counts */
	/* A task that already has this status counts as done although it was not changed; REEVE_TASK_ANY: none. */
	enum reeve_task_status wanted;
	bool json;
};

static const struct column columns[] = {
    {"ID", COLUMN_NUMBER}, {"STATUS", COLUMN_WORD}, {"CHANGED", COLUMN_WORD}, {"NOTE", COLUMN_TEXT}, {0}};

static void add_row(struct table *table, const struct reeve_change *task)
{
	table_number(table, task->id);
	table_coloured(table, reeve_task_status_name(task->status), terminal_status_colour(task->status));
	table_text(table, task->changed ? "yes" : "no");
	table_text(table, task->note);
}

/* Adds one answer to the output. Returns true if every task now is as requested. */
static bool take_changes(const struct change *change, const struct reeve_changes *changes, struct table *table)
{
	bool all = changes->n_not_found == 0;

	for (size_t i = 0; i < changes->count; i++) {
		const struct reeve_change *task = &changes->changes[i];

		all &= task->changed || !*task->note || (change->wanted && task->status == change->wanted);
		if (change->json)
			command_print_json(task->wire);
		else
			add_row(table, task);
	}
	for (size_t i = 0; i < changes->n_not_found; i++) {
		if (change->json)
			printf("{\"id\":%" PRId64 ",\"not_found\":true}\n", changes->not_found[i]);
		else
			command_log("there is no task %" PRId64, changes->not_found[i]);
	}
	return all;
}

/* Changes the tasks, REEVE_MAX_BATCH at a time. Returns the exit code: EXIT_REFUSED if any task was refused. */
static int change_tasks(struct reeve_client *client, const int64_t *ids, size_t count, const struct change *change)
{
	struct table *table = table_create(columns);
	struct reeve_failure failure = {0};
	int code = EXIT_OK;
	size_t n_rows = 0;

	for (size_t from = 0; from < count; from += REEVE_MAX_BATCH) {
		size_t n = count - from < REEVE_MAX_BATCH ? count - from : REEVE_MAX_BATCH;
		const struct selection selection = {ids + from, n, NULL, false};
		struct reeve_changes *changes = change->call(client, &selection, change->arg, &failure);

		if (!changes) {
			code = command_change_failed(&failure);
			/* If none of these tasks exists, those of the next call still may. */
			if (failure.code != REEVE_NOT_FOUND)
				break;
			continue;
		}
		if (!take_changes(change, changes, table))
			code = EXIT_REFUSED;
		n_rows += changes->count;
		reeve_changes_free(changes);
	}
	if (!change->json && n_rows > 0)
		table_print(table);
	table_destroy(table);
	return code;
}

enum { TOLD_MAX = 10 };

/* The progress of a change by conditions. */
struct progress_so_far {
	int64_t matched, changed;
	struct table *table; /* with --dry-run */
};

static void take_matching(
    const struct change *change, const struct reeve_changes *changes, bool dry_run, struct progress_so_far *so_far)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct reeve_change *task = &changes->changes[i];

		so_far->matched++;
		so_far->changed += task->changed;
		if (change->json) {
			command_print_json(task->wire);
		} else if (dry_run) {
			table_number(so_far->table, task->id);
			table_coloured(
			    so_far->table, reeve_task_status_name(task->status), terminal_status_colour(task->status));
		} else if (!task->changed && so_far->matched - so_far->changed <= TOLD_MAX) {
			command_log("task %" PRId64 " (%s): %s", task->id, reeve_task_status_name(task->status), task->note);
		}
	}
}

/* Prints the totals. Returns the exit code. */
static int sum_up(const struct change *change, const struct progress_so_far *so_far, bool dry_run)
{
	int64_t unchanged = so_far->matched - so_far->changed;

	if (so_far->matched == 0) {
		command_log("no task matches");
		return EXIT_REFUSED;
	}
	if (dry_run && !change->json)
		table_print(so_far->table);
	fflush(stdout); /* the messages below must follow the output, wherever both go */
	if (dry_run) {
		command_log("%" PRId64 " task%s would be %s", so_far->matched, so_far->matched == 1 ? "" : "s", change->done);
		return EXIT_OK;
	}
	if (!change->json)
		printf("%" PRId64 " task%s %s\n", so_far->changed, so_far->changed == 1 ? "" : "s", change->done);
	if (unchanged > 0)
		command_log("%" PRId64 " of those that match %s not changed", unchanged, unchanged == 1 ? "was" : "were");
	return unchanged > 0 ? EXIT_REFUSED : EXIT_OK;
}

/* Changes all tasks that match, a limited number per call. Returns the exit code. */
static int change_matching(
    struct reeve_client *client, const struct reeve_where *conditions, bool dry_run, const struct change *change)
{
	static const struct column matching_columns[] = {{"ID", COLUMN_NUMBER}, {"STATUS", COLUMN_WORD}, {0}};
	struct progress_so_far so_far = {.table = table_create(matching_columns)};
	struct reeve_where where = *conditions;
	const struct selection selection = {.where = &where, .dry_run = dry_run};
	struct reeve_failure failure = {0};
	int code = EXIT_OK;

	do {
		struct reeve_changes *changes = change->call(client, &selection, change->arg, &failure);

		if (!changes) {
			code = dry_run ? command_failed(&failure) : command_change_failed(&failure);
			if (so_far.changed > 0)
				command_log("%" PRId64 " task%s %s before that; the same command goes on with the rest",
				    so_far.changed, so_far.changed == 1 ? "" : "s", change->done);
			break;
		}
		take_matching(change, changes, dry_run, &so_far);
		where.after_id = changes->next_after_id;
		reeve_changes_free(changes);
	} while (where.after_id > 0);
	if (code == EXIT_OK)
		code = sum_up(change, &so_far, dry_run);
	table_destroy(so_far.table);
	return code;
}

static int run_matching(const struct shared_options *shared, const struct change *change,
    const struct selecting *selecting, int operands, char **argv)
{
	struct where where = {0};
	struct reeve_error error = {0};
	struct reeve_client *client;
	int code;

	if (operands > 0)
		return command_usage(change->table, "--where and --running-longer are instead of ids, and there is \"%s\"",
		    argv[1]);
	if (selecting->where && !where_parse(&where, selecting->where, &error)) {
		where_free(&where);
		return command_usage(change->table, "--where: %s", error.message);
	}
	if (selecting->running_longer_ms)
		where.conditions.running_longer_ms = selecting->running_longer_ms;
	client = command_connect_to_change(shared, &code);
	if (client)
		code = change_matching(client, &where.conditions, selecting->dry_run, change);
	command_disconnect(client);
	where_free(&where);
	return code;
}

/* Runs one of the four commands: connects, and changes the tasks selected by operands or conditions. */
static int run_change(const struct shared_options *shared, struct change *change, const struct selecting *selecting,
    int operands, char **argv)
{
	struct reeve_client *client;
	int64_t *ids;
	size_t count;
	int code;

	change->json = shared->json;
	if (selecting->where || selecting->running_longer_ms)
		return run_matching(shared, change, selecting, operands, argv);
	if (selecting->dry_run)
		return command_usage(change->table, "--dry-run needs --where");
	ids = command_ids(change->table, operands, argv, &count, &code);
	if (!ids)
		return code;
	client = command_connect_to_change(shared, &code);
	if (client)
		code = change_tasks(client, ids, count, change);
	command_disconnect(client);
	free(ids);
	return code;
}

/*
 * cancel and discard
 */

struct cancel_options {
	struct selecting selecting;
	const char *reason;
};

static const struct option_spec cancel_specs[] = {
    {.name = "reason",
        .type = OPTION_TEXT,
        .offset = offsetof(struct cancel_options, reason),
        .argument = "TEXT",
        .letter = 'r',
        .help = "reason, for the audit"},
    SELECTING_SPECS(struct cancel_options),
    {.name = NULL},
};

static const struct option_table cancel_table = {
    .program = "reeve cancel",
    .usage = "ID...|--where CONDITIONS [--reason TEXT] [--dry-run] [--json]",
    .summary = "Cancels tasks: waiting ones end at once, running ones get a command to stop.",
    .epilogue = "Examples:\n"
                "  reeve cancel 17 18 --reason 'sent by mistake'\n"
                "  reeve cancel --where 'queue=mail type=digest older=1d'",
    .specs = cancel_specs,
};

static struct reeve_changes *call_cancel(
    struct reeve_client *client, const struct selection *tasks, void *arg, struct reeve_failure *failure)
{
	const struct cancel_options *options = arg;

	if (tasks->where)
		return reeve_cancel_where(client, tasks->where, tasks->dry_run, options->reason, failure);
	return reeve_cancel(client, tasks->ids, tasks->count, options->reason, failure);
}

int command_cancel(int argc, char **argv)
{
	struct cancel_options options = {0};
	struct shared_options shared = {0};
	struct change change = {.table = &cancel_table,
	    .call = call_cancel,
	    .arg = &options,
	    .done = "cancelled or told to stop",
	    .wanted = REEVE_TASK_CANCELLED};
	int operands, code;

	if (!command_options(&cancel_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	return run_change(&shared, &change, &options.selecting, operands, argv);
}

static const struct option_spec discard_specs[] = {
    {.name = "reason",
        .type = OPTION_TEXT,
        .offset = offsetof(struct cancel_options, reason),
        .argument = "TEXT",
        .letter = 'r',
        .help = "reason: the tasks' error, also in the audit; if not set, \"discarded by request\""},
    SELECTING_SPECS(struct cancel_options),
    {.name = NULL},
};

static const struct option_table discard_table = {
    .program = "reeve discard",
    .usage = "ID...|--where CONDITIONS [--reason TEXT] [--dry-run] [--json]",
    .summary = "Ends tasks dead, with the error code \"discarded\": waiting ones at once, running ones when their "
               "workers have stopped them.",
    .epilogue = "Example: reeve discard 17 --reason 'it will never fit'",
    .specs = discard_specs,
};

static struct reeve_changes *call_discard(
    struct reeve_client *client, const struct selection *tasks, void *arg, struct reeve_failure *failure)
{
	const struct cancel_options *options = arg;

	if (tasks->where)
		return reeve_discard_where(client, tasks->where, tasks->dry_run, options->reason, failure);
	return reeve_discard(client, tasks->ids, tasks->count, options->reason, failure);
}

int command_discard(int argc, char **argv)
{
	struct cancel_options options = {0};
	struct shared_options shared = {0};
	struct change change = {.table = &discard_table,
	    .call = call_discard,
	    .arg = &options,
	    .done = "discarded or told to stop",
	    .wanted = REEVE_TASK_DEAD};
	int operands, code;

	if (!command_options(&discard_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	return run_change(&shared, &change, &options.selecting, operands, argv);
}

/*
 * retry
 */

struct retry_options {
	struct selecting selecting;
	bool executing;
};

static const struct option_spec retry_specs[] = {
    {.name = "executing",
        .type = OPTION_FLAG,
        .offset = offsetof(struct retry_options, executing),
        .help = "with ids: also executing tasks; their workers stop them, and they are queued again"},
    SELECTING_SPECS(struct retry_options),
    {.name = NULL},
};

static const struct option_table retry_table = {
    .program = "reeve retry",
    .usage = "ID... [--executing] | --where CONDITIONS [--running-longer DURATION] [--dry-run] [--json]",
    .summary = "Runs tasks again now: waiting ones become due, ended ones start over under the same id. --where "
               "selects failed, dead and cancelled tasks, unless it names other statuses; status=executing or "
               "--running-longer selects executing ones.",
    .epilogue = "Examples:\n"
                "  reeve retry 17\n"
                "  reeve retry --where 'status=dead queue=mail error~\"no route\"'\n"
                "  reeve retry --running-longer 1h",
    .specs = retry_specs,
};

static struct reeve_changes *call_retry(
    struct reeve_client *client, const struct selection *tasks, void *arg, struct reeve_failure *failure)
{
	const struct retry_options *options = arg;

	if (tasks->where)
		return reeve_retry_where(client, tasks->where, tasks->dry_run, failure);
	return (options->executing ? reeve_restart : reeve_retry)(client, tasks->ids, tasks->count, failure);
}

int command_retry(int argc, char **argv)
{
	struct retry_options options = {0};
	struct shared_options shared = {0};
	struct change change = {.table = &retry_table, .call = call_retry, .arg = &options, .done = "started again"};
	int operands, code;

	if (!command_options(&retry_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (options.executing && (options.selecting.where || options.selecting.running_longer_ms))
		return command_usage(&retry_table, "--executing needs ids; with --where use status=executing");
	return run_change(&shared, &change, &options.selecting, operands, argv);
}

/*
 * update
 */

struct update_options {
	struct selecting selecting;
	int64_t priority;
	int64_t at_us;
	int64_t delay_ms;
	int64_t max_attempts;
};

#define NOT_GIVEN INT64_MIN

static const struct option_spec update_specs[] = {
    {.name = "priority",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct update_options, priority),
        .min = -1000000,
        .max = 1000000,
        .argument = "N",
        .letter = 'p',
        .help = "the new priority; also of an executing task"},
    {.name = "at",
        .type = OPTION_TIME,
        .offset = offsetof(struct update_options, at_us),
        .argument = "TIME",
        .help = "time when it becomes due: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), +5m"},
    {.name = "run-at",
        .type = OPTION_TIME,
        .offset = offsetof(struct update_options, at_us),
        .argument = "TIME",
        .help = "same as --at"},
    {.name = "delay",
        .type = OPTION_DURATION,
        .offset = offsetof(struct update_options, delay_ms),
        .argument = "DURATION",
        .help = "time from now until it becomes due: 30s, 5m, 2h"},
    {.name = "max-attempts",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct update_options, max_attempts),
        .min = 1,
        .max = 10000,
        .argument = "N",
        .help = "maximum number of attempts; also of an executing task"},
    SELECTING_SPECS(struct update_options),
    {.name = NULL},
};

static const struct option_table update_table = {
    .program = "reeve update",
    .usage = "ID...|--where CONDITIONS [--priority N] [--at TIME | --delay DURATION] [--max-attempts N] [--dry-run] [--json]",
    .summary = "Changes tasks that have not ended. What you do not set stays as it is.",
    .epilogue = "Examples:\n"
                "  reeve update 17 --priority 10 --delay 1h\n"
                "  reeve update --where 'type=report status=queued' --run-at '2030-01-14 22:00'",
    .specs = update_specs,
};

static struct reeve_changes *call_update(
    struct reeve_client *client, const struct selection *tasks, void *arg, struct reeve_failure *failure)
{
	struct update_options *options = arg;
	struct reeve_update update = {
	    .set_priority = options->priority != NOT_GIVEN,
	    .priority = options->priority != NOT_GIVEN ? (int32_t)options->priority : 0,
	    .max_attempts = options->max_attempts != NOT_GIVEN ? (uint32_t)options->max_attempts : 0,
	};

	/* The delay counts from the first call, on the managers' clock. */
	if (!reeve_client_ready(client, failure))
		return NULL;
	if (options->at_us == NOT_GIVEN && options->delay_ms != NOT_GIVEN)
		options->at_us = reeve_client_now_us(client) + options->delay_ms * 1000;
	if (options->at_us != NOT_GIVEN)
		update.run_at_us = options->at_us;
	if (tasks->where)
		return reeve_update_where(client, tasks->where, tasks->dry_run, &update, failure);
	return reeve_update(client, tasks->ids, tasks->count, &update, failure);
}

int command_update(int argc, char **argv)
{
	struct update_options options = {
	    .priority = NOT_GIVEN, .at_us = NOT_GIVEN, .delay_ms = NOT_GIVEN, .max_attempts = NOT_GIVEN};
	struct shared_options shared = {0};
	struct change change = {.table = &update_table, .call = call_update, .arg = &options, .done = "changed"};
	int operands, code;

	if (!command_options(&update_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (options.at_us != NOT_GIVEN && options.delay_ms != NOT_GIVEN)
		return command_usage(&update_table, "--delay and --at cannot be combined");
	if (options.at_us != NOT_GIVEN && options.at_us <= 0)
		return command_usage(&update_table, "--at lies before 1970");
	if (options.priority == NOT_GIVEN && options.at_us == NOT_GIVEN && options.delay_ms == NOT_GIVEN &&
	    options.max_attempts == NOT_GIVEN)
		return command_usage(&update_table, "the change is missing; use --priority, --delay or another option");
	return run_change(&shared, &change, &options.selecting, operands, argv);
}
