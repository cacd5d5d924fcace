/* What a terminal shows: colours, widths, ages of things, and text without what would steer it. */
#ifndef REEVE_CLIENT_TERMINAL_H
#define REEVE_CLIENT_TERMINAL_H

#include <reeve/client.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The columns of the terminal behind `out`, or as many as the variable COLUMNS says; 0 if it is none. */
int terminal_columns(FILE *out);

/* True if `out` is a terminal that shows colours, and nobody has asked for none (NO_COLOR). */
bool terminal_has_colour(FILE *out);

/* The escape sequence that suits a status, "" if none does. */
const char *terminal_status_colour(enum reeve_task_status status);
extern const char terminal_no_colour[];

/* Writes text with the bytes of every control character but newline and tab, and of those that change the direction of writing, as
 * \xNN. */
void terminal_write_clean(FILE *out, const char *text);

/* Writes a JSON text with these characters in its strings as \uNNNN. */
void terminal_write_json(FILE *out, const char *json);

/* A copy of text fit for one cell of a table: white space as blanks, others of these characters as \xNN. free() it. */
char *terminal_one_line(const char *text);

/* How many columns text takes. */
int terminal_width(const char *text);

/* How many bytes of it fit into `columns`; *width says how many columns those take. */
size_t terminal_cut(const char *text, int columns, int *width);

/* "3s", "5m", "2h" or "4d" since then, "in 5m" if it is still to come, "-" for never. Returns `out`. */
const char *terminal_age(int64_t now_us, int64_t then_us, char *out, size_t size);

/* "2026-01-14 08:00:00.123Z", or "-" for never. Returns `out`. */
const char *terminal_time(int64_t us, char *out, size_t size);

#endif
