/* `reeve cancel`, `reeve retry` and `reeve update`: changing tasks, any number of them at once. */
#include "client/cmd/command.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* What is to be done to each batch of ids. */
struct change {
	/* Calls the library. */
	struct reeve_changes *(*call)(struct reeve_client *client, const int64_t *ids, size_t count, const void *arg,
	    struct reeve_failure *failure);
	const void *arg;
	/* A task that already stands so is as it was wanted, though nothing was changed; REEVE_TASK_ANY: none. */
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

/* Takes one answer. Returns whether every task is now as it was wanted. */
static bool take_changes(const struct change *change, const struct reeve_changes *changes, struct table *table)
{
	bool all = changes->n_not_found == 0;

	for (size_t i = 0; i < changes->count; i++) {
		const struct reeve_change *task = &changes->changes[i];

		all &= task->changed || !*task->note || (change->wanted && task->status == change->wanted);
		if (change->json) {
			char *json = reeve_json(task->wire);

			puts(json);
			free(json);
		} else {
			add_row(table, task);
		}
	}
	for (size_t i = 0; i < changes->n_not_found; i++) {
		if (change->json)
			printf("{\"id\":%" PRId64 ",\"not_found\":true}\n", changes->not_found[i]);
		else
			command_say("there is no task %" PRId64, changes->not_found[i]);
	}
	return all;
}

/* Changes the tasks, batch by batch. Returns the exit code: that they were refused, if one of them was. */
static int change_tasks(struct reeve_client *client, const int64_t *ids, size_t count, const struct change *change)
{
	struct table *table = table_create(columns);
	struct reeve_failure failure = {0};
	int code = EXIT_OK;
	size_t n_rows = 0;

	for (size_t from = 0; from < count; from += REEVE_MAX_BATCH) {
		size_t n = count - from < REEVE_MAX_BATCH ? count - from : REEVE_MAX_BATCH;
		struct reeve_changes *changes = change->call(client, ids + from, n, change->arg, &failure);

		if (!changes) {
			code = command_failed(&failure);
			/* That none of these exists says nothing of the next batch. */
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

/* Runs one of the three: connects, and changes the tasks named by the operands. */
static int run_change(const struct option_table *table, const struct shared_options *shared, struct change *change,
    int operands, char **argv)
{
	struct reeve_client *client;
	int64_t *ids;
	size_t count;
	int code;

	ids = command_ids(table, operands, argv, &count, &code);
	if (!ids)
		return code;
	change->json = shared->json;
	client = command_connect(shared, &code);
	if (client)
		code = change_tasks(client, ids, count, change);
	reeve_client_destroy(client);
	free(ids);
	return code;
}

/*
 * cancel
 */

struct cancel_options {
	const char *reason;
};

static const struct option_spec cancel_specs[] = {
    {.name = "reason",
        .type = OPTION_TEXT,
        .offset = offsetof(struct cancel_options, reason),
        .argument = "TEXT",
        .letter = 'r',
        .sentence = "why, for the audit"},
    {.name = NULL},
};

static const struct option_table cancel_table = {
    .program = "reeve cancel",
    .usage = "ID... [--reason TEXT] [--json]",
    .summary = "Cancels tasks: those that wait end at once, those that run are told to stop.",
    .epilogue = "Example: reeve cancel 17 18 --reason 'sent by mistake'",
    .specs = cancel_specs,
};

static struct reeve_changes *call_cancel(
    struct reeve_client *client, const int64_t *ids, size_t count, const void *arg, struct reeve_failure *failure)
{
	return reeve_cancel(client, ids, count, arg, failure);
}

int command_cancel(int argc, char **argv)
{
	struct cancel_options options = {0};
	struct shared_options shared = {0};
	struct change change = {.call = call_cancel, .wanted = REEVE_TASK_CANCELLED};
	int operands, code;

	if (!command_options(&cancel_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	change.arg = options.reason;
	return run_change(&cancel_table, &shared, &change, operands, argv);
}

/*
 * retry
 */

static const struct option_spec no_specs[] = {{.name = NULL}};

static const struct option_table retry_table = {
    .program = "reeve retry",
    .usage = "ID... [--json]",
    .summary = "Runs tasks again now: those that wait become due, those that ended start afresh under the same id.",
    .epilogue = "Example: reeve retry 17",
    .specs = no_specs,
};

static struct reeve_changes *call_retry(
    struct reeve_client *client, const int64_t *ids, size_t count, const void *arg, struct reeve_failure *failure)
{
	(void)arg;
	return reeve_retry(client, ids, count, failure);
}

int command_retry(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct change change = {.call = call_retry};
	int operands, code;

	if (!command_options(&retry_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	return run_change(&retry_table, &shared, &change, operands, argv);
}

/*
 * update
 */

struct update_options {
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
        .sentence = "the new priority; also of an executing task"},
    {.name = "at",
        .type = OPTION_TIME,
        .offset = offsetof(struct update_options, at_us),
        .argument = "TIME",
        .sentence = "when it is to be due: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), +5m"},
    {.name = "delay",
        .type = OPTION_DURATION,
        .offset = offsetof(struct update_options, delay_ms),
        .argument = "DURATION",
        .sentence = "due so much later than now: 30s, 5m, 2h"},
    {.name = "max-attempts",
        .type = OPTION_INTEGER,
        .offset = offsetof(struct update_options, max_attempts),
        .min = 1,
        .max = 10000,
        .argument = "N",
        .sentence = "attempts in all; also of an executing task"},
    {.name = NULL},
};

static const struct option_table update_table = {
    .program = "reeve update",
    .usage = "ID... [--priority N] [--at TIME | --delay DURATION] [--max-attempts N] [--json]",
    .summary = "Changes tasks that have not ended. What is not given stays as it is.",
    .epilogue = "Example: reeve update 17 --priority 10 --delay 1h",
    .specs = update_specs,
};

static struct reeve_changes *call_update(
    struct reeve_client *client, const int64_t *ids, size_t count, const void *arg, struct reeve_failure *failure)
{
	const struct update_options *options = arg;
	struct reeve_update update = {
	    .set_priority = options->priority != NOT_GIVEN,
	    .priority = options->priority != NOT_GIVEN ? (int32_t)options->priority : 0,
	    .max_attempts = options->max_attempts != NOT_GIVEN ? (uint32_t)options->max_attempts : 0,
	};

	/* A delay is counted on the managers' clock. */
	if (!reeve_client_ready(client, failure))
		return NULL;
	if (options->at_us != NOT_GIVEN)
		update.run_at_us = options->at_us;
	else if (options->delay_ms != NOT_GIVEN)
		update.run_at_us = reeve_client_now_us(client) + options->delay_ms * 1000;
	return reeve_update(client, ids, count, &update, failure);
}

int command_update(int argc, char **argv)
{
	struct update_options options = {NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN};
	struct shared_options shared = {0};
	struct change change = {.call = call_update, .arg = &options};
	int operands, code;

	if (!command_options(&update_table, &options, &shared, argc, argv, &operands, &code))
		return code;
	if (options.at_us != NOT_GIVEN && options.delay_ms != NOT_GIVEN)
		return command_usage(&update_table, "--delay and --at exclude each other");
	if (options.at_us != NOT_GIVEN && options.at_us <= 0)
		return command_usage(&update_table, "--at lies before 1970");
	if (options.priority == NOT_GIVEN && options.at_us == NOT_GIVEN && options.delay_ms == NOT_GIVEN &&
	    options.max_attempts == NOT_GIVEN)
		return command_usage(&update_table, "what is to change?");
	return run_change(&update_table, &shared, &change, operands, argv);
}
