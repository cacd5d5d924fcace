/* The lines of a file, or the elements of the one JSON array in it, read twice: once to check them all, once to send
 * them. */
#ifndef REEVE_CLIENT_LINES_H
#define REEVE_CLIENT_LINES_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LONGEST_LINE = 64 * 1024 * 1024 };

struct lines {
	const char *name; /* for messages */
	FILE *file;
	bool is_array, array_ended;
	const char *unit; /* "line", or "element" of an array */
	int64_t size;     /* in bytes */
	int64_t number;   /* of the last line or element read, from 1 */
	int64_t offset;   /* of its end */
	char *text;       /* with NUL at its end */
	size_t length;
	size_t capacity;
};

/* Opens a file, or standard input for "-". Returns false with *error set on an error. */
bool lines_open(struct lines *lines, const char *path, struct reeve_error *error);
void lines_close(struct lines *lines);

/* Prepares for reading. Copies what cannot be read twice, such as standard input, to an unnamed temporary file. */
bool lines_prepare(struct lines *lines, struct reeve_error *error);

/* Reads the next line that is not blank into `text`, without its newline, or the next element. Returns false at the
 * end, or, with error->code not OK, on an error. */
bool lines_next(struct lines *lines, struct reeve_error *error);

/* Goes back to the first line or element. */
void lines_rewind(struct lines *lines);

#endif
