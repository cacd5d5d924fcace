/* `reeve metric put|add|list`: numbers from applications, and the managers' own counters. */
#include "client/cmd/call.h"
#include "client/cmd/command.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <reeve/v1/metric_calls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_table put_table = {
    .program = "reeve metric put",
    .usage = "CATEGORY NAME VALUE",
    .summary =
        "Sets a metric to a number: a 64-bit integer, which is kept exactly, or a double. The last value wins, by "
        "the database's time. Put \"--\" before a negative VALUE.",
    .epilogue = "Example: reeve metric put shop open-orders 17",
};

static const struct option_table add_table = {
    .program = "reeve metric add",
    .usage = "CATEGORY NAME VALUE [--json]",
    .summary = "Adds a number to a metric, and prints the sum. A metric that does not exist begins with 0. Put \"--\" "
               "before a negative VALUE.",
    .epilogue = "Example: reeve metric add shop orders 1",
};

/* Parses the full string as an integer, or as a finite number. */
static bool number_parse(const char *text, Reeve__V1__MetricValue *metric)
{
	char *end;

	errno = 0;
	metric->integer = strtoll(text, &end, 10);
	metric->exact_case = REEVE__V1__METRIC_VALUE__EXACT_INTEGER;
	if (end != text && !*end && !errno && !strpbrk(text, " \t\n\v\f\r"))
		return true;
	errno = 0;
	metric->exact_case = REEVE__V1__METRIC_VALUE__EXACT__NOT_SET;
	metric->value = strtod(text, &end);
	return end != text && !*end && isfinite(metric->value) && !strpbrk(text, " \t\n\v\f\r") &&
	    !(errno == ERANGE && metric->value != 0 && fabs(metric->value) > 1);
}

/* Reads the operands and connects. Returns NULL with *code set after an error message. */
static struct reeve_client *begin(const struct option_table *table, struct shared_options *shared, int argc,
    char **argv, Reeve__V1__MetricValue *metric, int *code)
{
	int operands;

	if (!command_options(table, NULL, shared, argc, argv, &operands, code))
		return NULL;
	if (operands != 3) {
		*code = command_usage(table, "give a CATEGORY, a NAME and a VALUE");
		return NULL;
	}
	metric->category = argv[1];
	metric->name = argv[2];
	if (!number_parse(argv[3], metric)) {
		*code = command_usage(table, "VALUE: \"%s\" is not a number", argv[3]);
		return NULL;
	}
	return command_connect_to_change(shared, code);
}

int metric_put(int argc, char **argv)
{
	Reeve__V1__MetricValue metric = {0}, *metrics[] = {&metric};
	Reeve__V1__PutMetricsRequest request = {.n_metrics = 1, .metrics = metrics};
	Reeve__V1__PutMetricsResponse *response;
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	int code;
	struct reeve_client *client = begin(&put_table, &shared, argc, argv, &metric, &code);

	if (!client)
		return code;
	response = reeve_metric_put(client, &request, NULL, &failure);
	code = response ? EXIT_OK : command_change_failed(&failure);
	reeve_free(response);
	command_disconnect(client);
	return code;
}

static void show_value(const void *message, int64_t now_us, struct shown *out)
{
	const Reeve__V1__Metric *metric = message;

	(void)now_us;
	if (metric->exact_case == REEVE__V1__METRIC__EXACT_INTEGER)
		snprintf(out->text, sizeof out->text, "%" PRId64, metric->integer);
	else
		snprintf(out->text, sizeof out->text, "%.15g", metric->value);
}

int metric_add(int argc, char **argv)
{
	Reeve__V1__MetricValue metric = {0}, *metrics[] = {&metric};
	Reeve__V1__AddMetricsRequest request = {.n_metrics = 1, .metrics = metrics};
	Reeve__V1__AddMetricsResponse *response;
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct shown value = {.value = ""};
	int code;
	struct reeve_client *client = begin(&add_table, &shared, argc, argv, &metric, &code);

	if (!client)
		return code;
	response = reeve_metric_add(client, &request, NULL, &failure);
	code = response ? EXIT_OK : command_change_failed(&failure);
	if (response && response->n_metrics && shared.json) {
		command_print_json(response->metrics[0]);
	} else if (response && response->n_metrics) {
		show_value(response->metrics[0], 0, &value);
		puts(value.text);
	}
	reeve_free(response);
	command_disconnect(client);
	return code;
}

static const struct column columns[] = {
    COL_TEXT("CATEGORY", "category"),
    COL_TEXT("NAME", "name"),
    COL_NUMBER("VALUE", NULL, .show = show_value),
    COL_NUMBER("CHANGED", "changed_us", .as = AS_AGE),
    COL_TEXT("SOURCE", "source"),
    {0},
};

const struct call metric_list = {
    .options = {.program = "reeve metric list",
        .usage = "[CATEGORY] [--json]",
        .summary = "Lists metrics by category and name, with the time since each value changed. The category "
                   "\"manager\" has the managers' own counters, as MANAGER/COUNTER.",
        .epilogue = "Examples:\n"
                    "  reeve metric list shop\n"
                    "  reeve metric list manager --json"},
    .operand = "category",
    .noun = "category",
    .optional = true,
    .list = {.service = &reeve__v1__metric_service__descriptor,
        .method = "List",
        .items = "metrics",
        .columns = columns},
};
