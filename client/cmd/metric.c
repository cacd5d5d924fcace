/* `reeve metric put|list`: numbers from applications, and the managers' own counters. */
#include "client/cmd/call.h"
#include "client/cmd/command.h"

#include <errno.h>
#include <math.h>
#include <reeve/v1/metric_calls.h>
#include <stdlib.h>
#include <string.h>

static const struct option_table put_table = {
    .program = "reeve metric put",
    .usage = "CATEGORY NAME VALUE",
    .summary = "Sets a metric to a number. The last value wins, by the database's time. Put \"--\" before a "
               "negative VALUE.",
    .epilogue = "Example: reeve metric put shop open-orders 17",
};

/* Parses the full string as a finite number. */
static bool number_parse(const char *text, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	return end != text && !*end && isfinite(*value) && !strpbrk(text, " \t\n\v\f\r") &&
	    !(errno == ERANGE && *value != 0 && fabs(*value) > 1);
}

int metric_put(int argc, char **argv)
{
	Reeve__V1__MetricValue metric = {0}, *metrics[] = {&metric};
	Reeve__V1__PutMetricsRequest request = {.n_metrics = 1, .metrics = metrics};
	Reeve__V1__PutMetricsResponse *response;
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	int operands, code;

	if (!command_options(&put_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != 3)
		return command_usage(&put_table, "give a CATEGORY, a NAME and a VALUE");
	metric.category = argv[1];
	metric.name = argv[2];
	if (!number_parse(argv[3], &metric.value))
		return command_usage(&put_table, "VALUE: \"%s\" is not a number", argv[3]);
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	response = reeve_metric_put(client, &request, NULL, &failure);
	code = response ? EXIT_OK : command_change_failed(&failure);
	reeve_free(response);
	command_disconnect(client);
	return code;
}

static const struct column columns[] = {
    COL_TEXT("CATEGORY", "category"),
    COL_TEXT("NAME", "name"),
    COL_NUMBER("VALUE", "value"),
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
