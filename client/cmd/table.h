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

/* What a column shows of a message. */
struct shown {
	char text[512];
	const char *value;  /* `text`, or a longer string of the message */
	char *owned;        /* a string to be freed, or NULL */
	const char *colour; /* escape sequence; "": none */
};

/* How a field is shown. */
enum show_as {
	AS_VALUE,  /* a number, a string, an enumeration's word, yes or no; names as "a,b", or "all" */
	AS_NUMBER, /* a number; 0 as nothing */
	AS_STATE,  /* a word, in its color */
	AS_SWITCH, /* on or off */
	AS_AGE,    /* a time as its age, or how far it is away */
	AS_TIME,   /* a time in the local time zone; 0 as nothing */
	AS_HOUR,   /* the same without seconds */
	AS_SPAN,   /* milliseconds as a duration; 0 as nothing */
};

/* A column of a table, or a line of a description. fields.h fills it in from a message: by the name of a field, or by a
 * function. */
struct column {
	const char *heading; /* NULL ends the list */
	enum column_kind kind;
	const char *field; /* "name", or "task.queue" of a message inside; NULL: `show` writes it */
	enum show_as as;
	const char *otherwise; /* shown if the value is empty; NULL: nothing */
	/* Writes out->text, which is empty, or sets out->value. */
	void (*show)(const void *message, int64_t now_us, struct shown *out);
};

/* Columns in one line: COL_NUMBER("AGE", "created_us", .as = AS_AGE). */
#define COL_WORD(heading_, field_, ...) COLUMN(COLUMN_WORD, heading_, field_, ##__VA_ARGS__)
#define COL_NUMBER(heading_, field_, ...) COLUMN(COLUMN_NUMBER, heading_, field_, ##__VA_ARGS__)
#define COL_TEXT(heading_, field_, ...) COLUMN(COLUMN_TEXT, heading_, field_, ##__VA_ARGS__)
#define COLUMN(kind_, heading_, field_, ...)                                                                           \
	{                                                                                                                  \
		.heading = (heading_), .kind = (kind_), .field = (field_), ##__VA_ARGS__                                       \
	}

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
