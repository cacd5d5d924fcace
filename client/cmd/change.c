/*
 * `reeve cancel`, `reeve discard`, `reeve retry`, `reeve update` and `reeve purge`: changing any number of tasks,
 * selected by ids or by conditions. The requests have the same fields for that, and the answers are alike.
 */
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/task_options.h"
#include "client/cmd/where.h"
#include "common/limits.h"

#include <inttypes.h>
#include <jansson.h>
#include <reeve/v1/task_calls.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__DiscardResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__RetryResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__UpdateResponse) &&
        sizeof(Reeve__V1__CancelResponse) == sizeof(Reeve__V1__PurgeResponse),
    "the answers of changes have the same fields");

/* The values of the options. */
struct options {
	struct option_message request;
	const char *where;
	int64_t delay_ms; /* of an update; NOT_GIVEN: not set */
};

#define SELECTING                                                                                                      \
	OPT_JOINED(0, "where", OPTION_AT(struct options, where), "CONDITIONS",                                             \
	    "instead of ids: all tasks that match, such as 'status=dead type=mail error~timeout older=1h'"),               \
	    WHERE_RUNNING_LONGER("instead of ids, or with --where:"),                                                      \
	    OPT_FLAG(0, "dry-run", OPTION_FIELD("dry_run"), "with --where: change nothing, only show which tasks match"),  \
	{                                                                                                                  \
		0                                                                                                              \
	}

static const struct option_spec cancel_specs[] = {
    OPT_TEXT('r', "reason", OPTION_FIELD("reason"), "TEXT", "reason, for the audit"),
    SELECTING,
};

static const struct option_spec discard_specs[] = {
    OPT_TEXT('r', "reason", OPTION_FIELD("reason"), "TEXT",
        "reason: the tasks' error, also in the audit; if not set, \"discarded by request\""),
    SELECTING,
};

static const struct option_spec retry_specs[] = {
    OPT_FLAG(0, "executing", OPTION_FIELD("executing"),
        "with ids: also executing tasks; their workers stop them, and they are queued again"),
    OPT_FLAG(0, "hanged", OPTION_FIELD("hanged"),
        "executing tasks, and no others: the stopped attempt counts, and fails with the error \"hanged\""),
    SELECTING,
};

static const struct option_spec update_specs[] = {
    OPT_INTEGER('p', "priority", OPTION_FIELD("priority.value"), -LIMIT_PRIORITY, LIMIT_PRIORITY, "N",
        "the new priority; also of an executing task"),
    OPT_TIME(0, "at", OPTION_FIELD("run_at_us"),
        "time when it becomes due: 2026-01-14T08:00:00Z, \"2026-01-14 08:00\" (local time), +5m"),
    OPT_SPAN(0, "delay", OPTION_AT(struct options, delay_ms), 0, 0, "time from now until it becomes due: 30s, 5m, 2h"),
    OPT_INTEGER(0, "max-attempts", OPTION_FIELD("max_attempts"), 1, LIMIT_ATTEMPTS, "N",
        "maximum number of attempts; also of an executing task"),
    OPT_TEXT(0, "details", OPTION_FIELD("details.value"), "DETAILS|-", "the new details; -: from standard input"),
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "move to this queue"),
    OPT_SPAN(0, "timeout", OPTION_FIELD("timeout_ms"), 1, DAYS_MS(LIMIT_TIMEOUT_DAYS), "how long an attempt may run"),
    OPT_NAME('k', "key", OPTION_FIELD("key"), "KEY", "the new key, of one task"),
    OPT_NAME(0, "stage", OPTION_FIELD("stage"), "NAME", "the stage of their pipeline that they begin now"),
    SELECTING,
};

static const struct option_spec purge_specs[] = {
    OPT_FLAG(0, "details-only", OPTION_FIELD("details_only"),
        "keep the tasks; erase only their details and results, also those of their attempts"),
    OPT_TEXT('r', "reason", OPTION_FIELD("reason"), "TEXT", "reason, for the audit"),
    SELECTING,
};

/* A change to tasks. */
struct change {
	const char *method;
	const char *done; /* "cancelled", "set to start again": the tasks' state afterwards, for the counts */
	/* A task that already has this status counts as done although it was not changed; 0: none. */
	Reeve__V1__TaskStatus wanted;
	struct option_table table;
	/* Returns what is wrong with the options, or NULL; may be NULL. */
	const char *(*problem)(const struct options *options);
};

static const char *retry_problem(const struct options *options)
{
	const Reeve__V1__RetryRequest *request = (const Reeve__V1__RetryRequest *)options->request.message;

	return request->executing && (options->where || request->filter)
	    ? "--executing needs ids; with --where use status=executing"
	    : NULL;
}

static const char *update_problem(const struct options *options)
{
	const Reeve__V1__UpdateRequest *request = (const Reeve__V1__UpdateRequest *)options->request.message;

	if (request->run_at_us && options->delay_ms != NOT_GIVEN)
		return "--delay and --at cannot be combined";
	if (!request->priority && !request->run_at_us && options->delay_ms == NOT_GIVEN && !request->max_attempts &&
	    !request->details && !*request->queue && !request->timeout_ms && !*request->key && !*request->stage)
		return "the change is missing; use --priority, --delay or another option";
	return NULL;
}

static const struct change cancel = {.method = "Cancel",
    .done = "cancelled or being stopped",
    .wanted = TASK(CANCELLED),
    .table = {.program = "reeve cancel",
        .usage = "ID...|--where CONDITIONS [--reason TEXT] [--dry-run] [--json]",
        .summary = "Cancels tasks: waiting ones end at once, running ones get a command to stop.",
        .epilogue = "Examples:\n"
                    "  reeve cancel 17 18 --reason 'sent by mistake'\n"
                    "  reeve cancel --where 'queue=mail type=digest older=1d'",
        .specs = cancel_specs}};

static const struct change discard = {.method = "Discard",
    .done = "discarded or being stopped",
    .wanted = TASK(DEAD),
    .table = {.program = "reeve discard",
        .usage = "ID...|--where CONDITIONS [--reason TEXT] [--dry-run] [--json]",
        .summary = "Ends tasks dead, with the error code \"discarded\": waiting ones at once, running ones when their "
                   "workers have stopped them.",
        .epilogue = "Example: reeve discard 17 --reason 'it will never fit'",
        .specs = discard_specs}};

static const struct change retry = {.method = "Retry",
    .done = "started again",
    .table = {.program = "reeve retry",
        .usage = "ID... [--executing] | --where CONDITIONS [--running-longer DURATION] [--hanged] [--dry-run] [--json]",
        .summary = "Runs tasks again now: waiting ones become due, ended ones start over under the same id. --where "
                   "selects failed, dead and cancelled tasks, unless it names other statuses; status=executing or "
                   "--running-longer selects executing ones.",
        .epilogue = "Examples:\n"
                    "  reeve retry 17\n"
                    "  reeve retry --where 'status=dead queue=mail error~\"no route\"'\n"
                    "  reeve retry --running-longer 1h --hanged",
        .specs = retry_specs},
    .problem = retry_problem};

static const struct change update = {.method = "Update",
    .done = "changed",
    .table = {.program = "reeve update",
        .usage =
            "ID...|--where CONDITIONS [--priority N] [--at TIME | --delay DURATION] [--max-attempts N] "
            "[--details DETAILS|-] [--queue NAME] [--timeout DURATION] [--key KEY] [--stage NAME] [--dry-run] [--json]",
        .summary =
            "Changes tasks that have not ended: their priority and maximum number of attempts, and the rest until "
            "they start. What you do not set stays as it is.",
        .epilogue = "Examples:\n"
                    "  reeve update 17 --priority 10 --delay 1h\n"
                    "  reeve update 17 --details '{\"to\":\"ann\"}' --queue urgent\n"
                    "  reeve update --where 'type=report status=queued' --at '2030-01-14 22:00'",
        .specs = update_specs},
    .problem = update_problem};

static const struct change purge = {.method = "Purge",
    .done = "purged",
    .table = {.program = "reeve purge",
        .usage = "ID...|--where CONDITIONS [--details-only] [--reason TEXT] [--dry-run] [--json]",
        .summary =
            "Deletes tasks that have ended, with their attempts, events and keys, before their retention is over. The "
            "audit keeps an event of it.",
        .epilogue = "Examples:\n"
                    "  reeve purge --where 'queue=mail status=completed older=1h'\n"
                    "  reeve purge --where 'details.user=17' --details-only --reason 'asked for by user 17'",
        .specs = purge_specs}};

static const struct column columns[] = {
    COL_NUMBER("ID", "id"),
    COL_WORD("STATUS", "status", .as = AS_STATE),
    COL_WORD("CHANGED", "changed"),
    COL_TEXT("NOTE", "note"),
    {0},
};

/* A command at work. */
struct changing {
	const struct change *change;
	struct reeve_client *client;
	ProtobufCMessage *request;
	struct table *table;
	bool json;
	int64_t matched, changed; /* with conditions */
};

static void *field(const struct changing *changing, const char *name)
{
	const ProtobufCFieldDescriptor *descriptor;

	return fields_at(changing->request, name, &descriptor);
}

static bool is_dry(const struct changing *changing)
{
	return *(protobuf_c_boolean *)field(changing, "dry_run");
}

static Reeve__V1__CancelResponse *call(const struct changing *changing, struct reeve_failure *failure)
{
	return (Reeve__V1__CancelResponse *)reeve_call(changing->client, &reeve__v1__task_service__descriptor,
	    changing->change->method, changing->request, NULL, failure);
}

/*
 * by ids
 */

/* Adds one answer to the output. Returns true if every task now is as requested. */
static bool take_changes(const struct changing *changing, const Reeve__V1__CancelResponse *answer)
{
	bool all = answer->n_not_found == 0;

	for (size_t i = 0; i < answer->n_tasks; i++) {
		const Reeve__V1__ChangedTask *task = answer->tasks[i];

		all &= task->changed || !*task->note || (changing->change->wanted && task->status == changing->change->wanted);
		if (changing->json)
			command_print_json(task);
		else
			fields_row(changing->table, columns, task, 0);
	}
	for (size_t i = 0; i < answer->n_not_found; i++) {
		if (changing->json)
			command_print_object(json_pack("{sI sb}", "id", (json_int_t)answer->not_found[i], "not_found", 1));
		else
			command_log("there is no task %" PRId64, answer->not_found[i]);
	}
	return all;
}

static void select_ids(const struct changing *changing, int64_t *ids, size_t count)
{
	const ProtobufCFieldDescriptor *descriptor;

	*(int64_t **)fields_at(changing->request, "ids", &descriptor) = ids;
	*(size_t *)((char *)changing->request + descriptor->quantifier_offset) = count;
}

/* Changes the tasks, REEVE_MAX_BATCH at a time. Returns the exit code: EXIT_REFUSED if any task was refused. */
static int change_tasks(struct changing *changing, int64_t *ids, size_t count)
{
	struct reeve_failure failure = {0};
	int code = EXIT_OK;
	size_t n_rows = 0;

	changing->table = table_create(columns);
	for (size_t from = 0; from < count; from += REEVE_MAX_BATCH) {
		Reeve__V1__CancelResponse *answer;

		select_ids(changing, ids + from, count - from < REEVE_MAX_BATCH ? count - from : REEVE_MAX_BATCH);
		answer = call(changing, &failure);
		if (!answer) {
			code = command_change_failed(&failure);
			/* If none of these tasks exists, those of the next call still may. */
			if (failure.code != REEVE_NOT_FOUND)
				break;
			continue;
		}
		if (!take_changes(changing, answer))
			code = EXIT_REFUSED;
		n_rows += answer->n_tasks;
		reeve_free(answer);
	}
	if (!changing->json && n_rows > 0)
		table_print(changing->table);
	table_destroy(changing->table);
	return code;
}

/*
 * by conditions
 */

enum { NOTES_MAX = 10 };

static const struct column dry_columns[] = {COL_NUMBER("ID", "id"), COL_WORD("STATUS", "status", .as = AS_STATE), {0}};

static void take_matching(struct changing *changing, const Reeve__V1__CancelResponse *answer)
{
	for (size_t i = 0; i < answer->n_tasks; i++) {
		const Reeve__V1__ChangedTask *task = answer->tasks[i];

		changing->matched++;
		changing->changed += task->changed;
		if (changing->json)
			command_print_json(task);
		else if (is_dry(changing))
			fields_row(changing->table, dry_columns, task, 0);
		else if (!task->changed && changing->matched - changing->changed <= NOTES_MAX)
			command_log("task %" PRId64 " (%s): %s", task->id, reeve_task_status_name(task->status), task->note);
	}
}

static const char *s(int64_t number)
{
	return number == 1 ? "" : "s";
}

/* Hanged tasks start again or are dead: that depends on their attempts. */
static const char *done_to(const struct changing *changing)
{
	bool hanged = changing->change == &retry && *(protobuf_c_boolean *)field(changing, "hanged");

	return hanged ? "stopped as hanged" : changing->change->done;
}

/* Prints the totals. Returns the exit code. */
static int sum_up(const struct changing *changing)
{
	const char *done = done_to(changing);
	int64_t unchanged = changing->matched - changing->changed;

	if (changing->matched == 0) {
		command_log("no task matches");
		return EXIT_REFUSED;
	}
	if (is_dry(changing) && !changing->json)
		table_print(changing->table);
	fflush(stdout); /* the messages below must follow the output, wherever both go */
	if (is_dry(changing)) {
		command_log("%" PRId64 " task%s would be %s", changing->matched, s(changing->matched), done);
		return EXIT_OK;
	}
	if (!changing->json)
		printf("%" PRId64 " task%s %s\n", changing->changed, s(changing->changed), done);
	if (unchanged > 0)
		command_log("%" PRId64 " of those that match %s not changed", unchanged, unchanged == 1 ? "was" : "were");
	return unchanged > 0 ? EXIT_REFUSED : EXIT_OK;
}

/* Changes all tasks that match, a limited number per call. Returns the exit code. */
static int change_matching(struct changing *changing, Reeve__V1__TaskFilter *filter)
{
	struct reeve_failure failure = {0};
	int code = EXIT_OK;

	changing->table = table_create(dry_columns);
	do {
		Reeve__V1__CancelResponse *answer = call(changing, &failure);

		if (!answer) {
			code = is_dry(changing) ? command_failed(&failure) : command_change_failed(&failure);
			if (changing->changed > 0)
				command_log("%" PRId64 " task%s %s before that; the same command goes on with the rest",
				    changing->changed, s(changing->changed), changing->change->done);
			break;
		}
		if (!filter->after_id)
			command_warn(answer);
		take_matching(changing, answer);
		filter->after_id = answer->next_after_id;
		reeve_free(answer);
	} while (filter->after_id > 0);
	if (code == EXIT_OK)
		code = sum_up(changing);
	table_destroy(changing->table);
	return code;
}

/*
 * the commands
 */

/* Sets the due time from --delay, which counts from now on the managers' clock. Returns false with *code set after an
 * error message. */
static bool set_delay(struct changing *changing, int64_t delay_ms, int *code)
{
	struct reeve_failure failure = {0};

	if (delay_ms == NOT_GIVEN)
		return true;
	if (!reeve_client_ready(changing->client, &failure)) {
		*code = command_failed(&failure);
		return false;
	}
	*(int64_t *)field(changing, "run_at_us") = reeve_client_now_us(changing->client) + delay_ms * 1000;
	return true;
}

static bool details_are_input(const struct changing *changing)
{
	const Reeve__V1__UpdateRequest *request = (const Reeve__V1__UpdateRequest *)changing->request;

	return changing->change == &update && request->details && !strcmp(request->details->value, "-");
}

/* Reads the new details if standard input has them. The caller must free *details. Returns false with *code set after
 * an error message. */
static bool read_details(const struct changing *changing, char **details, int *code)
{
	if (!details_are_input(changing))
		return true;
	((Reeve__V1__UpdateRequest *)changing->request)->details->value = *details =
	    task_details_read(changing->client, code);
	return *details;
}

/* Finds the tasks: ids from the operands, or conditions from the options. Returns false with *code set after an error
 * message. */
static bool select_tasks(struct changing *changing, const struct options *options, int operands, char **argv,
    struct where *where, int64_t **ids, size_t *count, int *code)
{
	const struct option_table *table = &changing->change->table;
	Reeve__V1__TaskFilter **filter = field(changing, "filter");
	struct reeve_error error = {0};

	if (!options->where && !*filter) {
		if (is_dry(changing))
			*code = command_usage(table, "--dry-run needs --where");
		else
			*ids = command_ids(table, operands, argv, count, code);
		return *ids;
	}
	if (operands > 0)
		*code = command_usage(table, "--where and --running-longer cannot be combined with ids (\"%s\")", argv[1]);
	else if (options->where && !where_parse(where, options->where, *filter, &error))
		*code = command_usage(table, "--where: %s", error.message);
	else
		*filter = options->where ? &where->filter : *filter;
	return operands == 0 && error.code == STATUS(OK);
}

static int run(const struct change *change, int argc, char **argv)
{
	const ProtobufCMessageDescriptor *descriptor =
	    protobuf_c_service_descriptor_get_method_by_name(&reeve__v1__task_service__descriptor, change->method)->input;
	union {
		ProtobufCMessage base;
		Reeve__V1__CancelRequest cancel;
		Reeve__V1__DiscardRequest discard;
		Reeve__V1__RetryRequest retry;
		Reeve__V1__UpdateRequest update;
		Reeve__V1__PurgeRequest purge;
	} request;
	struct options options = {.request.message = &request.base, .delay_ms = NOT_GIVEN};
	struct changing changing = {.change = change, .request = &request.base};
	struct shared_options shared = {0};
	struct where where = {0};
	const char *problem;
	char *details = NULL;
	int64_t *ids = NULL;
	size_t count = 0;
	int operands, code;

	protobuf_c_message_init(descriptor, &request);
	if (!command_options(&change->table, &options, &shared, argc, argv, &operands, &code))
		return code;
	problem = change->problem ? change->problem(&options) : NULL;
	for (int i = 1; !problem && details_are_input(&changing) && i <= operands; i++)
		if (!strcmp(argv[i], "-"))
			problem = "the ids and --details cannot both come from standard input";
	if (problem)
		return command_usage(&change->table, "%s", problem);
	changing.json = shared.json;
	if (select_tasks(&changing, &options, operands, argv, &where, &ids, &count, &code))
		changing.client = command_connect_to_change(&shared, &code);
	if (changing.client && set_delay(&changing, options.delay_ms, &code) && read_details(&changing, &details, &code))
		code = ids ? change_tasks(&changing, ids, count)
		           : change_matching(&changing, *(Reeve__V1__TaskFilter **)field(&changing, "filter"));
	command_disconnect(changing.client);
	where_free(&where);
	free(details);
	free(ids);
	return code;
}

int command_cancel(int argc, char **argv)
{
	return run(&cancel, argc, argv);
}

int command_discard(int argc, char **argv)
{
	return run(&discard, argc, argv);
}

int command_retry(int argc, char **argv)
{
	return run(&retry, argc, argv);
}

int command_update(int argc, char **argv)
{
	return run(&update, argc, argv);
}

int command_purge(int argc, char **argv)
{
	return run(&purge, argc, argv);
}
