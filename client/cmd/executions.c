/* Number and durations of ended attempts, as a table or as JSON lines. */
#include "client/cmd/executions.h"

#include "client/cmd/command.h"
#include "client/cmd/table.h"
#include "client/cmd/terminal.h"
#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>

static const struct column hour_columns[] = {{"HOUR (UTC)", COLUMN_WORD}, {"ATTEMPTS", COLUMN_NUMBER},
    {"COMPLETED", COLUMN_NUMBER}, {"TOTAL", COLUMN_NUMBER}, {"AVERAGE", COLUMN_NUMBER}, {"FASTEST", COLUMN_NUMBER},
    {"SLOWEST", COLUMN_NUMBER}, {"LAST", COLUMN_NUMBER}, {0}};

static const struct column type_columns[] = {{"QUEUE", COLUMN_TEXT}, {"TYPE", COLUMN_TEXT}, {"ATTEMPTS", COLUMN_NUMBER},
    {"COMPLETED", COLUMN_NUMBER}, {"TOTAL", COLUMN_NUMBER}, {"AVERAGE", COLUMN_NUMBER}, {"FASTEST", COLUMN_NUMBER},
    {"SLOWEST", COLUMN_NUMBER}, {"LAST", COLUMN_NUMBER}, {0}};

static void add_span(struct table *table, int64_t ms)
{
	char span[64];

	table_text(table, duration_format(ms, span, sizeof span));
}

static void add_row(struct table *table, const struct reeve_execution_count *count, bool by_type, int64_t now_us)
{
	char text[40];

	if (by_type) {
		table_text(table, count->queue);
		table_text(table, count->type);
	} else {
		time_format(count->hour_us, text, sizeof text);
		text[10] = ' ';
		text[16] = '\0'; /* "2026-01-14 08:00" */
		table_text(table, text);
	}
	table_number(table, count->count);
	table_number(table, count->succeeded);
	add_span(table, count->total_ms);
	add_span(table, count->average_ms);
	add_span(table, count->fastest_ms);
	add_span(table, count->slowest_ms);
	table_text(table, terminal_age(now_us, count->last_us, text, sizeof text));
}

int executions_show(struct reeve_client *client, const struct reeve_executions_query *query, bool json)
{
	struct reeve_failure failure = {0};
	struct reeve_executions *executions = reeve_executions(client, query, &failure);
	struct table *table;

	if (!executions)
		return command_failed(&failure);
	table = table_create(query->by_type ? type_columns : hour_columns);
	for (size_t i = 0; i < executions->count; i++) {
		if (json)
			command_print_json(executions->counts[i].wire);
		else
			add_row(table, &executions->counts[i], query->by_type, reeve_client_now_us(client));
	}
	if (!json && executions->count > 0)
		table_print(table);
	else if (!json)
		fprintf(stderr, "no attempts\n");
	table_destroy(table);
	reeve_executions_free(executions);
	return EXIT_OK;
}
