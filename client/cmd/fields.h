/* Messages as rows of a table and as lines of a description, by the names of their fields. */
#ifndef REEVE_CLIENT_CMD_FIELDS_H
#define REEVE_CLIENT_CMD_FIELDS_H

#include "client/cmd/table.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns the place of a field, "name", or "task.queue" of a message inside, and sets *field; returns NULL if that
 * message is missing. Ends the program if there is no such field: it is a mistake in a table of fields. */
void *fields_at(const void *message, const char *path, const ProtobufCFieldDescriptor **field);

/* Returns true if the field, an enumeration or a string, has this word: "ended". */
bool fields_is(const void *message, const char *path, const char *word);

/* Writes the word of an enumeration or a string field, "" for an enumeration's 0. The caller frees shown->owned. */
void fields_word(const void *message, const char *path, struct shown *shown);

/* Writes a task's attempt and their maximum: "1/5". For columns. */
void fields_tries(const void *task, int64_t now_us, struct shown *shown);

/* Adds a message as a row. */
void fields_row(struct table *table, const struct column *columns, const void *message, int64_t now_us);

/* Prints a message as lines, "heading  value"; those without a value are left out. A message inside that is missing has
 * no values. `width`: of the headings. */
void fields_lines(int width, const struct column *columns, const void *message, int64_t now_us);

/* Prints one such line, unless the value is empty. */
void fields_line(int width, const char *heading, const char *value);

/* Prints the strings of a message as such lines, each under its field's name, except those of the fields `except`,
 * separated by spaces. */
void fields_texts(int width, const void *message, const char *except);

/* Prints a time as such a line, with its age, unless it is 0. */
void fields_time(int width, const char *heading, int64_t us, int64_t now_us);

#endif
