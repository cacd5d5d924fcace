/* Splits a command line into arguments, without a shell. */
#ifndef REEVE_WORKER_HANDLERS_ARGUMENTS_H
#define REEVE_WORKER_HANDLERS_ARGUMENTS_H

#include "common/error.h"

/* Splits at blanks. 'Single quotes' keep everything; "double quotes" keep everything but \" and \\; outside quotes a
 * backslash keeps the next character. Nothing else is special. Returns a new list that ends with NULL (arguments_free),
 * or NULL with *error set: no arguments, an unclosed quote, or a backslash at the end. */
char **arguments_split(const char *line, struct reeve_error *error);

/* Frees the list. NULL is allowed. */
void arguments_free(char **arguments);

#endif
