/* Terminal output: colors, widths, ages, and strings without control characters. */
#ifndef REEVE_CLIENT_TERMINAL_H
#define REEVE_CLIENT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns the columns of the terminal `out`, or the value of the variable COLUMNS; 0 if it is not a terminal. */
int terminal_columns(FILE *out);

/* Sets when there are colors: "always", "never", or "auto", as without this. */
void terminal_colour_set(const char *when);

/* Returns whether to write colors: unless that was set, if `out` is a terminal with colors, and NO_COLOR is not set. */
bool terminal_has_colour(FILE *out);

/* Returns the escape sequence for the word of a state, such as "dead" or "given_up"; "" if it has no color. */
const char *terminal_state_colour(const char *word);
extern const char terminal_no_colour[];

/* Writes a string. The bytes of control characters, except newline and tab, and of characters that change the text
 * direction are written as \xNN. */
void terminal_write_clean(FILE *out, const char *text);

/* Writes JSON with these characters in its strings as \uNNNN. */
void terminal_write_json(FILE *out, const char *json);

/* Returns a copy of a string for one cell of a table: white space as blanks, other characters of this kind as \xNN. The
 * caller must free() it. */
char *terminal_one_line(const char *text);

/* Returns how many newlines a text has. */
int terminal_lines(const char *text);

/* Returns how many columns a string takes. */
int terminal_width(const char *text);

/* Returns how many of its bytes fit into `columns`; sets *width to the columns that those take. */
size_t terminal_cut(const char *text, int columns, int *width);

/* Writes "3s", "5m", "2h" or "4d" since then, "in 5m" for the future, "-" for never. Returns `out`. */
const char *terminal_age(int64_t now_us, int64_t then_us, char *out, size_t size);

/* Writes a time in the local time zone, "2026-01-14 09:00:00.123+01:00" (or Z in UTC), or "-" for never. Returns `out`.
 */
const char *terminal_time(int64_t us, char *out, size_t size);

/* Writes a time without seconds, "2026-01-14 09:00+01:00". Returns `out`. */
const char *terminal_minute(int64_t us, char *out, size_t size);

#endif
