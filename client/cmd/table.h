/* Aligned tables for people. */
#ifndef REEVE_CLIENT_TABLE_H
#define REEVE_CLIENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct table;

enum column_kind {
	COLUMN_WORD,   /* stands on the left, and is cut where the terminal is much too narrow */
	COLUMN_NUMBER, /* stands on the right */
	COLUMN_TEXT,   /* stands on the left, and may be cut where the terminal is too narrow */
};

struct column {
	const char *heading; /* NULL ends the list */
	enum column_kind kind;
};

/* Creates an empty table; `columns` must outlive it. */
struct table *table_create(const struct column *columns);
void table_destroy(struct table *table);

/* Add the next cell, row by row. Text is copied, "" shown as "-". `colour`: an escape sequence, used if the output has
 * colour. */
void table_text(struct table *table, const char *text);
void table_coloured(struct table *table, const char *text, const char *colour);
void table_number(struct table *table, int64_t number);

/* Writes the table; with `columns` > 0, which is how wide the terminal is, no line is longer: long cells are cut to fit, and columns
 * that do not fit even so are left out, with an ellipsis in their place. */
void table_write(const struct table *table, FILE *out, int columns, bool colour);

/* Writes it to standard output as that is. */
void table_print(const struct table *table);

#endif
