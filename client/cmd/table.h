/* Aligned tables for people. */
#ifndef REEVE_CLIENT_TABLE_H
#define REEVE_CLIENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct table;

enum column_kind {
	COLUMN_WORD,   /* left-aligned; cut if the terminal is much too narrow */
	COLUMN_NUMBER, /* right-aligned */
	COLUMN_TEXT,   /* left-aligned; may be cut if the terminal is too narrow */
};

struct column {
	const char *heading; /* NULL ends the list */
	enum column_kind kind;
};

/* Creates an empty table; `columns` must outlive it. */
struct table *table_create(const struct column *columns);
void table_destroy(struct table *table);

/* Add the next cell, row by row. Strings are copied; "" is shown as "-". `colour`: escape sequence for color output. */
void table_text(struct table *table, const char *text);
void table_coloured(struct table *table, const char *text, const char *colour);
void table_number(struct table *table, int64_t number);

/* Writes the table. If `columns` > 0, the width of the terminal, no line is longer: long cells are cut, and columns
 * that still do not fit are left out, with an ellipsis in their place. */
void table_write(const struct table *table, FILE *out, int columns, bool colour);

/* Writes the table to standard output, with its width and color. */
void table_print(const struct table *table);

#endif
