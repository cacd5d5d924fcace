/* `reeve stats` and `reeve errors`: totals, counts of ended attempts, errors in groups. */
#include "client/cmd/command.h"
#include "client/cmd/list.h"
#include "common/limits.h"

#include <inttypes.h>
#include <reeve/v1/admin_calls.h>
#include <reeve/v1/task_calls.h>
#include <stdio.h>
#include <string.h>

/*
 * stats
 */

struct stats_options {
	struct option_message request;
	bool all;
	const char *activity, *depth;
};

static const struct option_spec stats_specs[] = {
    OPT_CHOICE(0, "by", OPTION_FIELD("by"), "hour|type",
        "count ended attempts and their times, by hour of UTC or by queue and type"),
    OPT_CHOICE(0, "activity", OPTION_AT(struct stats_options, activity), "minute|hour|type",
        "what managers have done, by minute, by hour of UTC, or by queue and type, with waiting times and durations"),
    OPT_CHOICE(0, "depth", OPTION_AT(struct stats_options, depth), "minute|hour",
        "how many tasks there were, by minute, or the average and maximum by hour of UTC"),
    OPT_FLAG(0, "all-queues", OPTION_FIELD("all_queues"), "with --by type: each type over all queues"),
    OPT_CHOICE('s', "status", OPTION_FIELD("status"), "STATUS",
        "with --by: only attempts that completed, that failed, or all; if not set, completed"),
    OPT_TIME(0, "since", OPTION_FIELD("since_us"),
        "with --by, --activity or --depth: only from this time on; if not set, in the last day (minute, --activity type: in the "
        "last hour)"),
    OPT_FLAG('a', "all", OPTION_AT(struct stats_options, all), "with --by: attempts of all time"),
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "with --by, --activity or --depth: only this queue"),
    OPT_NAME('t', "type", OPTION_FIELD("type"), "TYPE", "with --by or --activity: only this type"),
    {0},
};

static const struct option_table stats_table = {
    .program = "reeve stats",
    .usage = "[--by hour|type [--all-queues] [--status STATUS] [--since TIME | --all] [--queue NAME] [--type TYPE] | "
             "--activity minute|hour|type [--since TIME] [--queue NAME] [--type TYPE] | "
             "--depth minute|hour [--since TIME] [--queue NAME]] [--json]",
    .summary =
        "Shows totals: live tasks, ended tasks that are kept, workers, and the manager's own counters. "
        "With --by: how many attempts completed, and how long they took, exactly. With --activity: what managers "
        "have done for a day by minute, or for a year by hour. With --depth: how many tasks there were.",
    .epilogue = "Examples:\n"
                "  reeve stats --by hour --since '8h ago' --queue mail\n"
                "  reeve stats --by type --all-queues --all\n"
                "  reeve stats --activity minute --queue mail\n"
                "  reeve stats --depth hour --since '7d ago'",
    .specs = stats_specs,
};

static void print_stats(const Reeve__V1__StatsResponse *stats)
{
	static const struct column task_columns[] = {COL_WORD("TASKS AND WORKERS", NULL), COL_NUMBER("NOW", NULL), {0}};
	static const struct column counter_columns[] = {
	    COL_WORD("THE MANAGER'S COUNTERS", NULL), COL_NUMBER("SINCE ITS START", NULL), {0}};
	const struct {
		const char *name;
		int64_t value;
	} totals[] = {
	    {"queued", stats->queued},
	    {"delayed", stats->delayed},
	    {"executing", stats->executing},
	    {"failed", stats->failed},
	    {"completed", stats->completed},
	    {"dead", stats->dead},
	    {"cancelled", stats->cancelled},
	    {"workers alive", stats->workers_alive},
	};
	struct table *table = table_create(task_columns);

	for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
		table_text(table, totals[i].name);
		table_number(table, totals[i].value);
	}
	table_print(table);
	table_destroy(table);
	if (stats->n_counters == 0)
		return;
	putchar('\n');
	table = table_create(counter_columns);
	for (size_t i = 0; i < stats->n_counters; i++) {
		table_text(table, stats->counters[i]->name);
		table_number(table, stats->counters[i]->value);
	}
	table_print(table);
	table_destroy(table);
}

/* Prints totals. Returns the exit code. */
static int show_stats(struct reeve_client *client, bool json)
{
	Reeve__V1__StatsRequest request = REEVE__V1__STATS_REQUEST__INIT;
	struct reeve_failure failure = {0};
	Reeve__V1__StatsResponse *stats = reeve_admin_stats(client, &request, NULL, &failure);

	if (!stats)
		return command_failed(&failure);
	if (json)
		command_print_json(stats);
	else
		print_stats(stats);
	reeve_free(stats);
	return EXIT_OK;
}

#define COUNT_COLUMNS                                                                                                  \
	COL_NUMBER("ATTEMPTS", "count"), COL_NUMBER("COMPLETED", "completed"),                                             \
	    COL_NUMBER("TOTAL", "total_ms", .as = AS_SPAN, .otherwise = "0s"),                                             \
	    COL_NUMBER("AVERAGE", "average_ms", .as = AS_SPAN, .otherwise = "0s"),                                         \
	    COL_NUMBER("FASTEST", "fastest_ms", .as = AS_SPAN, .otherwise = "0s"),                                         \
	    COL_NUMBER("SLOWEST", "slowest_ms", .as = AS_SPAN, .otherwise = "0s"),                                         \
	    COL_NUMBER("LATEST", "last_ms", .as = AS_SPAN, .otherwise = "0s"),                                             \
	    COL_NUMBER("LAST", "last_us", .as = AS_AGE),                                                                   \
	{                                                                                                                  \
		0                                                                                                              \
	}

static const struct column hour_columns[] = {COL_WORD("HOUR", "hour_us", .as = AS_HOUR), COUNT_COLUMNS};

static const struct column type_columns[] = {COL_TEXT("TYPE", "type"), COUNT_COLUMNS};

static const struct column queue_columns[] = {COL_TEXT("QUEUE", "queue"), COL_TEXT("TYPE", "type"), COUNT_COLUMNS};

/* The hours of all time begin after this one, whose begin is a time that is not 0. */
#define ALL_TIME_US (3600 * INT64_C(1000000))

static int show_executions(struct reeve_client *client, Reeve__V1__ExecutionsRequest *request, bool json)
{
	const struct list list = {.items = "counts",
	    .name = "attempts",
	    .columns = request->by != REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE ? hour_columns
	        : request->all_queues                                                        ? type_columns
	                                                                                     : queue_columns};
	struct reeve_failure failure = {0};
	Reeve__V1__ExecutionsResponse *executions = reeve_executions(client, request, &failure);

	if (!executions)
		return command_failed(&failure);
	list_print_answer(&list, client, executions, INT64_MAX, json);
	reeve_free(executions);
	return EXIT_OK;
}

#define ACTIVITY_COLUMNS                                                                                               \
	COL_NUMBER("SUBMITTED", "submitted"), COL_NUMBER("BEGUN", "begun"), COL_NUMBER("COMPLETED", "completed"),          \
	    COL_NUMBER("FAILED", "failed"), COL_NUMBER("DEAD", "dead"),                                                    \
	    COL_NUMBER("WAIT", "wait_median_ms", .as = AS_SPAN, .otherwise = "-"),                                         \
	    COL_NUMBER("95 %", "wait_p95_ms", .as = AS_SPAN, .otherwise = "-"),                                            \
	    COL_NUMBER("DURATION", "duration_median_ms", .as = AS_SPAN, .otherwise = "-"),                                 \
	    COL_NUMBER("95 %", "duration_p95_ms", .as = AS_SPAN, .otherwise = "-"),                                        \
	{                                                                                                                  \
		0                                                                                                              \
	}

static const struct column time_columns[] = {COL_WORD("TIME", "at_us", .as = AS_HOUR), ACTIVITY_COLUMNS};

static const struct column route_columns[] = {COL_TEXT("QUEUE", "queue"), COL_TEXT("TYPE", "type"), ACTIVITY_COLUMNS};

#define DEPTH(heading_, field_) COL_NUMBER(heading_, "depth." field_, .otherwise = "-")
#define DEPTH_AND_MAX(heading_, field_) DEPTH(heading_, field_), COL_NUMBER("MAX", "max." field_, .otherwise = "-")

static const struct column minute_depths[] = {COL_WORD("TIME", "at_us", .as = AS_HOUR), DEPTH("QUEUED", "queued"),
    DEPTH("DELAYED", "delayed"), DEPTH("EXECUTING", "executing"), DEPTH("FAILED", "failed"), DEPTH("DEAD", "dead"),
    {0}};

static const struct column hour_depths[] = {COL_WORD("TIME", "at_us", .as = AS_HOUR), DEPTH_AND_MAX("QUEUED", "queued"),
    DEPTH_AND_MAX("DELAYED", "delayed"), DEPTH_AND_MAX("EXECUTING", "executing"), DEPTH_AND_MAX("FAILED", "failed"),
    DEPTH_AND_MAX("DEAD", "dead"), {0}};

/* Prints what managers have done, or how many tasks there were. `of` has the filter. Returns the exit code. */
static int show_activity(
    struct reeve_client *client, const struct stats_options *options, const Reeve__V1__ExecutionsRequest *of, bool json)
{
	const char *by = options->depth ? options->depth : options->activity;
	bool by_type = !strcmp(by, "type"), by_hour = !strcmp(by, "hour");
	const struct list list = {.items = "points",
	    .name = options->depth ? "depths" : "activity",
	    .columns = options->depth ? by_hour ? hour_depths : minute_depths
	        : by_type             ? route_columns
	                              : time_columns};
	Reeve__V1__ActivityRequest request = REEVE__V1__ACTIVITY_REQUEST__INIT;
	struct reeve_failure failure = {0};
	Reeve__V1__ActivityResponse *activity;

	request.by = by_type ? REEVE__V1__ACTIVITY_GROUPING__ACTIVITY_GROUPING_TYPE
	    : by_hour        ? REEVE__V1__ACTIVITY_GROUPING__ACTIVITY_GROUPING_HOUR
	                     : REEVE__V1__ACTIVITY_GROUPING__ACTIVITY_GROUPING_MINUTE;
	request.queue = of->queue;
	request.type = of->type;
	request.since_us = of->since_us;
	if (by_hour && !of->since_us)
		request.since_us = reeve_client_now_us(client) - 24 * 3600 * INT64_C(1000000);
	activity = reeve_admin_activity(client, &request, NULL, &failure);
	if (!activity)
		return command_failed(&failure);
	list_print_answer(&list, client, activity, INT64_MAX, json);
	reeve_free(activity);
	return EXIT_OK;
}

static const char *stats_problem(const struct stats_options *options, const Reeve__V1__ExecutionsRequest *request)
{
	bool by = option_is_set(&options->request, "by");

	if (options->activity && (by || options->all || request->all_queues || option_is_set(&options->request, "status")))
		return "--activity goes with --since, --queue and --type alone";
	if (options->depth &&
	    (by || options->activity || options->all || request->all_queues || *request->type ||
	        option_is_set(&options->request, "status")))
		return "--depth goes with --since and --queue alone";
	if ((options->request.n_set || options->all) && !by && !options->activity && !options->depth)
		return "--status, --since, --all, --queue and --type go with --by";
	if (request->all_queues && request->by != REEVE__V1__EXECUTION_GROUPING__EXECUTION_GROUPING_TYPE)
		return "--all-queues goes with --by type";
	return options->all && request->since_us ? "--all and --since cannot be combined" : NULL;
}

int command_stats(int argc, char **argv)
{
	Reeve__V1__ExecutionsRequest request = REEVE__V1__EXECUTIONS_REQUEST__INIT;
	struct stats_options options = {.request.message = &request.base};
	struct shared_options shared = {0};
	struct reeve_client *client;
	const char *problem;
	int code;

	if (!command_only_options(&stats_table, &options, &shared, argc, argv, &code))
		return code;
	problem = stats_problem(&options, &request);
	if (problem)
		return command_usage(&stats_table, "%s", problem);
	if (options.all)
		request.since_us = ALL_TIME_US;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	if (options.activity || options.depth)
		code = show_activity(client, &options, &request, shared.json);
	else
		code = options.request.n_set ? show_executions(client, &request, shared.json) : show_stats(client, shared.json);
	reeve_client_destroy(client);
	return code;
}

/*
 * errors
 */

struct errors_options {
	struct option_message request;
	int64_t limit;
};

static const struct option_spec errors_specs[] = {
    OPT_CHOICE(0, "by", OPTION_FIELD("by"), "text|code", "group errors with the same text, or with the same error code",
        .default_value = "text"),
    OPT_NAME('q', "queue", OPTION_FIELD("queue"), "NAME", "only tasks of this queue"),
    OPT_NAME('t', "type", OPTION_FIELD("type"), "TYPE", "only tasks of this type"),
    OPT_TIME(0, "since", OPTION_FIELD("since_us"), "only errors from this time on; if not set, of the last day"),
    OPT_INTEGER('n', "limit", OPTION_AT(struct errors_options, limit), 1, LIMIT_LIST_LONG, "N",
        "maximum number of groups", .default_value = "100"),
    {0},
};

static const struct option_table errors_table = {
    .program = "reeve errors",
    .usage = "[--by text|code] [--queue NAME] [--type TYPE] [--since TIME] [--limit N] [--json]",
    .summary = "Shows errors in groups: how many attempts ended with each, how many tasks wait for their retry or "
               "are dead, when it was first and last seen, and its last task.",
    .epilogue = "Examples:\n"
                "  reeve errors --queue mail --since '2h ago'\n"
                "  reeve retry --where 'status=dead error=\"no route to host\"'",
    .specs = errors_specs,
};

static const struct column errors_columns[] = {
    COL_NUMBER("ATTEMPTS", "attempts"),
    COL_NUMBER("WAITING", "waiting"),
    COL_NUMBER("DEAD", "dead"),
    COL_NUMBER("FIRST", "first_us", .as = AS_AGE),
    COL_NUMBER("LAST", "last_us", .as = AS_AGE),
    COL_NUMBER("TASK", "example_id"),
    COL_TEXT("CODE", "error_code"),
    COL_TEXT("ERROR", "error"),
    {0},
};

int command_errors(int argc, char **argv)
{
	static const struct list list = {.items = "groups", .name = "errors", .columns = errors_columns};
	Reeve__V1__ErrorsRequest request = REEVE__V1__ERRORS_REQUEST__INIT;
	struct errors_options options = {.request.message = &request.base};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	Reeve__V1__ErrorsResponse *errors;
	struct reeve_client *client;
	int code;

	if (!command_only_options(&errors_table, &options, &shared, argc, argv, &code))
		return code;
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	errors = reeve_errors(client, &request, &failure);
	code = errors ? EXIT_OK : command_failed(&failure);
	if (errors)
		list_print_answer(&list, client, errors, options.limit, shared.json);
	if (errors && errors->n_groups > (size_t)options.limit)
		command_log("there are more groups than the %" PRId64 " shown; --limit and --since choose", options.limit);
	reeve_free(errors);
	reeve_client_destroy(client);
	return code;
}
