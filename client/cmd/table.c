/*
 * Tables. Cells are kept until the whole is known; then each column is as wide as its widest cell, unless the terminal
 * is narrower: then the widest column that may shrink gives up columns until all fit.
 */
#include "client/cmd/table.h"

#include "client/cmd/terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 2, NARROWEST = 8, MOST_COLUMNS = 16 };

struct cell {
	char *text;
	const char *colour;
	int width;
};

struct table {
	const struct column *columns;
	int n_columns;
	struct cell *cells;
	size_t n_cells, capacity;
};

struct table *table_create(const struct column *columns)
{
	struct table *table = calloc(1, sizeof *table);

	if (!table)
		abort();
	table->columns = columns;
	while (columns[table->n_columns].heading && table->n_columns < MOST_COLUMNS)
		table->n_columns++;
	return table;
}

void table_destroy(struct table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table);
}

void table_coloured(struct table *table, const char *text, const char *colour)
{
	if (table->n_cells == table->capacity) {
		table->capacity = table->capacity ? 2 * table->capacity : 64;
		table->cells = realloc(table->cells, table->capacity * sizeof *table->cells);
		if (!table->cells)
			abort();
	}
	struct cell *cell = &table->cells[table->n_cells++];
	cell->text = terminal_one_line(*text ? text : "-");
	cell->colour = colour;
	cell->width = terminal_width(cell->text);
}

void table_text(struct table *table, const char *text)
{
	table_coloured(table, text, "");
}

void table_number(struct table *table, int64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRId64, number);
	table_text(table, text);
}

/* Takes one column at a time from the widest that may shrink, until the sum fits or none is left. */
static void shrink(const struct table *table, int *widths, int columns)
{
	int sum = (table->n_columns - 1) * GAP;

	for (int i = 0; i < table->n_columns; i++)
		sum += widths[i];
	while (sum > columns) {
		int widest = -1;

		for (int i = 0; i < table->n_columns; i++) {
			bool can = table->columns[i].kind == COLUMN_TEXT && widths[i] > NARROWEST;

			if (can && (widest < 0 || widths[i] > widths[widest]))
				widest = i;
		}
		if (widest < 0)
			return;
		widths[widest]--;
		sum--;
	}
}

static void write_cell(
    const struct column *column, const char *text, int text_width, int width, const char *colour, bool last, FILE *out)
{
	int pad = width > text_width ? width - text_width : 0;

	if (column->kind == COLUMN_NUMBER)
		fprintf(out, "%*s", pad, "");
	fputs(colour, out);
	if (text_width <= width) {
		fputs(text, out);
	} else {
		int cut_width;
		size_t bytes = terminal_cut(text, width - 1, &cut_width);

		fprintf(out, "%.*s…", (int)bytes, text);
		/* A wide character may not have fitted into the last column. */
		pad = width - 1 - cut_width;
	}
	if (*colour)
		fputs(terminal_no_colour, out);
	if (!last)
		fprintf(out, "%*s", (column->kind == COLUMN_NUMBER ? 0 : pad) + GAP, "");
}

void table_write(const struct table *table, FILE *out, int columns, bool colour)
{
	int widths[MOST_COLUMNS];

	for (int i = 0; i < table->n_columns; i++)
		widths[i] = terminal_width(table->columns[i].heading);
	for (size_t i = 0; i < table->n_cells; i++) {
		int *width = &widths[i % table->n_columns];

		if (table->cells[i].width > *width)
			*width = table->cells[i].width;
	}
	if (columns > 0)
		shrink(table, widths, columns);
	for (int i = 0; i < table->n_columns; i++) {
		const char *heading = table->columns[i].heading;
		bool last = i == table->n_columns - 1;

		write_cell(&table->columns[i], heading, terminal_width(heading), widths[i], "", last, out);
	}
	fputc('\n', out);
	for (size_t i = 0; i < table->n_cells && !ferror(out); i++) {
		const struct cell *cell = &table->cells[i];
		int column = i % table->n_columns;
		bool last = column == table->n_columns - 1;

		write_cell(&table->columns[column], cell->text, cell->width, widths[column], colour ? cell->colour : "",
		    last, out);
		if (last)
			fputc('\n', out);
	}
}

void table_print(const struct table *table)
{
	table_write(table, stdout, terminal_columns(stdout), terminal_has_colour(stdout));
}
