/* A command line split into words, without a shell. */
#ifndef REEVE_WORKER_HANDLERS_WORDS_H
#define REEVE_WORKER_HANDLERS_WORDS_H

#include "common/error.h"

/* Splits at blanks. 'single quotes' keep everything; "double quotes" keep everything but \" and \\; outside quotes a
 * backslash keeps the next character. Nothing else is special. Returns a new list that ends with NULL (words_free), or
 * NULL with *error saying what is wrong: no words, a quote or a backslash without its end. */
char **words_split(const char *line, struct reeve_error *error);

/* Frees it. NULL is allowed. */
void words_free(char **words);

#endif
