/*
 * Tables. Cells are kept until all are known. Each column is as wide as its widest cell. If the terminal is narrower,
 * the widest texts are cut first, then the gaps, then the words, but never numbers.
 */
#include "client/cmd/table.h"

#include "client/cmd/terminal.h"
#include "common/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 2, NARROW = 12, NARROWER = 8, NARROWEST = 5, MAX_COLUMNS = 16 };

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
	struct table *table = mem_calloc(1, sizeof *table);

	table->columns = columns;
	while (columns[table->n_columns].heading && table->n_columns < MAX_COLUMNS)
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
		table->cells = mem_realloc(table->cells, table->capacity * sizeof *table->cells);
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

/* The layout of a table. */
struct layout {
	int widths[MAX_COLUMNS];
	int gap;   /* between columns */
	int shown; /* the number of columns; if not all, an ellipsis follows */
};

static int width_of(const struct table *table, const struct layout *layout)
{
	int sum = (table->n_columns - 1) * layout->gap;

	for (int i = 0; i < table->n_columns; i++)
		sum += layout->widths[i];
	return sum;
}

/* Repeatedly narrows the widest column that may shrink by one, until all fit or none is wider than `least`. */
static void shrink(const struct table *table, struct layout *layout, int columns, int min, bool words)
{
	for (int excess = width_of(table, layout) - columns; excess > 0; excess--) {
		int widest = -1;

		for (int i = 0; i < table->n_columns; i++) {
			enum column_kind kind = table->columns[i].kind;
			bool can = kind == COLUMN_TEXT || (words && kind == COLUMN_WORD);

			if (can && layout->widths[i] > min && (widest < 0 || layout->widths[i] > layout->widths[widest]))
				widest = i;
		}
		if (widest < 0)
			return;
		layout->widths[widest]--;
	}
}

/* Shrinks first what stays most readable; columns that still do not fit are left out, from the right. */
static void fit(const struct table *table, struct layout *layout, int columns)
{
	shrink(table, layout, columns, NARROW, false);
	if (width_of(table, layout) > columns)
		layout->gap = 1;
	shrink(table, layout, columns, NARROWER, false);
	shrink(table, layout, columns, NARROWEST, true);
	if (width_of(table, layout) <= columns)
		return;
	layout->shown = 0;
	for (int space = columns - 1 - layout->gap; (space -= layout->widths[layout->shown]) >= 0; space -= layout->gap)
		layout->shown++;
}

static void write_cell(
    const struct table *table, const struct layout *layout, int index, const struct cell *cell, bool colour, FILE *out)
{
	bool number = table->columns[index].kind == COLUMN_NUMBER;
	int width = layout->widths[index];
	int pad = width > cell->width ? width - cell->width : 0;

	if (number)
		fprintf(out, "%*s", pad, "");
	if (colour)
		fputs(cell->colour, out);
	if (cell->width <= width) {
		fputs(cell->text, out);
	} else {
		int cut_width;
		size_t bytes = terminal_cut(cell->text, width - 1, &cut_width);

		fprintf(out, "%.*s…", (int)bytes, cell->text);
		/* A wide character may not have fitted at the end. */
		pad = width - 1 - cut_width;
	}
	if (colour && *cell->colour)
		fputs(terminal_no_colour, out);
	if (index < table->n_columns - 1)
		fprintf(out, "%*s", (number ? 0 : pad) + layout->gap, "");
}

static void write_row(
    const struct table *table, const struct layout *layout, const struct cell *cells, bool colour, FILE *out)
{
	for (int i = 0; i < layout->shown; i++)
		write_cell(table, layout, i, &cells[i], colour, out);
	fputs(layout->shown < table->n_columns ? "…\n" : "\n", out);
}

void table_write(const struct table *table, FILE *out, int columns, bool colour)
{
	struct layout layout = {.gap = GAP, .shown = table->n_columns};
	struct cell headings[MAX_COLUMNS];

	for (int i = 0; i < table->n_columns; i++) {
		const char *heading = table->columns[i].heading;

		headings[i] = (struct cell){(char *)heading, "", terminal_width(heading)};
		layout.widths[i] = headings[i].width;
	}
	for (size_t i = 0; i < table->n_cells; i++) {
		int *width = &layout.widths[i % table->n_columns];

		if (table->cells[i].width > *width)
			*width = table->cells[i].width;
	}
	if (columns > 0)
		fit(table, &layout, columns);
	write_row(table, &layout, headings, false, out);
	for (size_t i = 0; i < table->n_cells && !ferror(out); i += table->n_columns)
		write_row(table, &layout, &table->cells[i], colour, out);
}

void table_print(const struct table *table)
{
	table_write(table, stdout, terminal_columns(stdout), terminal_has_colour(stdout));
}
