/* Comma-separated lists of queues and types. */
#ifndef REEVE_WORKER_NAMES_H
#define REEVE_WORKER_NAMES_H

#include "common/error.h"

#include <stddef.h>

/* A list of names. */
struct names {
	const char **list; /* each owned */
	size_t count;
};

/* Parses "a, b" (NULL or empty: no names) and adds the names to *names. False: *error has `what` ("queues") and the
 * position of the invalid name. */
bool names_parse(const char *text, const char *what, struct names *names, struct reeve_error *error);

/* Adds a copy of a name. */
void names_add(struct names *names, const char *name, size_t length);

/* Frees the names. */
void names_free(struct names *names);

#endif
