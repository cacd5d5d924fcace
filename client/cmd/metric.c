/* `reeve metric put|list`: numbers from applications, and the managers' own counters. */
#include "client/cmd/command.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 1000 };

static const struct option_spec no_specs[] = {{.name = NULL}};

/*
 * put
 */

static const struct option_table put_table = {
    .program = "reeve metric put",
    .usage = "CATEGORY NAME VALUE",
    .summary = "Sets a metric to a number. The last value wins, by the database's time. Put \"--\" before a "
               "negative VALUE.",
    .epilogue = "Example: reeve metric put shop open-orders 17",
    .specs = no_specs,
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
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_metric_value metric;
	struct reeve_client *client;
	int operands, code;

	if (!command_options(&put_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands != 3)
		return command_usage(&put_table, "it takes a CATEGORY, a NAME and a VALUE");
	metric = (struct reeve_metric_value){.category = argv[1], .name = argv[2]};
	if (!number_parse(argv[3], &metric.value))
		return command_usage(&put_table, "VALUE: \"%s\" is not a number", argv[3]);
	client = command_connect_to_change(&shared, &code);
	if (!client)
		return code;
	code = reeve_metrics_put(client, &metric, 1, NULL, &failure) ? EXIT_OK : command_change_failed(&failure);
	command_disconnect(client);
	return code;
}

/*
 * list
 */

static const struct option_table list_table = {
    .program = "reeve metric list",
    .usage = "[CATEGORY] [--json]",
    .summary = "Lists metrics by category and name, with the time since each value changed. The category "
               "\"manager\" has the managers' own counters, as MANAGER/COUNTER.",
    .epilogue = "Examples:\n"
                "  reeve metric list shop\n"
                "  reeve metric list manager --json",
    .specs = no_specs,
};

static const struct column list_columns[] = {{"CATEGORY", COLUMN_TEXT}, {"NAME", COLUMN_TEXT}, {"VALUE", COLUMN_NUMBER},
    {"CHANGED", COLUMN_NUMBER}, {"SOURCE", COLUMN_TEXT}, {0}};

static void list_row(struct table *table, const struct reeve_metric *metric, int64_t now_us)
{
	char text[64];

	table_text(table, metric->category);
	table_text(table, metric->name);
	snprintf(text, sizeof text, "%.15g", metric->value);
	table_text(table, text);
	table_text(table, terminal_age(now_us, metric->changed_us, text, sizeof text));
	table_text(table, metric->source);
}

/* Lists all pages. */
static int list(struct reeve_client *client, const char *category, bool json)
{
	struct table *table = table_create(list_columns);
	struct reeve_metrics_query query = {.category = category, .limit = PAGE};
	struct reeve_metrics *page = NULL, *before = NULL;
	struct reeve_failure failure = {0};
	size_t listed = 0;
	int code = EXIT_OK;

	do {
		page = reeve_metrics(client, &query, &failure);
		reeve_metrics_free(before); /* its last names were in the query */
		before = page;
		if (!page) {
			code = command_failed(&failure);
			break;
		}
		for (size_t i = 0; i < page->count; i++) {
			if (json)
				command_print_json(page->metrics[i].wire);
			else
				list_row(table, &page->metrics[i], reeve_client_now_us(client));
		}
		listed += page->count;
		if (page->count > 0) {
			query.after_category = page->metrics[page->count - 1].category;
			query.after_name = page->metrics[page->count - 1].name;
		}
	} while (page->more && page->count > 0 && !ferror(stdout));
	reeve_metrics_free(page);
	if (!json && listed > 0)
		table_print(table);
	else if (!json && code == EXIT_OK)
		fprintf(stderr, "no metrics\n");
	table_destroy(table);
	return code;
}

int metric_list(int argc, char **argv)
{
	struct shared_options shared = {0};
	struct reeve_client *client;
	int operands, code;

	if (!command_options(&list_table, NULL, &shared, argc, argv, &operands, &code))
		return code;
	if (operands > 1)
		return command_usage(&list_table, "one CATEGORY at a time");
	if (operands == 1 && !*argv[1])
		return command_usage(&list_table, "CATEGORY is empty");
	client = command_connect(&shared, &code);
	if (!client)
		return code;
	code = list(client, operands ? argv[1] : NULL, shared.json);
	reeve_client_destroy(client);
	return code;
}
